"""Running error bounds: each operation on (value, error) pairs, rigorous for every rounding a device may make.

A pair (x, e) stands for a number within e of the exact x. The bounds follow Higham, Accuracy and
Stability of Numerical Algorithms, 2nd edition, chapters 2 to 4: a rounded result is within u times itself, and
a sum of n terms in any order within gamma_n = n u / (1 - n u) times the sum of their magnitudes. A fused
multiply-add rounds once where this counts two, so it is covered.

Scalar functions are within a number of ulps of the exact value; where a step allows an approximation, within its
documented error (approximate.py) if that is more. The figures in ulps are the larger ones of the CUDA C++
Programming Guide (maximum ulp error, single precision) and of the OpenCL C specification (relative error as
ulps, full profile), which for all functions here is OpenCL's. The reference itself is computed in float64; its
roundings are counted too, by adding float64's unit roundoff to that of the type.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilegen.interpreter.approximate import approximation_error
from tilegen.interpreter.dtypes import Array, wrapped
from tilegen.ir.nodes import FLOATS

Pair = tuple[Array, Array]

_UNIT = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
# The least normal numbers.
_TINY = {"f64": 2.0**-1022, "f32": 2.0**-126, "f16": 2.0**-14, "bf16": 2.0**-126}
_LARGEST = {"f64": 1.7976931348623157e308, "f32": 3.4028234663852886e38, "f16": 65504.0, "bf16": 3.3895313892515355e38}

_ULPS = {
    "/": 2.5, "sqrt": 3, "rsqrt": 2, "exp": 3, "exp2": 3, "log": 3, "log2": 3, "sin": 4, "cos": 4, "tan": 5,
    "asin": 4, "acos": 4, "atan": 5, "atan2": 6, "sinh": 4, "cosh": 4, "tanh": 5, "erf": 16, "pow": 16,
}  # fmt: skip


_EXACT: Array = np.zeros(())


def unit(dtype: str) -> float:
    """The unit roundoff that one operation of `dtype` and one of the reference make together; 0 for integers."""
    return _UNIT[dtype] + 2.0**-53 if dtype in FLOATS else 0.0


def gamma(count: int, dtype: str) -> float:
    """gamma_n for n operations of `dtype`; inf where so many say nothing any more."""
    product = count * unit(dtype)
    return product / (1 - product) if product < 1 else float("inf")


def tiny(dtype: str) -> float:
    """What an underflow of one operation can cost, gradual or flushed to zero: the least normal number."""
    return _TINY[dtype]


def rounded(value: Array, error: Array, dtype: str, ulps: float = 0.5) -> Pair:
    """The pair after the result was rounded to `dtype` with the given error in ulps (an ulp is at most 2u)."""
    if dtype not in FLOATS:
        return value, error
    size = np.where(np.isfinite(value), np.abs(value) + error, 0.0)
    return value, error + 2 * ulps * unit(dtype) * size + np.where(size > 0, _TINY[dtype], 0.0)


def overflowed(value: Array, error: Array, dtype: str) -> Array:
    """The error, inf where the number may be too large for `dtype`, or where nothing is known of it."""
    beyond = np.isfinite(value) & (np.abs(value) + error > _LARGEST[dtype])
    return np.where(beyond | np.isnan(error), np.inf, error)


def operation(name: str, args: list[Pair], dtype: str, *, rough: bool = False) -> Pair:
    """The operation on pairs, by the hardware's approximation if `rough`; the error of a bool is 1 where either
    answer is possible.
    """
    values, errors = [a[0] for a in args], [a[1] for a in args]
    match name:
        case "+" | "-":
            value = values[0] + values[1] if name == "+" else values[0] - values[1]
            return rounded(value, errors[0] + errors[1], dtype)
        case "*":
            return rounded(values[0] * values[1], product_error(*args), dtype)
        case "/":
            return _computed(name, args, _quotient(*args), dtype, rough)
        case "//" | "%":
            return _integer_quotient(name, *values), _EXACT
        case "&" | "|" | "^" | "<<" | ">>" | "~":
            return _BITS[name](*values), _EXACT
        case "fma":
            product, error = values[0] * values[1], product_error(args[0], args[1])
            return operation("+", [rounded(product, error, dtype), args[2]], dtype)
        case "neg":
            return -values[0], errors[0]
        case "abs":
            return np.abs(values[0]), errors[0]
        case "min" | "max":
            choose = np.fmin if name == "min" else np.fmax
            return choose(*values), np.maximum(*errors)
        case "<" | "<=" | ">" | ">=" | "==" | "!=":
            return _comparison(name, args)
        case "and" | "or" | "not":
            return _logical(name, values, errors)
        case "select":
            return _select(*args)
        case "floor" | "ceil" | "round":
            return _monotone(_FUNCTIONS[name], *args[0])
        case _:
            return _computed(name, args, _function(name, args), dtype, rough)


def _computed(name: str, args: list[Pair], exact: Pair, dtype: str, rough: bool) -> Pair:
    """What a device may make of a function, given the exact function of the uncertain arguments."""
    accurate = rounded(*exact, dtype, _ULPS[name])
    if not rough or dtype == "f64":
        return accurate
    value, error = exact
    error = error + approximation_error(name, args, np.abs(value) + error)
    if dtype != "f32":
        value, error = rounded(value, error, dtype)
    # A device without the approximation has the accurate function.
    return value, np.maximum(accurate[1], error)


def cast(pair: Pair, old: str, new: str) -> Pair:
    """A pair of type `old` as `new`; to an integer the fraction is cut off."""
    value, error = pair
    if new in FLOATS:
        value = value.astype(np.float64)
        if old in FLOATS:
            exact = _UNIT[new] <= _UNIT[old] and (old, new) != ("bf16", "f16")
        else:
            exact = bool(np.all(np.abs(value) <= 1 / _UNIT[new]))
        return (value, error) if exact else rounded(value, error, new)
    if old in FLOATS:
        value, error = _monotone(np.trunc, value, error)
        value = np.where(np.isfinite(value), value, 0)
    return wrapped(value, new), error


def product_error(left: Pair, right: Pair) -> Array:
    """How far the product of two uncertain factors is from that of the exact ones."""
    (x, ex), (y, ey) = left, right
    error: Array = np.abs(x) * ey + np.abs(y) * ex + ex * ey
    return error


def _quotient(left: Pair, right: Pair) -> Pair:
    (x, ex), (y, ey) = left, right
    value = x / y
    least = np.abs(y) - ey
    error = (ex + np.abs(value) * ey) / np.where(least > 0, least, 1.0)
    exact = (ex == 0) & (ey == 0)
    return value, np.where(exact, 0.0, np.where(least > 0, error, np.inf))


def _integer_quotient(name: str, x: Array, y: Array) -> Array:
    safe = np.where(y == 0, 1, y)
    result: Array = np.where(y == 0, 0, x // safe if name == "//" else x % safe)
    return result


def _comparison(name: str, args: list[Pair]) -> Pair:
    compare: Callable[..., Array] = {
        "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
    }[name]  # fmt: skip
    (x, ex), (y, ey) = args
    slack = ex + ey
    unsure = (slack > 0) & (np.abs(x - y) <= slack)
    return compare(x, y), unsure.astype(np.float64)


def _logical(name: str, values: list[Array], errors: list[Array]) -> Pair:
    if name == "not":
        return np.logical_not(values[0]), errors[0]
    join = np.logical_and if name == "and" else np.logical_or
    return join(*values), np.maximum(*errors)


def _select(condition: Pair, then: Pair, other: Pair) -> Pair:
    """Where the condition is not sure, the branch not taken counts too."""
    taken, unsure = condition
    value = np.where(taken, then[0], other[0])
    error = np.where(taken, then[1], other[1])
    away = np.abs(np.subtract(then[0], other[0])) + np.where(taken, other[1], then[1])
    return value, np.where(unsure > 0, np.maximum(error, away), error)


def _function(name: str, args: list[Pair]) -> Pair:
    """The exact function of uncertain arguments."""
    value, error = args[0]
    match name:
        case "sin" | "cos":
            return _FUNCTIONS[name](value), np.minimum(error, 2.0)  # no steeper than 1, no larger than 1
        case "tan":
            poles = np.floor((value - error) / math.pi - 0.5) != np.floor((value + error) / math.pi - 0.5)
            value, error = _monotone(np.tan, value, error)
            return value, np.where(poles, np.inf, error)
        case "cosh":
            result = np.cosh(value)
            return result, np.where(error > 0, np.cosh(np.abs(value) + error) - result, 0.0)
        case "rsqrt":
            result = 1.0 / np.sqrt(value)
            near = np.where(value > error, 1.0 / np.sqrt(np.where(value > error, value - error, 1.0)), np.inf)
            return result, np.where(error > 0, near - result, 0.0)
        case "pow":
            return _power(*args)
        case "atan2":
            return _angle(*args)
        case _:
            return _monotone(_FUNCTIONS[name], value, error)


def _monotone(function: Callable[[Array], Array], value: Array, error: Array) -> Pair:
    """A function without turning points is furthest from its value at an end of the interval."""
    result = function(value)
    if not np.any(error):
        return result, _EXACT
    ends = [np.abs(function(value + sign * error) - result) for sign in (-1, 1)]
    return result, np.where(np.asarray(error) == 0, 0.0, np.maximum(*ends))


def _power(base: Pair, exponent: Pair) -> Pair:
    (x, ex), (y, ey) = base, exponent
    result = np.power(x, y)
    corners = [np.abs(np.power(x + a * ex, y + b * ey) - result) for a in (-1, 1) for b in (-1, 1)]
    error = np.maximum(np.maximum(corners[0], corners[1]), np.maximum(corners[2], corners[3]))
    known = (np.abs(x) > ex) & ((x > 0) | (ey == 0))
    exact = (np.asarray(ex) == 0) & (np.asarray(ey) == 0)
    return result, np.where(exact, 0.0, np.where(known, error, np.inf))


def _angle(first: Pair, second: Pair) -> Pair:
    (y, ey), (x, ex) = first, second
    radius, slack = np.hypot(x, y), np.hypot(ex, ey)
    near = np.arcsin(np.minimum(1.0, slack / np.where(radius > 0, radius, 1.0)))
    jumps = (slack > 0) & ((radius <= slack) | ((x - ex <= 0) & (np.abs(y) <= ey)))
    return np.arctan2(y, x), np.where(jumps, 2 * math.pi, np.where(slack > 0, near, 0.0))


def _erf(values: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(values), dtype=np.float64)


_BITS: dict[str, Any] = {
    "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor, "~": np.invert,
    "<<": np.left_shift, ">>": np.right_shift,
}  # fmt: skip
_FUNCTIONS: dict[str, Any] = {
    "sqrt": np.sqrt, "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sin": np.sin, "cos": np.cos,
    "tanh": np.tanh, "sinh": np.sinh, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "erf": _erf,
    "floor": np.floor, "ceil": np.ceil, "round": np.rint,
}  # fmt: skip
