"""Tensor maps: what bulk copies have to know of a tensor in global memory, as data that the host gives to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import DTYPE_BYTES
from tilegen.ir.parts.windows import Windows


@dataclass(frozen=True)
class TensorMap:
    """A tensor and the boxes that are copied of it.

    Attributes:
        name: unique in a launch.
        buffer: the tensor in global memory.
        dtype: of its elements.
        shape: the extents of the tensor, the fastest dimension first.
        box: the elements of a box in each dimension, in the same order.
        swizzle: bytes of the rows in shared memory whose 16-byte units change places: 32, 64, 128, or 0 for none.
        pitch: elements from one row of the tensor to the next; None where its rows lie one after another.
        spaced: elements of the tensor from one of the box to the next, in each dimension; nothing where they are
            neighbours.
        windows: of the tensor of `shape`, in whose dimensions, which `buffer` has, the boxes are.
    """

    name: str
    buffer: str
    dtype: str
    shape: tuple[Affine, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    pitch: Affine | None = None
    spaced: tuple[int, ...] = ()
    windows: Windows | None = None

    @property
    def row(self) -> Affine:
        """Elements from one row of the tensor to the next."""
        return self.pitch or self.shape[0]

    @property
    def pixels(self) -> int:
        """How many windows a box has."""
        return self.box[-1]

    @property
    def lower(self) -> tuple[int, ...]:
        """Where the first window begins, in each dimension but the first and the last."""
        assert self.windows
        return tuple(each.low for each in reversed(self.windows.moved))

    @property
    def upper(self) -> tuple[Affine, ...]:
        """Where the last one begins, counted from the last element of the tensor."""
        assert self.windows
        pairs, extents = zip(reversed(self.windows.moved), self.shape[1:], strict=False), self.windows.extents
        return tuple((extents[moved.word] - 1) * moved.step + moved.low + 1 - extent for moved, extent in pairs)

    @property
    def steps(self) -> tuple[int, ...]:
        """Elements of the tensor from one of the box to the next, in each dimension; from one window to the next."""
        if self.windows:
            return (1, *(each.step for each in reversed(self.windows.moved)), 1)
        return self.spaced or (1,) * len(self.box)

    @property
    def reach(self) -> tuple[int, ...]:
        """The elements of the tensor in each dimension among which a box is: what the driver calls its extents."""
        return tuple(extent * step for extent, step in zip(self.box, self.steps, strict=True))

    def extents(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Elements in each dimension at these sizes."""
        return tuple(extent.evaluate(sizes) for extent in self.shape)

    def strides(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Bytes from one element to the next in each dimension but the fastest, at these sizes."""
        found, step = [], DTYPE_BYTES[self.dtype]
        for extent in (self.row, *self.shape[1:])[:-1]:
            step *= extent.evaluate(sizes)
            found.append(step)
        return tuple(found)
