"""Swizzled rows: where the elements of a shared buffer lie, so that a column meets more banks without a pad."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Swizzle:
    """Unit u of row r lies at place u ^ (r / rows % count) of the row; a unit is `unit` elements that stay together.

    All three are powers of two. Where `count` units divide a row, each row is permuted: no two elements share a place.
    """

    unit: int
    count: int
    rows: int = 1

    @property
    def span(self) -> int:
        """Elements of a row that change places among each other."""
        return self.unit * self.count

    def column(self, row: Any, column: Any) -> Any:
        """Where element `column` of row `row` lies in it; numbers, or arrays of them."""
        return column ^ (row // self.rows % self.count * self.unit)

    def permutes(self, length: int) -> bool:
        """True if each row of `length` elements keeps all of them."""
        return all(power_of_two(n) for n in (self.unit, self.count, self.rows)) and length % self.span == 0

    def keeps(self, width: int) -> bool:
        """True if `width` neighbours, the first at a multiple of that, stay neighbours."""
        return self.unit % width == 0

    def __str__(self) -> str:
        return f"{self.count} x {self.unit}" + (f" every {self.rows} rows" if self.rows > 1 else "")


def power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def hardware_swizzle(span: int, element: int) -> Swizzle | None:
    """The permutation of 16-byte units in rows of `span` bytes, of elements of `element` bytes: for bulk copies, and
    operands with a descriptor, whose pieces are such rows.

    Bits 4 to 6 of an address are combined with bits 7 to 9: in rows of 128 bytes each has a permutation of its own, 2
    rows of 64 bytes share one, and 4 of 32 bytes. None for rows of other lengths.
    """
    if span not in BULK_SPANS:
        return None
    return Swizzle(BULK_UNIT // element, span // BULK_UNIT, 128 // span)


BULK_UNIT = 16
"""Bytes that stay together in a bulk copy."""

BULK_SPANS = (32, 64, 128)
"""The lengths of rows, in bytes, that a bulk copy can swizzle."""
