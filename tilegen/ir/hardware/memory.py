"""How a buffer lies in memory: its extents there, its bytes on the chip, and where each shared one begins."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from tilegen.ir.affine import Affine, const
from tilegen.ir.nodes import DTYPE_BYTES, Buffer


def allocated(buffer: Buffer) -> tuple[Affine, ...]:
    """The extents of the memory that a buffer lies in, dimension by dimension: what is after a row is part of it."""
    if not buffer.order:
        return buffer.shape
    fastest = buffer.order[-1]
    row = buffer.pitch or buffer.shape[fastest] + buffer.pad
    return tuple(row if d == fastest else extent for d, extent in enumerate(buffer.shape))


def stored_extents(buffer: Buffer) -> tuple[Affine, ...]:
    """The same from the slowest dimension to the fastest; none for a buffer of one element."""
    extents = allocated(buffer)
    return tuple(extents[d] for d in buffer.order)


def row_of(buffer: Buffer) -> Affine:
    """Elements from the beginning of a row to that of the next one; one for a buffer of one element."""
    return stored_extents(buffer)[-1] if buffer.order else const(1)


def bytes_of(buffer: Buffer) -> int:
    """Bytes of a buffer on the chip, its padding included."""
    return prod(extent.const for extent in allocated(buffer)) * DTYPE_BYTES[buffer.dtype]


def shared_layout(buffers: Iterable[Buffer]) -> tuple[dict[str, int], int]:
    """(where each shared buffer begins, where the last one ends), in bytes.

    Barriers for bulk copies lie in shared memory, too.
    """
    places: dict[str, int] = {}
    end = 0
    for buffer in buffers:
        if buffer.space in ("shared", "barrier"):
            places[buffer.name] = -(-end // buffer.align) * buffer.align
            end = places[buffer.name] + bytes_of(buffer)
    return places, end
