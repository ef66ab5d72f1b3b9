"""What a lowered program does beside the statements of a tree, as statements: what it starts, which is work of a tree
and goes on beside its thread, and what it says of events of a timeline: that it arrives, waits, or has a fence."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, TypeGuard

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import Access, Buffer, Const, Stmt
from tilegen.lowering.launch.timelines import COPIES, Arrivals, Timeline
from tilegen.poly.instances import Placed, Projection

Does = Literal["start", "arrive", "wait", "fence"]

# What is said of events is said of a barrier in shared memory, or else of this; the timeline tells which they are.
EVENTS = Buffer("all events", "i64", (), "barrier", ())


@dataclass(frozen=True)
class GroupCount:
    """How many groups of asynchronous copies each thread has made, in the loops around.

    They are counted from the start of an iteration of the loop `since`, or from that of the launch.
    """

    groups: Affine = Affine()
    since: str = ""


@dataclass(frozen=True)
class OnTimeline(Stmt):
    """A statement that does one of these on a timeline; waits are for all, but for the last `left` groups.

    Of copies, `made` are the groups before it.
    """

    does: Does = "start"
    line: Timeline = COPIES
    left: int = 0
    made: GroupCount = GroupCount()


def does(node: object, what: Does, *lines: Timeline | Arrivals) -> TypeGuard[OnTimeline]:
    """True for a statement that does this on one of the timelines, or on one with such arrivals."""
    return isinstance(node, OnTimeline) and node.does == what and (node.line in lines or node.line.arrivals in lines)


def is_event(node: object) -> bool:
    """True for what is said of events, and is nothing that the kernel has."""
    return isinstance(node, OnTimeline) and node.does != "start"


def is_load(placed: Placed) -> bool:
    """True for a statement whose thread reads memory itself: no copy or product that only starts here."""
    return not isinstance(placed.leaf.stmt, OnTimeline)


def ends_at_barrier(placed: Placed) -> bool:
    """True for work whose bytes arrive at a barrier in shared memory, where any thread may wait for them."""
    return does(placed.leaf.stmt, "start", "bytes")


def is_store(placed: Placed) -> bool:
    """True for work that writes a tensor: no wait is for the end of that."""
    return does(placed.leaf.stmt, "start", "group") and placed.leaf.stmt.line.writes_tensors


def started(stmt: Stmt, line: Timeline) -> OnTimeline:
    """The statement, as work that is started on a timeline."""
    return OnTimeline(**{f.name: getattr(stmt, f.name) for f in fields(Stmt)}, line=line)


def wait_for_copies(left: int, made: GroupCount) -> OnTimeline:
    """What a barrier does first that waits for asynchronous copies."""
    target, nothing = Access(EVENTS.name, ()), Const(0, "i64")
    return OnTimeline("asynchronous copies", target, nothing, does="wait", left=left, made=made)


def said(placed: Placed) -> OnTimeline:
    """The statement of what does something on a timeline."""
    assert isinstance(placed.leaf.stmt, OnTimeline)
    return placed.leaf.stmt


def leaves_that(program: Projection, what: Does, *lines: Timeline | Arrivals) -> list[Placed]:
    """The leaves of the program whose statements do this on one of these."""
    return [placed for placed in program.leaves if does(placed.leaf.stmt, what, *lines)]
