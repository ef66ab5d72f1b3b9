"""What the kernels over rows of different length compute, in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np


def rows(i: dict[str, Any], terms: Any) -> Any:
    """The sums of `terms` from each start to the next one."""
    return np.array([terms[a:b].sum(axis=0) for a, b in zip(i["start"][:-1], i["start"][1:], strict=True)])


def softmax_of_rows(i: dict[str, Any]) -> dict[str, Any]:
    parts = [np.exp(row - max(row, default=0)) for row in np.split(i["x"], i["start"][1:-1])]
    return {"y": np.concatenate([part / part.sum() for part in parts])}


def bags(i: dict[str, Any]) -> dict[str, Any]:
    return {"Y": rows(i, _rows_at(i["E"], i["token"]))}


def sparse_product(i: dict[str, Any]) -> dict[str, Any]:
    return {"Y": rows(i, i["value"][:, None] * _rows_at(i["X"], i["column"]))}


def block_product(i: dict[str, Any]) -> dict[str, Any]:
    return {"Y": rows(i, np.einsum("erc,ecf->erf", i["value"], _rows_at(i["X"], i["column"])))}


def panel_product(i: dict[str, Any], panels: int, each: int) -> dict[str, Any]:
    """The blocks of each row panel by panel, of so many blocks of X each, whatever panels their columns name."""
    first = i["start"][:-1].reshape(-1, panels)
    panel = np.repeat(np.tile(np.arange(panels), len(first)), np.diff(i["start"]))
    start = np.append(first[:, 0], i["start"][-1])
    x = i["X"].reshape(panels * each, *i["X"].shape[2:])
    return block_product(i | {"column": panel * each + i["column"] % each, "start": start, "X": x})


def group_products(i: dict[str, Any]) -> dict[str, Any]:
    parts = zip(i["start"][:-1], i["start"][1:], i["B"], strict=True)
    return {"C": np.concatenate([i["A"][a:b] @ factor for a, b, factor in parts])}


def attention(i: dict[str, Any], scale: float) -> dict[str, Any]:
    """Each head of each sequence by itself."""
    parts = []
    for a, b in zip(i["start"][:-1], i["start"][1:], strict=True):
        weights = np.exp(scale * np.einsum("ihd,jhd->hij", i["Q"][a:b], i["K"][a:b]))
        parts.append(np.einsum("hij,jhd->ihd", weights / weights.sum(axis=2, keepdims=True), i["V"][a:b]))
    return {"O": np.concatenate(parts)}


def _rows_at(table: Any, places: Any) -> Any:
    """These rows of a table, zeros where it has none."""
    inside = (places >= 0) & (places < len(table))
    return table[np.where(inside, places, 0)] * inside.reshape(-1, *(1,) * (table.ndim - 1))
