"""The rows of a buffer: which one an element lies in, and which elements are side by side."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from tilegen.ir.affine import Affine, const
from tilegen.ir.nodes import Buffer


def count_rows(buffer: Buffer) -> int:
    """How many rows of its fastest dimension a buffer on the chip has."""
    return prod(buffer.shape[d].const for d in buffer.order[:-1])


def row_number(buffer: Buffer, index: Sequence[Affine]) -> Affine:
    """Which of the rows, one after another, of a buffer on the chip has the element; as `Swizzle` counts them."""
    number = const(0)
    for dim in buffer.order[:-1]:
        number = number * buffer.shape[dim].const + index[dim]
    return number


class Digit(NamedTuple):
    """Element e of a row is `e // weight % extent` elements along a dimension."""

    weight: int
    extent: int


def digits_of_row(buffer: Buffer, width: int) -> dict[int, Digit]:
    """The dimensions that a row of `width` neighbours in shared memory runs along, fastest first.

    It is the fastest one alone, but where its rows are short, whole, and neither padded nor swizzled: then the row goes
    on in the next one. The first element is at a multiple of `extent` along each.
    """
    found: dict[int, Digit] = {}
    weight = 1
    for dim in reversed(buffer.order):
        rest, extent = width // weight, buffer.shape[dim]
        goes_on = extent.is_const and 0 < extent.const < rest and rest % extent.const == 0
        if not goes_on or buffer.pad or buffer.pitch or buffer.swizzle:
            found[dim] = Digit(weight, rest)
            return found
        found[dim] = Digit(weight, extent.const)
        weight *= extent.const
    return {buffer.order[-1]: Digit(1, width)}
