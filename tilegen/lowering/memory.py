"""How many bytes a buffer on the chip has, and where each shared one lies."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from tilegen.ir.nodes import DTYPE_BYTES, Buffer


def bytes_of(buffer: Buffer) -> int:
    """Bytes of a buffer on the chip, its padding included."""
    extents = [buffer.shape[d].const for d in buffer.order]
    if extents:
        extents[-1] += buffer.pad
    return prod(extents) * DTYPE_BYTES[buffer.dtype]


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
