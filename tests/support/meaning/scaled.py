"""What products with scales are, and with sums beside them, in numpy."""

from typing import Any

import numpy as np


def scaled(i: dict[str, Any]) -> dict[str, Any]:
    return {"C": i["row"][:, None] * (i["A"] @ i["B"].T) * i["column"]}


def block_scaled(i: dict[str, Any]) -> dict[str, Any]:
    rows, columns = i["A"].shape[0], i["B"].shape[0]
    blocks = np.einsum("ibk,jbk->ijb", i["A"].reshape(rows, -1, 128), i["B"].reshape(columns, -1, 128))
    return {"C": np.einsum("ijb,ib,jb->ij", blocks, i["SA"], np.repeat(i["SB"], 128, axis=0)[:columns])}


def scaled_by_groups(i: dict[str, Any]) -> dict[str, Any]:
    rows = zip(i["start"][:-1], i["start"][1:], i["B"], i["SB"], strict=True)
    parts = [{"A": i["A"][a:b], "SA": i["SA"][a:b], "B": each, "SB": scales} for a, b, each, scales in rows if a < b]
    return {"C": np.concatenate([block_scaled(part)["C"] for part in parts])}


def product_and_sums(i: dict[str, Any]) -> dict[str, Any]:
    c = i["A"] @ i["B"]
    return {"C": c, "total": c.sum(axis=1), "squares": (c**2).sum(axis=1)}
