"""Which statements of a launch make two threads of a block meet at one element of memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS, Tree
from tilegen.poly.project import Placed, Program, Use, project, renamed
from tilegen.poly.system import Row, Undecided, same, solvable

Path = tuple[int, ...]


@dataclass(frozen=True)
class Conflict:
    """Thread t touches an element in `before`, another thread touches it later in `after`, one of them writes.

    Attributes:
        before, after: the positions of the two statements in the launch, one number for each body.
        depth: how many loops hold both in one iteration: the two meet in the body at `before[:depth]`.
        carried: True if the loop with that body has gone on to a later iteration in between.
        writes: whether the first access writes, and whether the second does.
    """

    buffer: str
    of_global: bool
    before: Path
    after: Path
    depth: int
    carried: bool
    writes: tuple[bool, bool]


def conflicts(tree: Tree) -> tuple[Conflict, ...]:
    """The conflicts of a tree with one launch, whose copies have been dealt out to threads."""
    program = project(tree)
    return tuple(c for one in program.leaves for two in program.leaves for c in _between(program, one, two))


def _between(program: Program, one: Placed, two: Placed) -> Iterator[Conflict]:
    common = _common(one, two)
    forward = one.places < two.places and common == one.shares(two)
    for a in one.leaf.uses:
        for b in two.leaf.uses:
            if a.buffer != b.buffer or not (a.writes or b.writes):
                continue
            space = program.buffers[a.buffer].space
            if space == "register":
                continue
            for depth, carried in [(common, False)] * forward + [(d + 1, True) for d in range(common)]:
                if carried and one.leaf.kinds[depth - 1] in BLOCK_KINDS:
                    continue
                if _meet(program, one, two, (a, b), depth, carried):
                    kind = (a.writes, b.writes)
                    yield Conflict(a.buffer, space == "global", one.places, two.places, depth, carried, kind)


def _common(one: Placed, two: Placed) -> int:
    """How many loops outside thread loops hold both."""
    depth = 0
    for kind in one.leaf.kinds[: one.shares(two)]:
        if kind in THREAD_KINDS:
            break
        depth += 1
    return depth


def _meet(program: Program, one: Placed, two: Placed, uses: tuple[Use, Use], depth: int, carried: bool) -> bool:
    shared = frozenset(one.leaf.names[: depth - carried])
    names = two.leaf.primed(shared)
    question = (*program.original.context, *one.leaf.domain, *renamed(two.leaf.domain, names))
    question += same(uses[0].forms, [f.renamed(names) for f in uses[1].forms])
    if carried:
        loop = one.leaf.names[depth - 1]
        question += ((False, ((f"{loop}'", 1), (loop, -1)), -1),)
    try:
        return any(solvable((*question, row)) for row in _other_thread(one, two))
    except Undecided:
        return True  # one barrier too many is no mistake


def _other_thread(one: Placed, two: Placed) -> Iterator[Row]:
    """Each way in which the two can be run by different threads; outside an axis' loops it is thread 0."""
    for kind in THREAD_KINDS:
        first, second = _along(one, kind), _along(two, kind)
        for sign in (1, -1):
            terms: tuple[tuple[str, int], ...] = ()
            terms += ((first, sign),) if first else ()
            terms += ((f"{second}'", -sign),) if second else ()
            if terms:
                yield False, terms, -1


def _along(placed: Placed, kind: str) -> str | None:
    pairs = zip(placed.leaf.names, placed.leaf.kinds, strict=True)
    return next((name for name, k in pairs if k == kind), None)

