"""Tiles, dealt: a block walks along a line of them, with a stride of as many as there are blocks.

for bi < I  block.x  dealt              for tile of the block's, (bi, bj) being its place
  for bj < J  block.x  dealt              ...
    ...

Until the end a launch is lowered as one block that runs all tiles in nested loops: what has to be waited for
between two tiles is what has to be waited for between two iterations of any loop. Then one loop over those that are
dealt to the block takes the place of the nest, in each role, so that roles walk in step.

The law. The line has the tiles of one matrix after those of another, and of I x J tiles, in groups of G rows, group
g after group g - 1: it begins at g*G*J, for all groups before it are full, and has h = min(G, I - g*G) rows. In it
tile n is in row n % h and column n / h, for 0 <= n < h*J. So each place n < I*J is a tile, and each tile (i, j) has
one place: (i/G)*G*J + j*h + i%G. Block b of P takes b, b + P, ...: each place once, for any P >= 1.

Where data give the rows of each matrix, a block goes from one to the next. It takes the place n, n + P, ... of the
line of a matrix with R x J tiles, and goes on in the next one from the first of these that is R*J or more, less R*J. So
its places on the line of all are b, b + P, ... again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilegen.ir.affine import const
from tilegen.ir.nodes import Buffer, Loop, Node
from tilegen.ir.printing.reserved_words import fresh
from tilegen.ir.reductions.ragged import Bounds, Found
from tilegen.ir.walk import loops, rewrite_nodes
from tilegen.judge import boxes_in
from tilegen.lowering.launch.grid import Product
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import (
    For,
    Spmd,
    names_in,
    nodes,
    with_lists,
)


def walk_tiles(node: Node, buffers: Sequence[Buffer]) -> tuple[Node, tuple[Loop, ...]]:
    """(the launch with its dealt loops as serial ones, those that have several iterations, outermost first).

    Where bulk copies are waited for, and no producer counts them from tile to tile, each tile has a block.
    """
    tiles = tuple(loop for loop in loops(node) if loop.dealt and loop.extent != const(1))
    boxes = boxes_in(node, {b.name: b for b in buffers}) if tiles else ()
    if any(not box.stores for _, box in boxes) and not any(loop.specialized for loop in loops(node)):
        return node, ()
    return _with_kind(node, "serial") if tiles else node, tiles


def _with_kind(node: Node, kind: str) -> Node:
    def change(value: Any) -> Any:
        return replace(value, kind=kind) if isinstance(value, Loop) and value.dealt else value

    return rewrite_nodes((node,), change)[0]


def deal_tiles(launch: Launch, tiles: tuple[Loop, ...]) -> Launch:
    """The launch with one loop over the tiles that a block is dealt in place of each nest over all.

    What stands beside an inner loop over tiles is done for each of them.
    """
    if not tiles:
        return launch
    first, inner = tiles[0].name, frozenset(loop.name for loop in tiles[1:])
    ends = _ends_of(launch.body, tiles)
    taken = {
        *launch.kernel.sizes,
        *launch.buffers,
        *names_in(launch.inside),
        *(n.name for n in loops(launch.distributed)),
    }
    name = fresh("tile", taken)

    def change(body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
        out: list[Spmd] = []
        for node in body:
            if isinstance(node, For) and node.name == first:
                out.append(For(name, const(1), change(node.body), "tiles"))
            elif isinstance(node, For) and node.name in inner:
                out += change(node.body)
            else:
                out.append(with_lists(node, change))
        return tuple(out)

    counts = tuple(loop.extent for loop in tiles)
    used = {*launch.sizes, *names_in(counts)}
    return replace(
        launch,
        body=change(launch.body),
        sizes=tuple(size for size in launch.kernel.sizes if size in used),
        grid=(Product(counts, frozenset(n for n, each in enumerate(ends) if each and each.pick_one)), *launch.grid[1:]),
        coordinates=(*((loop.name, "block.x", loop.step) for loop in tiles), *launch.coordinates),
        distributed=_with_kind(launch.distributed, "block.x"),
        dealt=tiles[0].dealt,
        ends=ends,
    )


def loops_between_ends(launch: Launch) -> list[For]:
    """The loops over tiles of `launch`, outermost first, where data give ends of some."""
    ends = zip(launch.tiles, launch.grid[0].factors, launch.ends, strict=True) if launch.ends else ()
    return [For(name, extent, (), "ragged", ends=bounds) for name, extent, bounds in ends]


def _ends_of(body: tuple[Spmd, ...], tiles: tuple[Loop, ...]) -> tuple[Bounds | None, ...]:
    """Of each loop, outermost first, between which ends it runs; empty where all tiles run.

    Data may give the rows of a matrix, and which matrices there are.
    """
    found = {node.name: node.ends for node in nodes(body) if isinstance(node, For)}
    ends = tuple(found.get(loop.name) for loop in tiles)
    if len(ends) < 3 or not any(ends) or ends[-1]:
        return ()
    return ends if ends[-2] is None or ends[-2].first is None and not isinstance(ends[-2].end, Found) else ()
