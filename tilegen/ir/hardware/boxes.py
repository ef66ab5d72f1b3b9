"""All points of a box at once: questions about the elements of an operand are asked of arrays of them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from tilegen.ir.affine import Affine

# One integer for each point.
Numbers = np.ndarray[Any, np.dtype[np.int64]]


class Box:
    """The points of a box, the last index fastest: `count` of them, `values[name]` one number for each.

    The values are arrays that `Affine.evaluate` takes.
    """

    def __init__(self, extents: Mapping[str, int]) -> None:
        self.count = prod(extents.values())
        numbers = np.indices(tuple(extents.values())).reshape(len(extents), self.count)
        self.values: dict[str, Any] = dict(zip(extents, numbers, strict=True))

    def at(self, index: Affine, more: Mapping[str, int] | None = None) -> Numbers:
        """The value of `index` at each point; `more` has those of names beside the box's."""
        return self.each(index.evaluate(self.values | dict(more or {})))

    def each(self, numbers: Any) -> Numbers:
        """What an evaluation has come to, as one number for each point: a constant is the same at all."""
        return np.broadcast_to(np.asarray(numbers), self.count)


def first_of_equals(numbers: Numbers) -> Numbers:
    """For each number the place of the first one that is equal to it."""
    _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
    found: Numbers = first[which]
    return found
