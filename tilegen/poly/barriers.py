"""Which statements of a launch need a barrier between them: dependences that cross threads of a block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS, Tree
from tilegen.poly.project import Leaf, Placed, Program, Use, project, renamed
from tilegen.poly.system import Row, Undecided, example, same, solvable
from tilegen.poly.verdict import Words


@dataclass(frozen=True)
class Dependence:
    """Two threads of one block use an element of shared or global memory, one writing, in a fixed order.

    Attributes:
        kind: "RAW" (the sink reads what the source wrote), "WAR" or "WAW".
        source, sink: leaves of the launch, counted in the order of `ir.walk.leaves`.
        carried_by: the loop of which the sink runs in a later iteration, or None: all common loops that
            are not thread loops are in the same iteration, and the source comes first in the text.
        witness: the element and the two threads, at concrete sizes.
    """

    kind: str
    buffer: str
    source: int
    sink: int
    carried_by: str | None
    witness: str = ""


def dependences(tree: Tree, launch: int) -> tuple[Dependence, ...]:
    """All dependences of launch number `launch` (an index into `tree.body`) that cross threads.

    Cooperative loops have been dealt out before: thread loops say which thread runs what. A statement
    outside the loop of some thread dimension that the launch has runs on thread 0 of it. Every dependence
    that exists at some admitted size is listed; one that isl cannot decide is listed too, without witness.
    """
    program = project(tree)
    leaves = [p for p in program.leaves if p.places[0] == launch]
    found: dict[tuple[str, str, int, int, str | None], Dependence] = {}
    for source, one in enumerate(leaves):
        for sink, two in enumerate(leaves):
            for a, b in conflicting(program, one.leaf, two.leaf):
                for way in ways(one, two):
                    key = (_kind(a, b), a.buffer, source, sink, way[0])
                    if key in found:
                        continue
                    try:
                        witness = crossing(program, one, two, a, b, way)
                    except Undecided:
                        witness = ""
                    if witness is not None:
                        found[key] = Dependence(*key, witness)
    return tuple(found.values())


def _kind(a: Use, b: Use) -> str:
    return "WAW" if a.writes and b.writes else "RAW" if a.writes else "WAR"


def conflicting(program: Program, one: Leaf, two: Leaf) -> Iterator[tuple[Use, Use]]:
    """Accesses of the two leaves to one buffer that threads can meet in, one of them writing."""
    for a in one.uses:
        if program.buffers[a.buffer].space == "register":
            continue
        for b in two.uses:
            if a.buffer == b.buffer and (a.writes or b.writes):
                yield a, b


# How one comes before two: the loop that carries it, the loops both are in the same iteration of, rows.
Way = tuple[str | None, frozenset[str], tuple[Row, ...]]


def ways(one: Placed, two: Placed) -> Iterator[Way]:
    """The ways in which a thread's instance of `two`, primed, is later than another thread's of `one`."""
    depth = one.shares(two)
    names = one.leaf.names[:depth]
    steps = [n for n, k in zip(names, one.leaf.kinds, strict=False) if k not in THREAD_KINDS]
    if one.places < two.places:
        yield None, frozenset(steps), ()
    for n, name in enumerate(steps):
        kind = one.leaf.kinds[names.index(name)]
        if kind in BLOCK_KINDS:
            continue
        yield name, frozenset(steps[:n]), ((False, ((f"{name}'", 1), (name, -1)), -1),)


def crossing(program: Program, first: Placed, second: Placed, a: Use, b: Use, way: Way) -> str | None:
    """The witness that two threads of one block meet in this way, or None if they never do."""
    original = program.original
    one, two = first.leaf, second.leaf
    _, shared, rows = way
    names = two.primed(shared)
    question = (*original.context, *one.domain, *renamed(two.domain, names), *rows)
    question += same(a.forms, [f.renamed(names) for f in b.forms])
    question += _same_block(one, two, names)
    threads = [k for k in THREAD_KINDS if k in (*one.kinds, *two.kinds)]
    for kind in threads:
        mine, other = _loop(one, kind), _loop(two, kind)
        for sign in (1, -1):
            terms: tuple[tuple[str, int], ...] = ((mine, sign),) if mine else ()
            terms += ((f"{other}'", -sign),) if other else ()
            apart = (*question, (False, terms, -1))
            if not solvable(apart):
                continue
            order = [*original.kernel.sizes, *one.names, *(names.get(n, n) for n in two.names)]
            found = example(apart, order)
            assert found is not None
            return _sentence(Words(original, found, shared), one, two, a, b, threads)
    return None


def _same_block(one: Leaf, two: Leaf, names: dict[str, str]) -> tuple[Row, ...]:
    """Both are in one block, also where each has block loops of its own."""
    rows: tuple[Row, ...] = ()
    for kind in BLOCK_KINDS:
        first, second = _loop(one, kind), _loop(two, kind)
        terms: tuple[tuple[str, int], ...] = ((first, 1),) if first else ()
        terms += ((names.get(second, second), -1),) if second else ()
        if terms and not (first == second and first not in names):
            rows += ((True, terms, 0),)
    return rows


def _loop(leaf: Leaf, kind: str) -> str | None:
    return next((n for n, k in zip(leaf.names, leaf.kinds, strict=True) if k == kind), None)


def _sentence(words: Words, one: Leaf, two: Leaf, a: Use, b: Use, threads: list[str]) -> str:
    doing = []
    for leaf, use, second in ((one, a, False), (two, b, True)):
        who = f"the copy {leaf.stmt.name}" if leaf.stmt.is_copy else words.instance(leaf, second)
        verb = "written" if use.writes else "read"
        doing += [f"{verb} by {who} on thread {_thread(words, leaf, second, threads)}"]
    return f"{words.element(a)} is {doing[0]}, then {doing[1]}{words.sizes}"


def _thread(words: Words, leaf: Leaf, second: bool, threads: list[str]) -> str:
    parts = []
    for kind in threads:
        loop = _loop(leaf, kind)
        name = f"{loop}'" if second else f"{loop}"
        parts += [f"{loop}={words.point.get(name, 0)}" if loop else f"{kind}=0"]
    return f"({', '.join(parts)})"
