"""How far the approximations of CUDA's hardware may be from the functions they stand for, in single precision.

The bounds are those of the CUDA C++ Programming Guide, release 13, table "Single-Precision Floating-Point
Intrinsic Functions" (__fdividef, __expf, __logf, __log2f, __sinf, __cosf), and of the PTX ISA, release 9,
"Floating Point Instructions" (sqrt.approx, rsqrt.approx, ex2.approx, tanh.approx). Outside the range for which
a bound is documented there is none: the error is inf, and a check claims nothing of the element.
"""

from __future__ import annotations

import math

import numpy as np

from tilegen.interpreter.dtypes import Array

_ULP = 2.0**-23  # of a normal number, as a share of it, at most
_TINY = 2.0**-126  # the least normal number; below it, arguments and results may be taken as 0
_LARGEST = (2 - 2.0**-23) * 2.0**127


def approximation_error(name: str, args: list[tuple[Array, Array]], size: Array) -> Array:
    """How far the approximation of `name` at uncertain arguments may be from the function there.

    Args:
        args: (value, error) of each argument.
        size: how large the function's value may be.
    """
    value, slack = args[-1]
    low, high = value - slack, value + slack
    most = np.maximum(np.abs(low), np.abs(high))
    normal = (low >= _TINY) & (high <= _LARGEST)
    match name:
        case "sin":
            error, known = np.full_like(size, 2.0**-21.41), most <= math.pi
        case "cos":
            error, known = np.full_like(size, 2.0**-21.19), most <= math.pi
        case "exp":
            error, known = (2 + np.floor(1.173 * most)) * _ULP * size, most <= _LARGEST
        case "exp2":
            # 2 ulp from the correctly rounded result.
            error, known = 2.5 * _ULP * size, most <= _LARGEST
        case "log":
            error, known = _logarithm(low, high, 2.0**-21.41, 3 * _ULP * size), normal
        case "log2":
            error, known = _logarithm(low, high, 2.0**-22, 2 * _ULP * size), normal
        case "sqrt":
            error, known = 2.0**-23 * size, normal | ((value == 0) & (slack == 0))
        case "rsqrt":
            error, known = 2.0**-22.9 * size, normal
        case "tanh":
            error, known = 2.0**-11 * size, most <= _LARGEST
        case "/":
            least = np.abs(value) - slack
            error, known = 2 * _ULP * size, (least >= _TINY) & (most <= 2.0**126)
        case _:
            raise TypeError(name)
    return np.where(known, error + _TINY, np.inf)


def _logarithm(low: Array, high: Array, near: float, far: Array) -> Array:
    """`near` is the absolute error between 1/2 and 2, `far` the error elsewhere."""
    inside = np.where((high >= 0.5) & (low <= 2), near, 0.0)
    return np.maximum(inside, np.where((low < 0.5) | (high > 2), far, 0.0))
