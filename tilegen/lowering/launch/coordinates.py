"""Coordinates: what the block and thread loops of a launch become, and how many blocks there are along each axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS, Condition, Loop, Node
from tilegen.ir.walk import leaves, loops
from tilegen.lowering.launch.grid import Product
from tilegen.lowering.launch.launch import Launch


@dataclass(frozen=True)
class Coordinates:
    """What a launch's block and thread loops have become.

    Attributes:
        grid: blocks along x, y and z.
        names: (loop, kind, step) of each coordinate in the order of the loops.
        leaders: for each bound axis, the condition that a thread or block is the first along it.
    """

    grid: tuple[Product, Product, Product]
    names: tuple[tuple[str, str, str], ...]
    leaders: Mapping[str, Condition]


def coordinates(node: Node) -> Coordinates:
    """The coordinates of the launch `node`."""
    names: dict[str, Loop] = {}
    for loop in loops(node):
        if loop.kind in BLOCK_KINDS + THREAD_KINDS:
            names.setdefault(loop.name, loop)
    grid: list[Product] = []
    leaders: dict[str, Condition] = {}
    for kind in BLOCK_KINDS + THREAD_KINDS:
        bound = [loop for loop in names.values() if loop.kind == kind]
        if kind in BLOCK_KINDS:
            grid.append(_count_blocks(bound, _nested_loops(node, kind)))
        if bound:
            longest = max(bound, key=lambda loop: loop.extent.const)
            leaders[kind] = Condition(var(longest.name), equal=True)
    used = tuple((loop.name, loop.kind, loop.step) for loop in names.values())
    return Coordinates((grid[0], grid[1], grid[2]), used, leaders)


def _nested_loops(node: Node, kind: str) -> int:
    """How many loops of this kind are inside one another."""
    return max((sum(loop.kind == kind for loop in path) for path, _ in leaves((node,))), default=0)


def _count_blocks(bound: list[Loop], sharing: int) -> Product:
    """Blocks along one axis of the grid."""
    if not bound:
        return Product((const(1),))
    if sharing > 1:
        return Product(tuple(loop.extent for loop in bound))
    return Product((bound[0].extent,))


def extents_of(launch: Launch) -> dict[str, Affine]:
    """How many values each coordinate has; of several nests, whose loops have an axis each to themselves, as many as
    that."""
    threads = zip(THREAD_KINDS, launch.block, strict=True)
    found = {name: const(count) for kind, count in threads for name in launch.along(kind)}
    for kind, blocks in zip(BLOCK_KINDS, launch.grid, strict=True):
        names = launch.along(kind)
        factors = blocks.factors if len(blocks.factors) > 1 else blocks.factors * len(names)
        found |= zip(names, factors, strict=True)
    return found
