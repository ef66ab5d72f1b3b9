"""Dealt loops: the tiles of a launch can be dealt to any number of blocks.

Theorem: a launch whose block loops are tiles may be run by blocks that take several tiles each, one after the other, if
each block passes the same waits in every tile:

- all loops along block.x are dealt, in one nest around everything else: a tile is a value of each of them;
- a loop whose copies a producer starts runs equally often in all tiles, so that its slots go on from tile to tile;
- the blocks of a cluster, and those that take turns, are along another axis: they have the same tiles.

Which blocks run what is open, as in a grid. What a tile leaves on the chip is overwritten after a barrier or a
wait, which is derived as for any other loop in a block, and proved (`lowering.dealing`, `proof.dealing`).
"""

from __future__ import annotations

from tilegen.ir.nodes import BLOCK_KINDS, Loop, Node
from tilegen.ir.walk import loops
from tilegen.poly.instances import Projection
from tilegen.poly.verdict import NoForm


def check_dealt(program: Projection) -> None:
    """Refused where tiles cannot be dealt."""
    for launch in program.tree.body:
        tiles = {loop.name: loop for loop in loops(launch) if loop.dealt}
        if tiles:
            _check_nest(launch, tiles)
            _check_ring(launch, tiles)


def _check_nest(launch: Node, tiles: dict[str, Loop]) -> None:
    other = next((loop for loop in loops(launch) if loop.kind == "block.x" and not loop.dealt), None)
    if other is not None:
        raise NoForm(
            f"'{other.name}' is bound to block.x, along which '{min(tiles)}' is dealt",
            way=f"deal(..., {other.name}) takes it in, or bind it to block.y",
        )
    if len({loop.dealt for loop in tiles.values()}) > 1:
        raise NoForm("tiles of one launch are dealt in groups of two sizes", way="deal all loops in one step")
    outer = [loop.name for loop in _outer_blocks(launch)]
    inner = next((name for name in tiles if name not in outer), None)
    if inner is not None:
        raise NoForm(
            f"'{inner}' is dealt, and not all of its launch is inside of it",
            way="leave the rest in a launch of its own",
        )
    handed = next((loop for loop in loops(launch) if loop.handed), None)
    if handed is not None:
        raise NoForm(
            f"blocks along '{handed.name}' wait for one another, and those that wait may hold the tiles of others",
            way="do not deal them: they take numbers in the order in which they begin",
        )
    shared = next((loop for loop in loops(launch) if loop.multicast in tiles or loop.turns in tiles), None)
    if shared is not None:
        name = shared.multicast or shared.turns
        raise NoForm(
            f"'{name}' is dealt, and its blocks share what is copied",
            way=f"bind({name}, block.y) keeps them side by side",
        )


def _outer_blocks(launch: Node) -> list[Loop]:
    """The block loops around everything else in the launch, outermost first."""
    found: list[Loop] = []
    while isinstance(launch, Loop) and launch.kind in BLOCK_KINDS:
        found.append(launch)
        if len(launch.body) > 1:
            break
        (launch,) = launch.body
    return found


def _check_ring(launch: Node, tiles: dict[str, Loop]) -> None:
    """Refused where a producer has more to copy for one tile than for another."""
    ring = next((loop for loop in loops(launch) if loop.specialized), None)
    around = [loop for loop in loops(launch) if loop is ring or ring in loops(loop)] if ring else []
    varying = next((loop for loop in around if loop.extent.names() & tiles.keys()), None)
    if varying is not None:
        raise NoForm(f"how often '{varying.name}' runs is not the same in all tiles", way="do not deal them")
