"""Dependent launches: one that begins early touches no global memory before all launches before it are complete.

    let_next_launch_begin(); start_barriers(...); wait_for_earlier_launches(); all the rest

Theorem: launches that begin early compute what they compute one after the other, if in each of them every thread comes
by a wait, on every path, and no thread reads or writes global memory before it.

Why: the wait returns when the launch before is complete and what that has written is visible (PTX ISA, griddepcontrol).
That launch is complete when all its threads are, and each of these came by a wait of its own: by induction all launches
before are complete, and visible, also where a launch two before has let its next begin long ago. So what is read has
been written, and what is overwritten is no longer read. The first one that begins early finds what stands on the stream
complete by the same wait; a launch that does not ask for it begins when all before are complete. One without a wait may
be complete before those before it are, and the next one would not know: it is refused.

Progress: a launch begins when all blocks of the one before have let it, or are done. Those blocks run by then, and
nobody who waits has a place that they need.

What stands before the wait is set-up by all threads: barriers in shared memory, names for integers, registers. It is
compared as a list, so that no branch, loop or role can hold a wait, or let a thread go by another way.
"""

from __future__ import annotations

from itertools import takewhile

from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import Spmd
from tilegen.lowering.launch.timelines import LAUNCHES, Arrive, Await, Event
from tilegen.lowering.sync.dependent_launch import is_set_up
from tilegen.poly import Refused


def without_launch_waits(launch: Launch) -> tuple[Spmd, ...]:
    """The body without its part in overlapping launches. Raises Refused where it touches global memory too early, or
    where waits stand in vain."""
    said = [node for node in launch.nodes if isinstance(node, Event) and node.line.asks]
    if {each for node in said for each in node.line.asks} != {*launch.asks}:
        raise Refused(f"{launch.name} is not launched as what it waits for asks, or waits for nothing of that")
    if said != [node for node in launch.body if node in said]:
        raise Refused(f"{launch.name} waits for other blocks on some paths alone, or lets others begin on some")
    if launch.dependent and (said.count(Await(LAUNCHES)), said.count(Arrive(LAUNCHES))) != (1, 1):
        raise Refused(f"{launch.name} does not wait once for the launches before, and let the next one begin once")
    for node in takewhile(lambda node: node != Await(LAUNCHES), launch.body) if launch.dependent else ():
        if node != Arrive(LAUNCHES) and not is_set_up(node):
            message = f"{launch.name} begins early, and what stands before its wait for the launches before is not"
            raise Refused(f"{message} only set-up by all threads: {type(node).__name__}")
    return tuple(node for node in launch.body if node not in said)
