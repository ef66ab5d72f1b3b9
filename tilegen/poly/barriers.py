"""Which statements of a launch need a barrier between them: dependences that cross threads of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from tilegen.ir.atomics import accumulated
from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS, Tree
from tilegen.poly.plain import Row
from tilegen.poly.project import Leaf, Original, Placed, Program, Use, common, project, renamed, told_apart
from tilegen.poly.rows import Rows
from tilegen.poly.system import Undecided, example, same, solvable
from tilegen.poly.verdict import Words


@dataclass(frozen=True)
class Dependence:
    """Two threads of one block use an element of shared or global memory, one writing, in a fixed order.

    Attributes:
        kind: "RAW" (the sink reads what the source wrote), "WAR" or "WAW".
        source, sink: leaves of the launch, counted in the order of `ir.walk.leaves`.
        carried_by: the loop of which the sink runs in a later iteration, or None: all common loops that
            are not thread loops are in the same iteration, and the source comes first in the text.
        apart: loops of which a whole iteration is certain to pass in between: the one that carries it, if the
            sink never runs in the very next iteration, or loops of the sink that it is never in the first of.
        tell: says the element and the two threads, at concrete sizes; few are asked.
    """

    kind: str
    buffer: str
    source: int
    sink: int
    carried_by: str | None
    tell: Callable[[], str] = field(default=str, compare=False, repr=False)
    apart: frozenset[str] = frozenset()

    @property
    def witness(self) -> str:
        return self.tell()


def dependences(tree: Tree, launch: int) -> tuple[Dependence, ...]:
    """All dependences of launch number `launch` (an index into `tree.body`) that cross threads.

    Cooperative loops have been dealt out before: thread loops say which thread runs what. A statement
    outside the loop of some thread dimension that the launch has runs on thread 0 of it, or on all of them
    if it writes a register that each of them has; lanes that combine leave the target to the first of them.
    Every dependence that exists at some admitted size is listed; one that isl cannot decide is listed too,
    without witness.
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
                        tell = crossing(program, one, two, a, b, way)
                    except Undecided:
                        tell = str
                    if tell is not None:
                        found[key] = Dependence(*key, tell, _apart(program, one, two, a, b, way))
    return tuple(found.values())


def _apart(program: Program, one: Placed, two: Placed, a: Use, b: Use, way: Way) -> frozenset[str]:
    return frozenset(
        loop for loop, row in soonest(one, two, way[0]) if crossing(program, one, two, a, b, way, (row,)) is None
    )


def soonest(one: Placed, two: Placed, carried_by: str | None) -> Iterator[tuple[str, Row]]:
    """Loops that may have a whole iteration between `one` and the later `two`, and a row that says they have not."""
    if carried_by is not None:
        yield carried_by, (True, ((f"{carried_by}'", 1), (carried_by, -1)), -1)
        return
    depth = one.shares(two)
    for name, kind in zip(two.leaf.names[depth:], two.leaf.kinds[depth:], strict=True):
        if kind in THREAD_KINDS:
            return
        if kind not in BLOCK_KINDS:
            yield name, (True, ((f"{name}'", 1),), 0)


def _kind(a: Use, b: Use) -> str:
    return "WAW" if a.writes and b.writes else "RAW" if a.writes else "WAR"


def conflicting(program: Program, one: Leaf, two: Leaf) -> Iterator[tuple[Use, Use]]:
    """Accesses of the two leaves to one buffer that threads can meet in, one of them writing."""
    for a in one.uses:
        if program.buffers[a.buffer].space == "register":
            continue
        if accumulated(one.stmt, two.stmt, program.buffers[a.buffer]):
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


def crossing(
    program: Program, first: Placed, second: Placed, a: Use, b: Use, way: Way, only: tuple[Row, ...] = ()
) -> Callable[[], str] | None:
    """What tells how two threads of one block meet in this way, where `only` holds; None if they never do."""
    original = program.original
    one, two = first.leaf, second.leaf
    _, shared, rows = way
    who = {kind: (_thread(program, first, a, kind), _thread(program, second, b, kind)) for kind in THREAD_KINDS}
    # Most pairs are told apart by what their places have in common: then no rows are made.
    place = common(a, b)
    further = [row for row in _further(who) if not told_apart(one, two, place, shared, row[-1:])]
    if not further:
        return None
    names = two.primed(shared)
    question = original.pair(one, two, shared)
    question += rows + only + same(a.forms, [f.renamed(names) for f in b.forms]) + _same_block(one, two, names)
    if question.plain.impossible:
        return None  # whichever threads they are
    for apart in (question + row for row in further):
        if solvable(apart):
            return partial(_told, original, apart, shared, (one, a), (two, b), who)
    return None


def _further(who: Mapping[str, tuple[_Thread, _Thread]]) -> Iterator[tuple[Row, ...]]:
    """The ways in which the two are different threads: what each can be along an axis, and that one is further."""
    for mine, other in who.values():
        for sign in (1, -1):
            terms: tuple[tuple[str, int], ...] = ((mine.name, sign),) if mine.name else ()
            terms += ((f"{other.name}'", -sign),) if other.name else ()
            if terms:
                yield (*mine.rows, *renamed(other.rows, {other.name: f"{other.name}'"}), (False, terms, -1))


def _told(
    original: Original,
    question: Rows,
    shared: frozenset[str],
    first: tuple[Leaf, Use],
    second: tuple[Leaf, Use],
    who: Mapping[str, tuple[_Thread, _Thread]],
) -> str:
    (one, a), (two, b) = first, second
    names = two.primed(shared)
    found = example(question, [*original.kernel.sizes, *one.names, *(names.get(n, n) for n in two.names)])
    assert found is not None
    words = Words(original, found, shared)
    return _sentence(words, one, two, a, b, {k: w for k, w in who.items() if w[0].name or w[1].name})


@dataclass(frozen=True)
class _Thread:
    """Where along an axis an access is made: a name, and the rows that say what it can be; no name is thread 0."""

    name: str
    rows: tuple[Row, ...] = ()


def _thread(program: Program, placed: Placed, use: Use, kind: str) -> _Thread:
    leaf, launch = placed.leaf, placed.places[0]
    loop = _loop(leaf, kind)
    if loop is not None:
        # The lanes that combine leave the target to the first of them.
        alone = use.writes or any(use.index == w.index for w in leaf.uses if w.writes and w.buffer == use.buffer)
        return _Thread("" if alone and program.lanes.get(placed.number) == loop else loop)
    if (leaf.stmt.target.buffer, kind) not in program.copied[launch]:
        return _Thread("")
    threads = program.threads(launch, kind)
    return _Thread(kind, ((False, ((kind, 1),), 0), (False, ((kind, -1),), threads - 1)))


def _same_block(one: Leaf, two: Leaf, names: Mapping[str, str]) -> tuple[Row, ...]:
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


def _sentence(words: Words, one: Leaf, two: Leaf, a: Use, b: Use, who: Mapping[str, tuple[_Thread, _Thread]]) -> str:
    doing = []
    for leaf, use, second in ((one, a, False), (two, b, True)):
        name = f"the copy {leaf.stmt.name}" if leaf.stmt.is_copy else words.instance(leaf, second)
        verb = "written" if use.writes else "read"
        doing += [f"{verb} by {name} on thread {_place(words, {k: w[second] for k, w in who.items()}, second)}"]
    return f"{words.element(a)} is {doing[0]}, then {doing[1]}{words.sizes}"


def _place(words: Words, who: Mapping[str, _Thread], second: bool) -> str:
    parts = []
    for kind, thread in who.items():
        point = words.point.get(f"{thread.name}'" if second else thread.name, 0)
        parts += [f"{thread.name}={point}" if thread.name else f"{kind}=0"]
    return f"({', '.join(parts)})"
