"""Floating-point literals in C."""

from __future__ import annotations

from math import isinf

from tilegen.interpreter.scalar import converter, to_f32
from tilegen.ir.nodes import SHORT_FLOATS


def decimal(value: float, dtype: str) -> str:
    """The literal of a floating-point number of the type, as it is written where that means the same in C."""
    rounded = converter(dtype)(value)
    if isinf(rounded):
        return "-INFINITY" if rounded < 0 else "INFINITY"
    # C rounds a literal to f32 from its digits, Python from a double: two ways where that is half-way between two.
    across = 2 * value - rounded
    halfway = value != rounded and to_f32(across) == across
    text = repr(rounded if dtype in SHORT_FLOATS or dtype == "f32" and halfway else value)
    return text if dtype == "f64" else f"{text}f"
