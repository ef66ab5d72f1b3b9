"""Limits: a GPU has a block and a grid for each launch.

This is asked of the last tree: a step may still make a loop shorter, or share it out.
"""

from __future__ import annotations

from math import prod

from tilegen.ir.hardware.limits import AXIS_LIMIT, DEALT_LIMIT, GRID_LIMIT, THREAD_LIMIT
from tilegen.ir.hardware.threads import consumers_and_row, threads_along
from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS, Loop, Node, Tree
from tilegen.ir.walk import leaves, loops
from tilegen.poly.verdict import NoForm


def check_limits(tree: Tree) -> None:
    """Refused where a block has more threads, or a grid at all sizes more blocks, than a GPU has."""
    for launch in tree.body:
        _check_threads(launch)
        for kind, limit in zip(BLOCK_KINDS, GRID_LIMIT, strict=True):
            _check_blocks(launch, kind, limit)


def _check_threads(launch: Node) -> None:
    along = threads_along(launch)
    for kind, threads in along.items():
        if threads > (limit := AXIS_LIMIT[THREAD_KINDS.index(kind)]):
            raise _too_many(launch, f"{threads} threads along {kind[-1]}", limit, kind)
    if (threads := sum(consumers_and_row(launch))) > THREAD_LIMIT:
        raise _too_many(launch, f"{threads} threads", THREAD_LIMIT, [*along][-1])


def _too_many(launch: Node, what: str, limit: int, kind: str) -> NoForm:
    longest = max((loop for loop in loops(launch) if loop.kind == kind), key=lambda loop: loop.extent.const)
    way = "make a thread loop shorter, or coarsen it: coarsen(loop, 4) gives each thread 4 iterations"
    return NoForm(f"a block needs {what}, and a GPU has {limit} at most", way=way, span=longest.span)


def _check_blocks(launch: Node, kind: str, limit: int) -> None:
    """Loops inside one another share an axis; those side by side are as long."""
    along: list[Loop] = max(([loop for loop in path if loop.kind == kind] for path, _ in leaves((launch,))), key=len)
    limit = min(limit, DEALT_LIMIT) if any(loop.dealt for loop in along) else limit
    if all(loop.extent.is_const for loop in along) and (blocks := prod(loop.extent.const for loop in along)) > limit:
        longest = max(along, key=lambda loop: loop.extent.const)
        message = f"a grid needs {blocks} blocks along {kind[-1]}, and a GPU has {limit} at most"
        way = "bind the larger dimension to block.x, or make the tile larger"
        raise NoForm(message, way=way, span=longest.span)
