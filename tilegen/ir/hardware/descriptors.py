"""Operands that a descriptor describes: where the hardware finds element [row, column] of a matrix in shared memory.

The matrix lies in pieces of P bytes (128, 64, 32 or 16) of a row, eight rows one after the other:

    byte(row, column) = row%8 * P  +  row/8 * stride  +  column%P  +  column/P * leading      (column in bytes)

and the units of 16 bytes change places by bits 7 and up of that address, as `hardware_swizzle` says. So the first
eight rows begin at a multiple of 8*P bytes, but for a start within the piece, and both distances are multiples of it.
Pieces of 16 bytes, of buffers without a swizzle, change no places: they begin anywhere, any distance apart, and rows
may overlap, as windows do that begin 16 bytes one after the other: stride 128 and leading 16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilegen.ir.affine import Affine, const
from tilegen.ir.facts.row_digits import count_rows, row_number
from tilegen.ir.hardware.boxes import Box, Numbers, first_of_equals
from tilegen.ir.hardware.instructions import PIECES, ROW_BYTES, SharedMatrix
from tilegen.ir.hardware.matching import inner_part
from tilegen.ir.nodes import DTYPE_BYTES, Access, Buffer
from tilegen.ir.parts.swizzle import hardware_swizzle

ROWS = 8
"""That lie one after the other."""

MOST_BYTES = (2**14 - 1) * ROW_BYTES
"""Of a distance; the descriptor has 14 bits for its units of 16 bytes."""


@dataclass(frozen=True)
class Form:
    """What a descriptor says beside the address, in bytes: the piece of a row, and the two distances.

    `stride` is that of eight rows from the next eight, `leading` that of a piece from the next one along the row; 0
    where the matrix has only one.
    """

    piece: int
    stride: int
    leading: int

    def offset(self, row: Any, column: Any) -> Any:
        """Where the hardware looks for a byte, or for bytes, from the start of the matrix on and before the swizzle."""
        pieces, within = divmod(column, self.piece)
        blocks, of_block = divmod(row, ROWS)
        return of_block * self.piece + blocks * self.stride + within + pieces * self.leading


class NotDescribed(Exception):
    """Why no descriptor describes an operand, a witness where there is one, and the way out."""

    def __init__(self, sentence: str, witness: str = "", way: str = "") -> None:
        super().__init__(sentence)
        self.sentence, self.witness, self.way = sentence, witness, way


def described_form(
    buffer: Buffer, access: Access, layout: SharedMatrix, points: tuple[Affine, ...], extents: Mapping[str, int]
) -> Form:
    """The form of the operand that is `access` in a nest of these loops. Raises NotDescribed."""
    box = Box({n: e for n, e in extents.items() if any(n in i.names() for i in (*access.index, *points))})
    along = layout.indices.index(layout.along)
    rows, columns = box.at(points[1 - along]), box.at(points[along])
    places = [box.at(inner_part(index, extents.keys())) for index in access.index]
    first = first_of_equals(rows * (1 + columns.max()) + columns)
    if any((place != place[first]).any() for place in places):
        raise NotDescribed(f"an element of {layout.operand.name} lies at two places of '{buffer.name}'")
    return _form_of(buffer, layout, rows, columns, places)


def _form_of(buffer: Buffer, layout: SharedMatrix, rows: Numbers, columns: Numbers, places: Sequence[Numbers]) -> Form:
    """The form of the operand whose elements [row, column] are at `places` of the buffer, one array a dimension.

    The places count from the start of the matrix. Raises NotDescribed where the elements do not lie so.
    """
    size, piece = DTYPE_BYTES[buffer.dtype], piece_of(buffer)
    offsets: Any = sum(place * pitch for place, pitch in zip(places, byte_pitches(buffer), strict=True))

    def offset_of(row: int, column: int) -> int:
        there = np.flatnonzero((rows == row) & (columns == column))
        return int(offsets[there[0]]) if there.size else 0

    form = Form(piece, offset_of(ROWS, 0), offset_of(0, piece // size))
    wanted = form.offset(rows, columns * size)
    if (wrong := np.flatnonzero(offsets != wanted)).size:
        if piece == ROW_BYTES:
            raise _no_piece(buffer)
        name, at = layout.operand.name, wrong[0]
        raise NotDescribed(
            f"'{buffer.name}' does not hold the operand {name} in rows along '{layout.along}' that a descriptor "
            "tells of",
            f"row {rows[at]}, element {columns[at]} of {name} is {offsets[at]} bytes after its start, and the "
            f"hardware looks for it at {wanted[at]}",
            f"rows of {piece} bytes, eight one after the other; layout=[...] of cache_shared says what a row is",
        )
    # In rows along the index that is not summed, which are longer, the two distances would change their meaning.
    if piece == ROW_BYTES and (columns.max() >= rows.max() or (columns.max() + 1) * size != 2 * ROW_BYTES):
        raise _no_piece(buffer)
    multiple = ROW_BYTES if piece == ROW_BYTES else ROWS * piece
    for what, distance in (("eight rows", form.stride), ("pieces of a row", form.leading)):
        if distance % multiple or not 0 <= distance <= MOST_BYTES:
            raise NotDescribed(
                f"{what} of '{buffer.name}' are {distance} bytes apart",
                "",
                f"a descriptor has multiples of {multiple} bytes, up to {MOST_BYTES}",
            )
    return form


def piece_of(buffer: Buffer) -> int:
    """Bytes of a piece of a row, as the swizzle of the buffer says. NotDescribed where no descriptor has such."""
    if not buffer.swizzle:
        return ROW_BYTES
    size = DTYPE_BYTES[buffer.dtype]
    row = buffer.shape[buffer.order[-1]].const * size
    found = next((piece for piece in PIECES if buffer.swizzle == hardware_swizzle(piece, size)), 0)
    if not found or row != found or buffer.pad:
        raise _no_piece(buffer)
    if count_rows(buffer) % ROWS:
        raise NotDescribed(
            f"the rows of '{buffer.name}' are {count_rows(buffer)}, no multiple of {ROWS}",
            "",
            "blocks of eight rows are swizzled alike",
        )
    return found


def _no_piece(buffer: Buffer) -> NotDescribed:
    """Why the rows of the buffer are in no pieces of a descriptor."""
    size = DTYPE_BYTES[buffer.dtype]
    return NotDescribed(
        f"the rows of '{buffer.name}' are {buffer.shape[buffer.order[-1]].const * size} bytes, "
        + (f"swizzled {buffer.swizzle}" if buffer.swizzle else "not swizzled")
        + (f", padded by {buffer.pad} elements" if buffer.pad else ""),
        "",
        f"swizzle({buffer.name}, {ROW_BYTES // size}) on rows of {PIECES[0] // size} elements is what a descriptor "
        "tells of",
    )


def byte_pitches(buffer: Buffer) -> tuple[int, ...]:
    """How many bytes neighbours along each dimension of a buffer on the chip are apart, its padding included."""
    found = [0] * len(buffer.shape)
    step = DTYPE_BYTES[buffer.dtype]
    for number, dim in enumerate(reversed(buffer.order)):
        found[dim] = step
        step *= buffer.shape[dim].const + (buffer.pad if number == 0 else 0)
    return tuple(found)


def start_fault(buffer: Buffer, index: tuple[Affine, ...]) -> str:
    """Why a matrix cannot begin at `index`; "" if it can: at a block of eight rows, and at 16 bytes within a piece.

    That the matrix does not go beyond the row's piece is a matter of bounds: a piece is a row of the buffer.
    """
    unit = ROW_BYTES // DTYPE_BYTES[buffer.dtype]
    if not buffer.swizzle:
        start = sum((i * pitch for i, pitch in zip(index, byte_pitches(buffer), strict=True)), const(0))
        left = start % ROW_BYTES
        return "" if left == const(0) else f"it begins at byte {start}, which is no multiple of {ROW_BYTES}"
    row, element = row_number(buffer, index), index[buffer.order[-1]]
    for what, number, multiple in (("row", row, ROWS), ("element", element, unit)):
        left = number % multiple
        if not left.is_const or left.const:
            return f"it begins at {what} {number}, which is no multiple of {multiple}"
    return ""
