"""Panels: a copy whose rows are cut into pieces of one length, each piece of all rows stored after the one before.

B.shared[k, j] with 128 elements in a row     in panels of 64: B.shared[j/64, k, j%64]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, const
from tilegen.ir.facts.ranges import interval_of, simplify
from tilegen.ir.nodes import Buffer
from tilegen.primitives.rewriting.region import Point


def in_panels(copy: Buffer, width: int) -> Buffer:
    """`copy` with rows of `width` elements, and a dimension in front that counts the panels; rows of one stay.

    Where these do not divide a row, the panels have a half of that, or a fourth, as the hardware has rows of 128, 64
    and 32 bytes. Raises StepError where none of them divides it.
    """
    fastest, asked = copy.order[-1], width
    length = copy.shape[fastest].const
    narrower = (width // by for by in (1, 2, 4) if width >= by and width % by == 0 and length % (width // by) == 0)
    width = next(narrower, 0)
    if not width:
        raise StepError(f"panels of {asked} elements do not divide the {length} of a row of '{copy.name}'")
    if width == length:
        return copy
    rows = (const(width) if d == fastest else extent for d, extent in enumerate(copy.shape))
    order = (0, *(d + 1 for d in copy.order))
    return replace(copy, shape=(const(length // width), *rows), order=order, panels=True)


def place_in(copy: Buffer, extents: Mapping[str, int]) -> Callable[[Point], Point]:
    """Where an element of the copied box lies in the copy, by its index; `extents` are those of loops."""
    if not copy.panels:
        return lambda index: index
    fastest = copy.order[-1]
    width = copy.shape[fastest].const

    def place(index: Point) -> Point:
        panel, column = _split_column(index[fastest - 1], width, extents)
        return (panel, *(column if d == fastest - 1 else i for d, i in enumerate(index)))

    return place


def _split_column(column: Affine, width: int, extents: Mapping[str, int]) -> tuple[Affine, Affine]:
    """(column // width, column % width); what a part of the terms decides is left to these: (f*16 + i)/64 is f/4."""
    for unit in (u for u in range(width, 1, -1) if width % u == 0):
        low = Affine(tuple((a, f) for a, f in column.terms if f % unit), column.const % unit)
        ends = interval_of(low, extents)
        if ends is not None and ends[0] >= 0 and ends[1] < unit:
            high = Affine(tuple((a, f // unit) for a, f in column.terms if f % unit == 0), column.const // unit)
            by = width // unit
            return simplify(high // by, extents), simplify(high % by, extents) * unit + low
    return simplify(column // width, extents), simplify(column % width, extents)
