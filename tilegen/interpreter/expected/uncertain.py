"""Exact functions of uncertain numbers: how far the result may be from the one at the middle.

A pair (x, e) stands for a number within e of x; where e is inf nothing is known of it, not even that it is a number.
An x that is infinite or nan is that for sure where e is 0. Errors that come out as nan mean inf.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilegen.interpreter.dtypes import Array

Pair = tuple[Array, Array]

EXACT: Array = np.zeros(())
# Where a function has a value; outside it is nan.
_DOMAINS = {
    "sqrt": (0.0, math.inf), "rsqrt": (0.0, math.inf), "log": (0.0, math.inf), "log2": (0.0, math.inf),
    "log1p": (-1.0, math.inf),
    "asin": (-1.0, 1.0), "acos": (-1.0, 1.0),
}  # fmt: skip


def product(left: Pair, right: Pair) -> Pair:
    """The product of two uncertain factors."""
    (x, ex), (y, ey) = left, right
    value = x * y
    error: Array = np.abs(x) * ey + np.abs(y) * ex + ex * ey
    if np.isfinite(value).all():
        return value, error
    # inf times a factor whose sign is sure.
    sure = np.isnan(x) | np.isnan(y) | ((np.abs(x) > ex) & (np.abs(y) > ey)) | _exact(left, right)
    return value, np.where(np.isfinite(value), error, np.where(sure, 0.0, np.inf))


def quotient(left: Pair, right: Pair) -> Pair:
    """The quotient of two uncertain numbers; nothing is known of it where the divisor may be 0."""
    (x, ex), (y, ey) = left, right
    value = x / y
    least = np.abs(y) - ey
    error = np.where(np.isfinite(value), (ex + np.abs(value) * ey) / np.where(least > 0, least, 1.0), 0.0)
    nan = np.isnan(x) | np.isnan(y)
    return value, np.where(_exact(left, right) | nan, 0.0, np.where(least > 0, error, np.inf))


def comparison(name: str, args: list[Pair]) -> Pair:
    """A bool, and 1 where either answer is possible."""
    compare: Callable[..., Array] = {
        "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
    }[name]  # fmt: skip
    (x, ex), (y, ey) = args
    slack = ex + ey
    if not np.any(slack):
        return compare(x, y), EXACT
    x, y = x.astype(np.float64), y.astype(np.float64)
    nan = (np.isnan(x) & (ex == 0)) | (np.isnan(y) & (ey == 0))
    unsure = (slack > 0) & ~(np.abs(x - y) > slack) & ~nan
    return compare(*(v for v, _ in args)), unsure.astype(np.float64)


def logical(name: str, args: list[Pair]) -> Pair:
    """`and`, `or` and `not`; one operand that is sure can be enough."""
    values, errors = [v for v, _ in args], [e for _, e in args]
    if name == "not":
        return np.logical_not(values[0]), errors[0]
    decides = name == "or"
    settled = ((values[0] == decides) & (errors[0] == 0)) | ((values[1] == decides) & (errors[1] == 0))
    join = np.logical_or if decides else np.logical_and
    return join(*values), np.where(settled, 0.0, np.maximum(*errors))


def select(condition: Pair, then: Pair, other: Pair) -> Pair:
    """Where the condition is not sure, the branch not taken counts too."""
    taken, unsure = condition
    value = np.where(taken, then[0], other[0])
    error = np.where(taken, then[1], other[1])
    if not np.any(unsure):
        return value, error
    x, y = then[0].astype(np.float64), other[0].astype(np.float64)
    alike = (x == y) | (np.isnan(x) & np.isnan(y))
    away = np.where(alike, 0.0, np.abs(x - y)) + np.where(taken, other[1], then[1])
    return value, np.where(unsure > 0, np.maximum(error, away), error)


def function(name: str, args: list[Pair]) -> Pair:
    """A scalar function of floating-point numbers."""
    value, error = args[0]
    if name in _DOMAINS:
        return _clip_to_range(name, value, error)
    match name:
        case "sin" | "cos":
            result = _FUNCTIONS[name](value)
            return result, np.minimum(error, 2.0)  # no steeper than 1, no larger than 1
        case "tan":
            poles = np.floor((value - error) / math.pi - 0.5) != np.floor((value + error) / math.pi - 0.5)
            sure = np.asarray(error) == 0
            value, error = monotone("tan", value, error)
            return value, np.where(poles & ~sure, np.inf, error)
        case "cosh":
            result = np.cosh(value)
            return result, np.where(error > 0, np.cosh(np.abs(value) + error) - result, 0.0)
        case "pow":
            return _power(*args)
        case "atan2":
            return _angle(*args)
        case _:
            return monotone(name, value, error)


def monotone(name: str, value: Array, error: Array) -> Pair:
    """A function without turning points is furthest from its value at an end of the interval."""
    result = _FUNCTIONS[name](value)
    if not np.any(error):
        return result, EXACT
    ends = [np.abs(_FUNCTIONS[name](value + sign * error) - result) for sign in (-1, 1)]
    return result, np.where(np.asarray(error) == 0, 0.0, np.maximum(*ends))


def _clip_to_range(name: str, value: Array, error: Array) -> Pair:
    """A monotone function that has values in a range alone: at its border, nan and numbers are possible."""
    low, high = _DOMAINS[name]
    result, spread = monotone(name, value, error)
    outside = (value + error < low) | (value - error > high) | np.isnan(value)
    inside = (value - error >= low) & (value + error <= high)
    return result, np.where(inside | (np.asarray(error) == 0), spread, np.where(outside, 0.0, np.inf))


def _exact(left: Pair, right: Pair) -> Array:
    result: Array = (np.asarray(left[1]) == 0) & (np.asarray(right[1]) == 0)
    return result


def _power(base: Pair, exponent: Pair) -> Pair:
    (x, ex), (y, ey) = base, exponent
    result = np.power(x, y)
    corners = [np.abs(np.power(x + a * ex, y + b * ey) - result) for a in (-1, 1) for b in (-1, 1)]
    error = np.maximum(np.maximum(corners[0], corners[1]), np.maximum(corners[2], corners[3]))
    known = (np.abs(x) > ex) & ((x > 0) | (ey == 0))
    return result, np.where(_exact(base, exponent), 0.0, np.where(known, error, np.inf))


def _angle(first: Pair, second: Pair) -> Pair:
    (y, ey), (x, ex) = first, second
    radius, slack = np.hypot(x, y), np.hypot(ex, ey)
    near = np.arcsin(np.minimum(1.0, slack / np.where(radius > 0, radius, 1.0)))
    jumps = (slack > 0) & ((radius <= slack) | ((x - ex <= 0) & (np.abs(y) <= ey)))
    return np.arctan2(y, x), np.where(jumps, 2 * math.pi, np.where(slack > 0, near, 0.0))


def _erf(values: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(values), dtype=np.float64)


def _shorten(values: Array, bits: int = 11, added: float = 0.5) -> Array:
    """The nearest numbers of that many significant bits, ties away from 0, not less apart than the least ones in f32.

    With 0 `added` to the last bit they are those next to `values` towards 0.
    """
    unit = np.ldexp(1.0, np.maximum(np.frexp(values)[1], -125) - bits)
    with np.errstate(invalid="ignore"):
        rounded = np.copysign(np.floor(np.abs(values) / unit + added) * unit, values)
    return np.where(np.isfinite(values), rounded, values)


_FUNCTIONS: dict[str, Any] = {
    "sqrt": np.sqrt, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log1p": np.log1p,
    "log2": np.log2, "sin": np.sin, "cos": np.cos, "tan": np.tan, "tanh": np.tanh, "sinh": np.sinh,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "erf": _erf, "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc, "tf32": _shorten,
    "tf32_rz": lambda x: _shorten(x, added=0.0), "power_of_two": lambda x: _shorten(x, 1, added=0.0),
}  # fmt: skip
