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
from tilegen.lowering.launch.program import Spmd, nodes
from tilegen.lowering.launch.timelines import LAUNCHES, Arrive, Await
from tilegen.lowering.sync.dependent_launch import is_set_up
from tilegen.poly import Refused


def without_launch_waits(launch: Launch) -> tuple[Spmd, ...]:
    """The body without its part in overlapping launches. Raises Refused where it touches global memory too early, or
    where waits stand in vain."""
    found = [node for node in nodes(launch.body) if isinstance(node, Arrive | Await) and node.line == LAUNCHES]
    if not launch.dependent:
        if found:
            raise Refused(f"{launch.name} waits in vain: it begins when all launches before it are complete")
        return launch.body
    if found.count(Await(LAUNCHES)) != 1:
        raise Refused(f"{launch.name} begins early, and not every thread waits once for the launches before it")
    if found.count(Arrive(LAUNCHES)) != 1:
        raise Refused(f"{launch.name} does not let the next launch begin once")
    ahead = tuple(takewhile(lambda node: node != Await(LAUNCHES), launch.body))
    for node in ahead:
        if node != Arrive(LAUNCHES) and not is_set_up(node):
            message = f"{launch.name} begins early, and what stands before its wait for the launches before is not"
            raise Refused(f"{message} only set-up by all threads: {type(node).__name__}")
    rest = launch.body[len(ahead) + 1 :]
    if Arrive(LAUNCHES) not in (*ahead, *rest):
        raise Refused(f"{launch.name} lets the next launch begin on some paths alone")
    return tuple(node for node in (*ahead, *rest) if node != Arrive(LAUNCHES))
