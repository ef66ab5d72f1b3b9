"""Tiles that are dealt: a block that takes several of them is as good as a block for each.

Theorem: the launch computes what it would with a block for each tile (`part_tiles`), if it is right so, and if
nothing that it does on the chip in one tile meets what it does in another one without a wait in between
(`walk_twice`).

Why: the law of `lowering.dealing` gives each tile to one block. Blocks may run at once, so that a tile of another
block is like one of another block in a grid, with memory of its own. In one block, tiles come one after the other, in
an order that the number of blocks decides. A block that runs all tiles twice, in nested loops, has each of two
tiles before the other, and nothing of tiles in between counts as a wait: barriers are looked for after what is
done in the one and before what is done in the other. So two accesses that need a wait have one, in whatever order a
block takes tiles, and all threads run it, for they take the same tiles. What a tile reads on the chip was written
in this same tile: that is what the launch with a block for each tile shows. It shows of global memory, too, that no two
tiles meet there, so that nothing is asked of the two runs.

Where data give the ends of the loops over tiles, some tiles run in no block: what they would do is nothing
(`judge.places.ragged`, asked of the block that runs all tiles).

Slots of a ring are counted on from tile to tile, by all roles alike: a ring that runs equally often in each tile goes
through the same numbers, whatever the tiles are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from tilegen.ir.affine import const
from tilegen.ir.walk import walk
from tilegen.lowering.launch.grid import Product
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import (
    Flag,
    For,
    If,
    Let,
    Spmd,
    names_in,
    nodes,
    with_lists,
)
from tilegen.lowering.launch.timelines import REGISTERS, Await, StartBarriers, is_event
from tilegen.poly import Refused
from tilegen.proof.reading.roles import Ring

AGAIN = "tiles.again"  # the loop over the two runs of `walk_twice`


def part_tiles(launch: Launch) -> Launch:
    """`launch` with a block for each tile, which it runs once; itself where none are dealt. Raises Refused."""
    _check_tiles(launch)
    return replace(
        launch, body=_without_tiles(launch.body, lambda node: replace(node, kind="serial")), dealt=0, ends=()
    )


def walk_twice(launch: Launch) -> Launch:
    """`launch` with a block that runs all tiles, two times; itself where none are dealt."""
    if not launch.dealt:
        return launch
    names = launch.tiles
    ends = launch.ends or (None,) * len(names)
    counts = [(AGAIN, const(2), None), *zip(names, launch.grid[0].factors, ends, strict=True)]

    def around(node: For) -> For:
        body = node.body
        for name, extent, bounds in reversed(counts):
            body = (For(name, extent, body, "ragged" if bounds else "serial", ends=bounds),)
        return cast(For, body[0])

    return replace(
        launch,
        body=_without_tiles(launch.body, around),
        coordinates=tuple(each for each in launch.coordinates if each[0] not in names),
        grid=(Product((const(1),)), *launch.grid[1:]),
        dealt=0,
        ends=(),
    )


def check_alike(rings: Mapping[int, Ring], launches: Sequence[Launch]) -> None:
    """Refused where a ring runs more often in one tile than in another. `rings` are those of the launches by number."""
    for number, ring in rings.items():
        said = ring.extent.names().union(*(test.value.names() for test in ring.tests))
        if not said.isdisjoint(launches[number].tiles):
            raise Refused(f"how often '{ring.loop}' runs is not the same in all tiles")


def _check_tiles(launch: Launch) -> None:
    """Refused where a thread does something outside of the tiles of its block, or runs them twice."""
    if not launch.dealt:
        if any(isinstance(node, For) and node.kind == "tiles" for node in nodes(launch.body)):
            raise Refused("a block goes from tile to tile, and none are dealt")
        return
    tiles = frozenset(launch.tiles)
    if len(launch.grid[0].factors) != len(tiles):
        raise Refused("not every number of a tile has a name")
    outside: list[Spmd] = []
    if _collect(launch.body, outside) != 1:
        raise Refused("some threads do not run the tiles of their block, or not once")
    other = next((n for n in outside if not _is_set_up(n)), None)
    if other is not None:
        raise Refused(f"{launch.name} does something outside of its tiles: {type(other).__name__}")
    if not names_in(walk(launch.ends)) <= tiles | {*launch.kernel.sizes}:
        raise Refused("threads of a block may go through different tiles")
    if names_in(walk(outside)) & tiles:
        raise Refused("a tile is spoken of outside of it")


def _is_set_up(node: Spmd) -> bool:
    """True for what is done before all tiles or after them, and says nothing of memory."""
    plain = isinstance(node, If | Flag | Let | StartBarriers)
    return plain or (isinstance(node, Await) and node.line.writes_tensors) or is_event(node, REGISTERS)


def _collect(body: tuple[Spmd, ...], outside: list[Spmd]) -> int:
    """How many loops over tiles a thread runs, the fewest if not all alike; what else it does goes to `outside`."""
    count = 0
    for node in body:
        if isinstance(node, For) and node.kind == "tiles":
            count += 1 + sum(isinstance(each, For) and each.kind == "tiles" for each in nodes(node.body))
        elif isinstance(node, If):
            outside.append(replace(node, body=(), orelse=()))
            inner = [_collect(each, outside) for each in (node.body, node.orelse)]
            # Threads that no role has do nothing.
            count += max(inner) if all(n <= 1 for n in inner) else 2
        else:
            outside.append(node)
    return count


def _without_tiles(body: tuple[Spmd, ...], change: Callable[[For], For]) -> tuple[Spmd, ...]:
    """`body` with `change` of each loop over tiles."""
    return tuple(
        change(node)
        if isinstance(node, For) and node.kind == "tiles"
        else with_lists(node, lambda inner: _without_tiles(inner, change))
        for node in body
    )
