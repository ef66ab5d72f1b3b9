"""The scalar operations on Python numbers, total: where mathematics has no value there is nan or inf, no exception."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from ctypes import c_float
from functools import partial
from typing import Any

from tilegen.interpreter.byte_floats import to_byte_float
from tilegen.ir.nodes import DTYPE_BYTES, FLOATS

_NAN, _INF = float("nan"), float("inf")


def divide(x: float, y: float) -> float:
    if y != 0:
        return x / y
    if x == 0 or x != x or y != y:
        return _NAN
    return math.copysign(_INF, x) * math.copysign(1.0, y)


def floor_divide(x: int, y: int) -> int:
    """floor(x / y) of integers; 0 where y is 0."""
    return x // y if y else 0


def remainder(x: int, y: int) -> int:
    """x - y * floor(x / y) of integers; 0 where y is 0."""
    return x % y if y else 0


def power(x: float, y: float) -> float:
    try:
        return math.pow(x, y)
    except OverflowError:
        return -_INF if x < 0 and y % 2 == 1 else _INF
    except ValueError:
        return _INF if x == 0 else _NAN


def smaller(x: Any, y: Any) -> Any:
    """The smaller number; the other one where one is nan."""
    return x if x < y or y != y else y


def larger(x: Any, y: Any) -> Any:
    """The larger number; the other one where one is nan."""
    return x if x > y or y != y else y


def _total(function: Callable[[float], float], overflow: Callable[[float], float]) -> Callable[[float], float]:
    """`function` with nan outside its domain, and `overflow(x)` where the result is too large."""

    def call(x: float) -> float:
        try:
            return function(x)
        except OverflowError:
            return overflow(x)
        except ValueError:
            return _NAN

    return call


def _logarithm(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: function(x) if x > 0 else (-_INF if x == 0 else _NAN)


def _finite_only(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: float(function(x)) if math.isfinite(x) else x


def _signed_inf(x: float) -> float:
    return math.copysign(_INF, x)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "/": divide,
    "//": floor_divide,
    "%": remainder,
    "pow": power,
    "min": smaller,
    "max": larger,
    "abs": abs,
    "fma": lambda x, y, z: x * y + z,
    "atan2": math.atan2,
    "erf": math.erf,
    "tanh": math.tanh,
    "atan": math.atan,
    "sqrt": _total(math.sqrt, _signed_inf),
    "rsqrt": lambda x: divide(1.0, math.sqrt(x)) if x >= 0 else _NAN,
    "exp": _total(math.exp, lambda x: _INF),
    "expm1": _total(math.expm1, lambda x: _INF),
    "exp2": lambda x: power(2.0, x),
    "log": _logarithm(math.log),
    "log1p": lambda x: math.log1p(x) if x > -1 else -_INF if x == -1 else _NAN,
    "log2": _logarithm(math.log2),
    "sin": _total(math.sin, _signed_inf),
    "cos": _total(math.cos, _signed_inf),
    "tan": _total(math.tan, _signed_inf),
    "asin": _total(math.asin, _signed_inf),
    "acos": _total(math.acos, _signed_inf),
    "sinh": _total(math.sinh, _signed_inf),
    "cosh": _total(math.cosh, lambda x: _INF),
    "floor": _finite_only(math.floor),
    "ceil": _finite_only(math.ceil),
    "round": _finite_only(round),  # halves to even, as rint
    "tf32": lambda x: to_tf32(x),
    "tf32_rz": lambda x: cut_off(x, 11),
    "power_of_two": lambda x: cut_off(x, 1),
}


def _shorten(x: float, bits: int) -> float:
    """An integer rounded to `bits` significant bits, once, which a float in between would not; floats as they are."""
    if not isinstance(x, int) or (extra := x.bit_length() - bits) <= 0:
        return x
    whole, rest = divmod(x, 1 << extra)
    half = 1 << (extra - 1)
    return float((whole + (rest > half or rest == half and whole % 2)) << extra)


def to_f32(x: float) -> float:
    return c_float(_shorten(x, 24)).value


def to_f16(x: float) -> float:
    try:
        value: float = struct.unpack("<e", struct.pack("<e", float(x)))[0]
    except OverflowError:
        return math.copysign(_INF, x)
    return value


def to_bf16(x: float) -> float:
    """The bf16 number nearest to `x`, ties to even: 8 significant bits, exponents of f32."""
    return _in_units(_shorten(x, 8), 8, round)


def to_tf32(x: float) -> float:
    """The tf32 number nearest to `x`, ties away from 0: 11 significant bits, exponents of f32."""
    return _in_units(x, 11, lambda units: math.floor(units + 0.5))


def cut_off(x: float, bits: int) -> float:
    """The number of that many significant bits, tf32 has 11, next to `x` towards 0, with the exponents of f32."""
    return _in_units(x, bits, math.floor)


def _in_units(x: float, bits: int, whole: Callable[[float], int]) -> float:
    """`x` with the exponents of f32 and a number of significant bits: `whole` brings it to units of the last one."""
    if x == 0 or not math.isfinite(x):
        return x
    unit = math.ldexp(1.0, max(math.frexp(x)[1], -125) - bits)
    size = whole(abs(x) / unit) * unit
    return math.copysign(_INF if size >= 2.0**128 else size, x)


def to_integer(dtype: str) -> Callable[[float], int]:
    """A function that brings a number into `dtype`: an integer wraps.

    Of a float the fraction is cut off, what is beyond the range becomes its end, and nan becomes 0.
    """
    bits = 8 * DTYPE_BYTES[dtype]
    low: int = 0 if dtype.startswith("u") else -(2 ** (bits - 1))
    mask: int = 2**bits - 1
    high = low + mask

    def convert(x: float) -> int:
        if isinstance(x, int):
            return ((x - low) & mask) + low
        if x != x:
            return 0
        if x <= low:
            return low
        return int(x) if x < high else high

    return convert


def converter(dtype: str) -> Callable[[Any], Any]:
    """A function that turns a Python number into one that `dtype` has."""
    match dtype:
        case "f64":
            return float
        case "f32":
            return to_f32
        case "f16":
            return to_f16
        case "bf16":
            return to_bf16
        case "e4m3" | "e5m2":
            return partial(to_byte_float, dtype=dtype)
        case "bool":
            return bool
        case _:
            assert dtype not in FLOATS
            return to_integer(dtype)
