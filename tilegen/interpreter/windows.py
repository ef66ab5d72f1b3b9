"""What windows of an input show, as an array."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tilegen.ir.parts.windows import Windows


def shown_by(windows: Windows, sizes: Mapping[str, int], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An element for each place of the windows, from those of their tensor."""
    counts = {word: max(0, extent.evaluate(sizes)) for word, extent in windows.extents.items()}
    places: dict[str, Any] = dict(zip(counts, np.indices(tuple(counts.values()), sparse=True), strict=True))
    index = [np.asarray(i.evaluate({**sizes, **places})) for i in windows.index]
    inside = [(i >= 0) & (i < n) for i, n in zip(index, values.shape, strict=True)]
    found = values[tuple(np.clip(i, 0, n - 1) for i, n in zip(index, values.shape, strict=True))]
    if windows.fallback is not None:
        for each in inside:
            found = np.where(each, found, np.asarray(windows.fallback.value, values.dtype))
    shape = tuple(prod(counts[word] for word, _ in group) for group in windows.digits)
    return np.ascontiguousarray(np.broadcast_to(found, tuple(counts.values()))).reshape(shape)
