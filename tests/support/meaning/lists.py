"""What the stock kernels with lists mean, in plain Python."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np


def kept(hits: list[Any], empty: Any) -> Any:
    """The hits that there is room for, and nan after them."""
    for place, hit in enumerate(hits[: len(empty)]):
        empty[place] = hit
    return empty


def compaction(i: dict[str, Any]) -> dict[str, Any]:
    hits = [x for x in i["X"] if x >= i["least"]]
    return {"Y": kept(hits, np.full(len(i["X"]), np.nan)), "count": [len(hits)]}


def keypoints(i: dict[str, Any]) -> dict[str, Any]:
    image, hits = i["X"], []
    for y, x in product(range(1, len(image) - 1), range(1, len(image[0]) - 1)):
        around = image[y - 1 : y + 2, x - 1 : x + 2].ravel()
        if image[y, x] > i["least"] and around.argmax() == 4:
            hits.append((y, x))
    return {"at": kept(hits, np.full((6, 2), np.nan)), "count": [len(hits)]}
