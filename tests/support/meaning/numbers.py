"""Numbers and their types for kernels.py: what an operation is, and how integers wrap."""

from __future__ import annotations

import ast
import math
import operator

BITS = {"i64": 64, "i32": 32, "i8": 8, "u8": 8}
FLOATS = ("f64", "f32", "f16", "bf16", "e4m3", "e5m2")
COMPARE = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge}
COMPARE |= {ast.Eq: operator.eq, ast.NotEq: operator.ne}
ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
ARITHMETIC |= {ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow}
ARITHMETIC |= {ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor}
ARITHMETIC |= {ast.LShift: operator.lshift, ast.RShift: operator.rshift}
UNARY = {ast.Invert: operator.inv, ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_}


def round_significand(x, bits):
    """The nearest number of so many bits, ties away from 0."""
    if x == 0 or not math.isfinite(x):
        return x
    unit = 2.0 ** (math.frexp(x)[1] - bits)
    return math.copysign(math.floor(abs(x) / unit + 0.5) * unit, x)


def cut_significand(x, bits):
    """The number of so many bits next to x towards 0."""
    if x == 0 or not math.isfinite(x):
        return x
    unit = 2.0 ** (math.frexp(x)[1] - bits)
    return math.trunc(x / unit) * unit


MATHS = {
    name: getattr(math, name)
    for name in ("exp", "log", "sin", "cos", "sqrt", "erf", "floor", "ceil", "tanh", "expm1", "log1p")
}
MATHS |= {
    "clamp": lambda x, low, high: min(max(x, low), high),
    "min": min,
    "max": max,
    "abs": abs,
    "round": round,
    "tf32": lambda x: round_significand(x, 11),
    "tf32_rz": lambda x: cut_significand(x, 11),
    "power_of_two": lambda x: cut_significand(x, 1),
    "rsqrt": lambda x: 1 / math.sqrt(x),
}


def common(one, two):
    """The type of an operation on two types: a literal, then an index, takes the other's."""
    for weak in (None, "index"):
        if one == weak or two == weak:
            return two if one == weak else one
    assert one == two, f"{one} and {two} are mixed"
    return one


def extremes(dtype):
    """The least and the greatest value of a type."""
    if dtype not in BITS:
        return -math.inf, math.inf
    low = 0 if dtype == "u8" else -(1 << BITS[dtype] - 1)
    return low, low + (1 << BITS[dtype]) - 1


def wrap(value, dtype):
    """An integer as its type keeps it; anything else as it is."""
    if dtype not in BITS or not math.isfinite(value):
        return value
    low, high = extremes(dtype)
    return (value - low) % (high - low + 1) + low


def is_affine(op, first, second, by):
    """Whether an operation on indices and literals, of these types, is an index, which is exact."""
    if op in (ast.Add, ast.Sub):
        return True
    return None in (first, second) if op is ast.Mult else op in (ast.FloorDiv, ast.Mod) and second is None and by > 0
