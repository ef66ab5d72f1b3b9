"""What a launch is made for: how many blocks there are along an axis, which run at once, and what its vectors need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from tilegen.errors import LimitError
from tilegen.ir.affine import Affine
from tilegen.ir.hardware.limits import DEALT_LIMIT, GRID_LIMIT
from tilegen.ir.nodes import BLOCK_KINDS, Condition


@dataclass(frozen=True)
class Need:
    """What the vectors of one loop need: facts on sizes, and (tensor, bytes) that its address is a multiple of."""

    requires: tuple[Condition, ...] = ()
    alignment: tuple[tuple[str, int], ...] = ()

    def and_(self, other: Need) -> Need:
        """Both."""
        requires, alignment = self.requires + other.requires, self.alignment + other.alignment
        return Need(tuple(dict.fromkeys(requires)), tuple(dict.fromkeys(alignment)))


@dataclass(frozen=True)
class Product:
    """How many blocks there are along an axis: one factor for each loop that shares it, the slowest first.

    Of the factors at the places `once`, data pick one iteration, so that they count no blocks.
    """

    factors: tuple[Affine, ...]
    once: frozenset[int] = frozenset()

    @property
    def counted(self) -> tuple[Affine, ...]:
        """The factors that count blocks."""
        return tuple(factor for n, factor in enumerate(self.factors) if n not in self.once)

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """The number at these sizes: 0 where the range of one of the loops is empty."""
        return prod(max(0, factor.evaluate(sizes)) for factor in self.counted)

    @property
    def is_const(self) -> bool:
        return all(factor.is_const for factor in self.factors)

    def digit(self, position: int) -> tuple[tuple[Affine, ...], Affine | None]:
        """What a block's number along the axis is divided by, one after the other, and what the remainder is then taken
        of (None: it is in its range), for the loop of the factor at `position`."""
        return self.factors[:position:-1], self.factors[position] if position else None

    def __str__(self) -> str:
        parts = [str(factor) for factor in self.counted]
        return parts[0] if len(parts) == 1 else "*".join(part if part.isalnum() else f"({part})" for part in parts)


def limits_of_grid(dealt: bool) -> tuple[int, int, int]:
    """The most blocks along x, y and z. Of tiles that are dealt there are fewer, so that a step past the last has 32
    bits."""
    x, y, z = GRID_LIMIT
    return (DEALT_LIMIT if dealt else x), y, z


def count_blocks(
    launch: str, grid: tuple[Product, Product, Product], sizes: Mapping[str, int], *, dealt: bool = False
) -> tuple[int, int, int]:
    """The blocks of a launch along x, y and z at these sizes, tiles along x if they are dealt. Raises LimitError where
    a grid cannot have them."""
    x, y, z = (along.evaluate(sizes) for along in grid)
    for axis, blocks, limit in zip("xyz", (x, y, z), limits_of_grid(dealt), strict=True):
        if blocks > limit:
            at = ", ".join(f"{name} = {value}" for name, value in sizes.items())
            what = "tiles" if dealt and axis == "x" else "blocks"
            message = f"{launch} needs {blocks} {what} along {axis} for {at}; {limit} are the limit"
            raise LimitError(message, notes=("bind the larger dimension to block.x, or make the tile larger",))
    return x, y, z


@dataclass(frozen=True)
class Cluster:
    """Blocks that run at once and reach each other's shared memory: a number of neighbours along an axis of the grid.

    `rank` is the coordinate that numbers them, the last one of its axis, which is of this `kind` (block.y).
    """

    rank: str
    kind: str
    blocks: int

    @property
    def mask(self) -> int:
        """A bit for each of them."""
        return (1 << self.blocks) - 1

    @property
    def dims(self) -> tuple[int, int, int]:
        """Blocks along x, y and z."""
        x, y, z = (self.blocks if kind == self.kind else 1 for kind in BLOCK_KINDS)
        return x, y, z
