"""What a lowered program does beside the statements of a tree, as statements: what it starts, which is work of a tree
and goes on beside its thread, and what it says of events of a timeline: that it arrives, waits, or has a fence."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, TypeGuard

from tilegen.ir.nodes import Buffer, Stmt
from tilegen.lowering.launch.timelines import COPIES, Timeline
from tilegen.poly.instances import Placed, Projection

Does = Literal["start", "arrive", "wait", "fence"]

# What is said of events is said of a barrier in shared memory, or else of this; the timeline tells which they are.
EVENTS = Buffer("all events", "i64", (), "barrier", ())


@dataclass(frozen=True)
class OnTimeline(Stmt):
    """A statement that does one of these on a timeline; waits are for all, but for the last `left` groups."""

    does: Does = "start"
    line: Timeline = COPIES
    left: int = 0


def does(node: object, what: Does, *lines: Timeline) -> TypeGuard[OnTimeline]:
    """True for a statement that does this on one of the timelines."""
    return isinstance(node, OnTimeline) and node.does == what and node.line in lines


def is_event(node: object) -> bool:
    """True for what is said of events, and is nothing that the kernel has."""
    return isinstance(node, OnTimeline) and node.does != "start"


def is_load(placed: Placed) -> bool:
    """True for a statement whose thread reads memory itself: no copy or product that only starts here."""
    return not isinstance(placed.leaf.stmt, OnTimeline)


def started(stmt: Stmt, line: Timeline) -> OnTimeline:
    """The statement, as work that is started on a timeline."""
    return OnTimeline(**{f.name: getattr(stmt, f.name) for f in fields(Stmt)}, line=line)


def leaves_that(program: Projection, what: Does, *lines: Timeline, left: int = 0) -> list[Placed]:
    """The leaves of the program whose statements do this on one of the timelines."""
    each = ((placed, placed.leaf.stmt) for placed in program.leaves)
    return [placed for placed, stmt in each if does(stmt, what, *lines) and stmt.left == left]
