"""Asynchronous copies: whoever touches what one writes has passed a wait that it has ended before.

Copies are made in groups, numbered from 0 in the order in which each thread makes them. A wait that leaves
`n` groups on their way, with `g` of them made before it, has ended those below g - n. All threads run it, at a
barrier: after it what each of them has copied is there. Whoever writes the place again has passed one, too, be it by
another copy: of two that are on their way, none is the last. For what reads by a way of its own (descriptors, bulk
stores) the barrier has a fence, which stands after its wait: before that, a copy may not have written yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tilegen.ir.nodes import Access, Const, Loop, Node, Stmt
from tilegen.lowering.launch.timelines import COPIES
from tilegen.poly.instances import Leaf, Placed, Projection
from tilegen.poly.rows import Rows
from tilegen.poly.verdict import Refused, Unproved
from tilegen.proof.reading.on_timelines import OnTimeline
from tilegen.proof.waiting.barriers import FoundBarrier, Gap, GroupCount
from tilegen.proof.waiting.moments import (
    Moment,
    orders_before,
    refuse_uncovered,
    rows_of_one_life,
    rows_of_same_iteration,
    rows_of_same_place,
)

# After all that stands in a child.
LAST = 1 << 30


def check_waits(
    program: Projection, barriers: Mapping[Gap, FoundBarrier], copies: Sequence[tuple[Stmt, GroupCount]]
) -> None:
    """Refused where something is read, or written again, that an asynchronous copy may not have written yet."""
    made = {id(stmt): groups for stmt, groups in copies}
    waits = [(placed_at(program, gap), barrier) for gap, barrier in barriers.items() if barrier.wait is not None]
    for copy in program.leaves:
        if id(copy.leaf.stmt) in made:
            (name,) = copy.leaf.written_buffers
            for other in program.leaves:
                if name in other.leaf.buffers and other.places[0] == copy.places[0]:
                    _check_pair(program, copy, other, made[id(copy.leaf.stmt)], waits)


def placed_at(program: Projection, gap: Gap) -> Placed:
    """The place of a barrier, after the child before it."""
    path, place = gap
    around: list[Loop] = []
    body: tuple[Node, ...] = program.tree.body
    for n in path:
        loop = body[n]
        assert isinstance(loop, Loop)
        around.append(loop)
        body = loop.body
    names, kinds, extents = zip(*((loop.name, loop.kind, loop.extent) for loop in around), strict=True)
    wait = Stmt("wait", Access("", ()), Const(0, "i64"))
    return Placed(Leaf(names, kinds, extents, wait), (*path, place - 1, LAST), -1)


def _check_pair(
    program: Projection, copy: Placed, other: Placed, made: GroupCount, waits: Sequence[tuple[Placed, FoundBarrier]]
) -> None:
    here, there = Moment(other), Moment(copy, "'")
    (write,) = [u for u in copy.leaf.uses if u.writes]
    if isinstance(other.leaf.stmt, OnTimeline) and other.leaf.stmt.line != COPIES:
        waits = [(placed, barrier) for placed, barrier in waits if barrier.fence]
    for use in {(u.index, u.writes): u for u in other.leaf.uses if u.buffer == write.buffer}.values():
        # What is read there of an earlier life is nothing that is used.
        life = () if use.writes else rows_of_one_life(program, write.buffer, there, here)
        what = "is written again" if use.writes else "is read"
        for way in orders_before(there, here):
            wanted = here.rows + there.rows + life + way + rows_of_same_place(there, write, here, use)
            sentence = f"an asynchronous copy may not have ended where what it writes {what}"
            try:
                refuse_uncovered(program, sentence, here, wanted, _ended(there, here, made, waits), there.loops)
            except Refused:
                if any(barrier.made.since != made.since for _, barrier in waits):
                    raise Unproved("asynchronous copies are made in one loop and waited for in another") from None
                raise


def _ended(
    there: Moment, here: Moment, made: GroupCount, waits: Sequence[tuple[Placed, FoundBarrier]]
) -> Iterator[Rows]:
    """Rows for each wait before `here` that has ended what is copied `there`."""
    for placed, barrier in waits:
        if barrier.wait is None or barrier.made.since != made.since:
            continue
        seen = Moment(placed, "''")
        ended = seen.form(barrier.made.groups - barrier.wait).minus(there.form(made.groups), 1).nonnegative()
        if made.since:
            ended += rows_of_same_iteration(there, seen, there.leaf.names[: there.leaf.names.index(made.since) + 1])
        for way in orders_before(seen, here):
            yield seen.rows + way + ended
