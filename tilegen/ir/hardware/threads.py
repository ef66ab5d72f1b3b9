"""The threads of a block: those of the longest loop along each axis, and those of a producer after the consumers."""

from __future__ import annotations

from math import prod

from tilegen.ir.nodes import THREAD_KINDS, Loop, Node
from tilegen.ir.walk import loops

GROUPS = 2
"""How many take turns."""


def threads_along(launch: Node) -> dict[str, int]:
    """How many threads a block has along each axis that a loop is bound to, or the lanes of an instruction are; x
    first."""
    found: dict[str, int] = {}
    for loop in loops(launch):
        if loop.performed:
            found["thread.x"] = max(loop.performed.instruction.lanes, found.get("thread.x", 1))
        elif loop.kind in THREAD_KINDS:
            found[loop.kind] = max(loop.extent.const, found.get(loop.kind, 1))
    return {kind: found[kind] for kind in THREAD_KINDS if kind in found}


def ring_of(launch: Node) -> Loop | None:
    """The loop that a producer serves."""
    return next((loop for loop in loops(launch) if loop.specialized), None)


def consumers_and_row(launch: Node) -> tuple[int, int]:
    """(the threads of a block without those of a producer, how many there are in the row of a producer)."""
    along, ring = threads_along(launch), ring_of(launch)
    threads = prod(along.values())
    if ring is None or not along:
        return threads, 0
    return (GROUPS * threads, threads) if ring.turns else (threads, threads // [*along.values()][-1])
