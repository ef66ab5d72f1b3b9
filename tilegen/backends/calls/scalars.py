"""The numbers that a call gives for scalar parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilegen.backends.calls.arrays import AS_BITS, NUMPY_NAME
from tilegen.errors import ArgumentError
from tilegen.interpreter.byte_floats import BYTE_FORMATS
from tilegen.interpreter.dtypes import from_values, to_values
from tilegen.ir.nodes import BYTE_FLOATS, FLOATS, INTEGERS, SHORT_FLOATS, Scalar


def _plain(name: str) -> tuple[type, Any, Any, Any]:
    stored = np.dtype(NUMPY_NAME[name])
    limits: Any = np.finfo(stored) if name in FLOATS else np.iinfo(stored)
    kind = float if name in FLOATS else int
    return kind, stored.type, kind(limits.min), kind(limits.max)


# Types of which Python's own number is stored as it is or rounded: that in Python, in numpy, and the limits.
_PLAIN = {name: _plain(name) for name in ("f64", "f32", *INTEGERS)}


def stored_scalar(scalar: Scalar, value: object) -> Any:
    """`value`, a number of Python or numpy, as a numpy scalar of the type, or of its bits.

    An integer type takes integers alone. A floating-point type rounds to nearest, as it does in an array.

    Raises:
        ArgumentError: not a number, a fraction where an integer is wanted, or a number beyond the type's range.
    """
    if plain := _PLAIN.get(scalar.dtype):
        own, stored, low, high = plain
        if type(value) is own and low <= value <= high:
            return stored(value)
    if str(getattr(value, "dtype", "")) in AS_BITS.values() and isinstance(value, np.generic):
        value = float(value)  # a number of ml_dtypes, which is none of numpy's
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        shape = getattr(value, "shape", None)
        notes = () if shape is None else (f"give the number itself: {scalar.name}=float(...), or int(...)",)
        kind = type(value).__name__
        raise ArgumentError(f"{scalar.name} is a {kind}, and the kernel takes a number, {scalar.dtype}", notes=notes)
    if scalar.dtype in FLOATS:
        return _round_scalar(scalar, value)
    if not isinstance(value, int | np.integer):
        raise ArgumentError(f"{scalar.name} is {value}, and the kernel takes an integer, {scalar.dtype}")
    _, stored, low, high = _PLAIN[scalar.dtype]
    if not low <= int(value) <= high:
        raise ArgumentError(f"{scalar.name} is {value}, and {scalar.dtype} goes from {low} to {high}")
    return stored(int(value))


def _round_scalar(scalar: Scalar, value: Any) -> Any:
    try:
        number = float(value)
    except OverflowError:
        number = np.inf
    largest = BYTE_FORMATS[scalar.dtype].largest if scalar.dtype in BYTE_FLOATS else np.inf
    if abs(number) > largest:
        message = f"{scalar.name} is {value}, and {scalar.dtype} goes from {-largest:g} to {largest:g}"
        raise ArgumentError(message)
    stored = from_values(np.asarray(number), scalar.dtype)[()]
    overflows = np.isinf(to_values(np.asarray(stored), scalar.dtype)) and not (
        isinstance(value, float | np.floating) and np.isinf(value)
    )
    if overflows:
        raise ArgumentError(f"{scalar.name} is {value}, which is too large for {scalar.dtype}")
    return stored


def passed_scalar(scalar: Scalar, stored: Any) -> Any:
    """A stored scalar as a kernel's text takes it: a short float as the f32 of the same value."""
    if scalar.dtype in SHORT_FLOATS:
        return np.float32(to_values(np.asarray(stored), scalar.dtype))
    return stored
