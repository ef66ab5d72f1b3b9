"""Dependent launches: a launch begins while the one before it runs, and waits for it before all global memory.

let_next_launch_begin();        // all blocks do so: the next launch can have what room there is
start barriers; ...             // of this block alone
wait_for_earlier_launches();    // each thread, before roles part
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

from tilegen.ir.nodes import Const
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import (
    Declare,
    Flag,
    Let,
    Spmd,
)
from tilegen.lowering.launch.timelines import LAUNCHES, Arrive, Await, StartBarriers


def with_launch_waits(launch: Launch) -> Launch:
    """`launch` as one that begins early: before its wait stands set-up, which no launch before takes part in."""
    ahead = tuple(takewhile(is_set_up, launch.body))
    body = (Arrive(LAUNCHES), *ahead, Await(LAUNCHES), *launch.body[len(ahead) :])
    return replace(launch, body=body, asks=launch.asks + LAUNCHES.asks)


def is_set_up(node: Spmd) -> bool:
    """True for what all threads do, none of them in global memory."""
    match node:
        case StartBarriers() | Flag() | Let():
            return True
        case Declare(start=start):
            return start is None or isinstance(start, Const)
        case _:
            return False
