"""Waits of blocks for each other: in the list that all threads run, of a launch that asks for what they need.

Where all blocks of a launch wait for each other it is as good as two, if nothing stays on the chip in between but names
for integers. Blocks of a cluster leave together.

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
nobody who waits has a place that they need. What stands before the wait is set-up by all threads: barriers in shared
memory, names for integers, registers.
"""

from __future__ import annotations

from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import Flag, Let, Spmd
from tilegen.lowering.launch.timelines import LAUNCHES, Arrive, Await, Barrier, Event
from tilegen.lowering.sync.dependent_launch import is_set_up
from tilegen.poly import Refused


def parts_of(launch: Launch) -> list[tuple[Spmd, ...]]:
    """The bodies of the launches that it is as good as, without waits for other blocks. Raises Refused where it touches
    global memory too early, or where waits stand in vain."""
    said = [v for v in launch.nodes if isinstance(v, Event) and (v.line.asks or v.line.arrivals == "cluster")]
    if {each for node in said for each in node.line.asks} != {*launch.asks}:
        raise Refused(f"{launch.name} is not launched as what it waits for asks, or waits for nothing of that")
    if said != [node for node in launch.body if node in said]:
        raise Refused(f"{launch.name} waits for other blocks on some paths alone, or lets others begin on some")
    if launch.dependent and (said.count(Await(LAUNCHES)), said.count(Arrive(LAUNCHES))) != (1, 1):
        raise Refused(f"{launch.name} does not wait once for the launches before, and let the next one begin once")
    if [node for node in said if node.line.arrivals == "cluster"] != [*launch.body[-1:]] * bool(launch.cluster):
        raise Refused("a block may leave before others have copied to its memory, or arrived at its barriers")
    parts: list[tuple[Spmd, ...]] = [()]
    for node in launch.body:
        if node not in said:
            parts[-1] += (node,)
        elif node == Await(LAUNCHES) and (parts[1:] or not all(map(is_set_up, parts[0]))):
            raise Refused(f"{launch.name} begins early, and does more than set-up before it waits for others")
        elif isinstance(node, Barrier) and node.line.arrivals == "grid":
            parts.append(tuple(each for each in parts[-1] if isinstance(each, Let | Flag)))
    if parts[1:] and launch.shared_bytes:
        raise Refused(f"all blocks of {launch.name} wait for each other, and some memory on the chip outlives that")
    return parts
