"""Running error bounds: each operation on (value, error) pairs, rigorous for every rounding a device may make.

A pair (x, e) stands for a number within e of the exact x; see uncertain.py. The bounds follow Higham, Accuracy and
Stability of Numerical Algorithms, 2nd edition, chapters 2 to 4: a rounded result is within u times itself, and
a sum of n terms in any order within gamma_n = n u / (1 - n u) times the sum of their magnitudes, where terms that are
0 do not count. A fused multiply-add rounds once where this counts two, so it is covered. Sums and products of integers
that the type holds are integers, and exact where the type holds all of them.

A result that may be too large for its type is inf on one device and, by a fused operation or another order, a number
on the next; what follows from it may be nan. So nothing is known of it.

Scalar functions are within a number of ulps of the exact value; where a step allows an approximation, within its
documented error (approximate.py) if that is more. The figures in ulps are the larger ones of the CUDA C++
Programming Guide (maximum ulp error, single precision) and of the OpenCL C specification (relative error as
ulps, full profile), which for all functions here is OpenCL's. The reference itself is computed in float64; its
roundings are counted too, by adding float64's unit roundoff to that of the type.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from tilegen.interpreter.byte_floats import BYTE_FORMATS
from tilegen.interpreter.dtypes import NUMPY, Array, wrap
from tilegen.interpreter.expected.approximate import approximation_error
from tilegen.interpreter.expected.uncertain import (
    EXACT,
    Pair,
    comparison,
    function,
    logical,
    monotone,
    product,
    quotient,
    select,
)
from tilegen.ir.nodes import BYTE_FLOATS, FLOATS, INTEGERS

_UNIT = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8, "e4m3": 2.0**-4, "e5m2": 2.0**-3}
# What an underflow costs: a number of the range of f32 may be taken as 0 if it is subnormal, one of less is kept.
_TINY = {"f64": 2.0**-1022, "f32": 2.0**-126, "f16": 2.0**-24, "bf16": 2.0**-126, "e4m3": 2.0**-9, "e5m2": 2.0**-16}
_LEAST_NORMAL = _TINY | {"f16": 2.0**-14, "e4m3": 2.0**-6, "e5m2": 2.0**-14}
# What is larger is no number of the type; one that takes the largest for it has no such numbers.
_LARGEST = {"f64": 1.7976931348623157e308, "f32": 3.4028234663852886e38, "f16": 65504.0, "bf16": 3.3895313892515355e38}
_LARGEST |= dict.fromkeys(BYTE_FLOATS, float("inf"))

_ULPS = {
    "/": 2.5, "sqrt": 3, "rsqrt": 2, "exp": 3, "exp2": 3, "expm1": 3, "log": 3, "log1p": 2, "log2": 3,
    "sin": 4, "cos": 4, "tan": 5, "asin": 4, "acos": 4, "atan": 5, "atan2": 6, "sinh": 4, "cosh": 4, "tanh": 5,
    "erf": 16, "pow": 16,
}  # fmt: skip
# What can be too large for float64, of arguments that are not.
_GROWING = ("+", "-", "*", "/", "exp", "exp2", "expm1", "sinh", "cosh", "pow")
_BITS: dict[str, Any] = {
    "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor, "~": np.invert,
    "<<": np.left_shift, ">>": np.right_shift,
}  # fmt: skip


def unit(dtype: str) -> float:
    """The unit roundoff that one operation of `dtype` and one of the reference make together; 0 for integers."""
    return _UNIT[dtype] + 2.0**-53 if dtype in FLOATS else 0.0


def gamma(count: Any, dtype: str) -> Array:
    """gamma_n for n operations of `dtype`, a number or an array of them; inf from 1 on, for such a bound says nothing:
    0 is within it."""
    product = np.asarray(count * unit(dtype))
    return np.where(product < 0.5, product / np.maximum(1 - product, 0.5), np.inf)


def are_integers(value: Array, error: Array) -> bool:
    """Whether all are integers for sure."""
    return not np.any(error) and bool(np.all(value == np.rint(value)))


def holds_integers(size: Array, dtype: str) -> Array:
    """Where the type has all integers up to this size."""
    return np.asarray(size <= 1 / _UNIT[dtype])


def tiny(dtype: str) -> float:
    """What an underflow of one operation can cost."""
    return _TINY[dtype]


def least_normal(dtype: str) -> float:
    """The least number of a floating-point type whose exponent is its own."""
    return _LEAST_NORMAL[dtype]


def round_to(value: Array, error: Array, dtype: str, ulps: float = 0.5) -> Pair:
    """The pair after the result was rounded to `dtype` with the given error in ulps (an ulp is at most 2u)."""
    if dtype not in FLOATS:
        return value, error
    size = np.where(np.isfinite(value), np.abs(value) + error, 0.0)
    return value, error + 2 * ulps * unit(dtype) * size + np.where(size > 0, _TINY[dtype], 0.0)


def error_with_overflow(value: Array, error: Array, dtype: str) -> Array:
    """The error, inf where the number may be too large for `dtype`, or where nothing is known of it.

    What is infinite or nan is so for sure, unless nothing is known of it.
    """
    error = np.where(np.isfinite(value) | np.isinf(error) | np.isnan(error), error, 0.0)
    beyond = np.isfinite(value) & (np.abs(value) + error > _LARGEST[dtype])
    return np.where(beyond | np.isnan(error), np.inf, error)


def operation(name: str, args: list[Pair], dtype: str, *, rough: bool = False) -> Pair:
    """The operation on pairs, by the hardware's approximation if `rough`; the error of a bool is 1 where either
    answer is possible.
    """
    match name:
        case "<" | "<=" | ">" | ">=" | "==" | "!=":
            return comparison(name, args)
        case "and" | "or" | "not":
            return logical(name, args)
        case "select":
            value, error = select(args[0], args[1], args[2])
            return value, np.where(np.isnan(error), np.inf, error)
    if dtype in INTEGERS:
        return _of_integers(name, args, dtype)
    if name == "fma":
        return operation("+", [operation("*", args[:2], dtype), args[2]], dtype)
    value, error = _of_floats(name, args, dtype, rough)
    if dtype == "f64" and name in _GROWING and np.isinf(value).any():
        finite = reduce(np.logical_and, (np.isfinite(v) for v, _ in args))
        pole = name == "/" and args[1][0] == 0
        error = np.where(np.isinf(value) & finite & ~np.asarray(pole), np.inf, error)
    return value, np.where(_mask_unknown(args), np.inf, error_with_overflow(value, error, dtype))


def _mask_unknown(args: list[Pair]) -> Array:
    """Where nothing is known of one of the arguments."""
    result: Array = reduce(np.logical_or, (np.isinf(e) for _, e in args))
    return result


def _of_floats(name: str, args: list[Pair], dtype: str, rough: bool) -> Pair:
    (x, ex), (y, ey) = args[0], args[-1]
    match name:
        case "+" | "-" | "*":
            exact = product(*args) if name == "*" else (x + y if name == "+" else x - y, ex + ey)
            if all(are_integers(*pair) for pair in args) and holds_integers(np.abs(exact[0]), dtype).all():
                return exact
            return round_to(*exact, dtype)
        case "/":
            return _as_on_a_device(name, args, quotient(args[0], args[1]), dtype, rough)
        case "neg":
            return -x, ex
        case "abs":
            return np.abs(x), ex
        case "min" | "max":
            return (np.fmin if name == "min" else np.fmax)(x, y), np.maximum(ex, ey)
        case "floor" | "ceil" | "round" | "tf32" | "tf32_rz" | "power_of_two":
            return monotone(name, x, ex)
        case _:
            return _as_on_a_device(name, args, function(name, args), dtype, rough)


def _of_integers(name: str, args: list[Pair], dtype: str) -> Pair:
    """Integers wrap; what wraps is known no more where it was not sure before, nor are quotients and bits of such."""
    (x, ex), (y, ey) = args[0], args[-1]
    match name:
        case "+" | "-":
            value, error = x + y if name == "+" else x - y, ex + ey
        case "*":
            value, error = x * y, np.abs(x) * ey + np.abs(y) * ex + ex * ey
        case "neg":
            value, error = -x, ex
        case "abs":
            value, error = np.abs(x), ex
        case "min" | "max":
            value, error = (np.minimum if name == "min" else np.maximum)(x, y), np.maximum(ex, ey)
        case "//" | "%":
            value, error = _integer_quotient(name, x, y), np.where(ex + ey > 0, np.inf, 0.0)
        case _:
            value, error = _BITS[name](*(v for v, _ in args)), np.where(ex + ey > 0, np.inf, 0.0)
    return _wrap_pair((value, error), dtype)


def _wrap_pair(pair: Pair, dtype: str) -> Pair:
    """An integer brought into the range of its type."""
    value, error = pair
    if not np.any(error):
        return wrap(value, dtype), EXACT
    limits, size = np.iinfo(NUMPY[dtype]), value.astype(np.float64)
    leaves = (error > 0) & ((size + error > limits.max) | (size - error < limits.min))
    return wrap(value, dtype), np.where(leaves | np.isnan(error), np.inf, error)


def _as_on_a_device(name: str, args: list[Pair], exact: Pair, dtype: str, rough: bool) -> Pair:
    """What a device may make of a function, given the exact function of the uncertain arguments."""
    accurate = round_to(*exact, dtype, _ULPS[name])
    if not rough or dtype == "f64":
        return accurate
    value, error = exact
    error = error + approximation_error(name, args, np.abs(value) + error)
    if dtype != "f32":
        value, error = round_to(value, error, dtype)
    # A device without the approximation has the accurate function.
    return value, np.maximum(accurate[1], error)


def cast(pair: Pair, old: str, new: str) -> Pair:
    """A pair of type `old` as `new`.

    From a float to an integer the fraction is cut off, what is beyond the range becomes its end, and nan becomes 0.
    What is beyond the range of a float of one byte becomes its end, too.
    """
    value, error = pair
    if new in INTEGERS:
        return _truncate(value, error, new) if old in FLOATS else _wrap_pair((value.astype(np.int64), error), new)
    value = value.astype(np.float64)
    if old in FLOATS:
        exact = _UNIT[new] <= _UNIT[old] and (old, new) not in (("bf16", "f16"), ("e5m2", "e4m3"))
    else:
        exact = bool(np.all(np.abs(value) <= min(1 / _UNIT[new], _LARGEST[new])))
    if exact:
        return value, error
    if new in BYTE_FLOATS:
        return _saturate(value, error, new)
    value, wider = round_to(value, error, new)
    return value, np.where(np.isinf(error), np.inf, error_with_overflow(value, wider, new))


def _saturate(value: Array, error: Array, dtype: str) -> Pair:
    """Numbers brought into the range, which takes none further from another, and rounded."""
    largest = BYTE_FORMATS[dtype].largest
    value = np.clip(value, -largest, largest)
    size = np.where(np.isfinite(value), np.minimum(np.abs(value) + error, largest), 0.0)
    rounding = unit(dtype) * size + np.where(size > 0, _TINY[dtype], 0.0)
    return value, error + rounding


def _truncate(value: Array, error: Array, dtype: str) -> Pair:
    whole, spread = monotone("trunc", value, error)
    limits = np.iinfo(NUMPY[dtype])
    # The largest i64 is no float64.
    inside = np.where(whole < float(limits.max), np.maximum(whole, float(limits.min)), 0.0)
    cut = np.where(np.isnan(value), 0, np.where(whole < float(limits.max), inside.astype(np.int64), limits.max))
    spread = np.where(np.isfinite(value) | np.isinf(error), spread, 0.0)
    return cut, np.where(np.isinf(error) | np.isnan(spread), np.inf, spread)


def _integer_quotient(name: str, x: Array, y: Array) -> Array:
    """0 where the divisor is 0."""
    safe = np.where(y == 0, 1, y)
    result: Array = np.where(y == 0, 0, x // safe if name == "//" else x % safe)
    return result
