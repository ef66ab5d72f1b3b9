"""What a reduction starts from."""

from __future__ import annotations

from tilegen.ir.nodes import DTYPE_BYTES, FLOATS, ONLY, Const, Nothing
from tilegen.ir.parts.lists import LISTS
from tilegen.ir.reductions.linear import LINEAR


def limits(dtype: str) -> tuple[int, int]:
    """The least and the greatest integer of `dtype`."""
    bits = 8 * DTYPE_BYTES[dtype]
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def init_value(reduce: str, dtype: str) -> Const:
    """The neutral element that a reduction of `dtype` starts from (for argmax and argmin: of its best)."""
    if reduce == ONLY:
        return Nothing(0, dtype)
    if reduce in ("sum", "prod", LINEAR, *LISTS):
        return Const(1 if reduce == "prod" else 0, dtype)
    sign = -1 if reduce in ("max", "argmax") else 1
    if dtype in FLOATS:
        return Const(sign * float("inf"), dtype)
    return Const(limits(dtype)[sign > 0], dtype)


# The operation that combines two results of a reduction.
COMBINES = {"sum": "+", "prod": "*", "max": "max", "min": "min"}
