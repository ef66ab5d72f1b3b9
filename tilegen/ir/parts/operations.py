"""The scalar operations: what each takes, and which of them hardware approximates."""

from __future__ import annotations

# name -> number of arguments. Comparisons and the logical words give bool; select is (condition, then, else).
# tf32 rounds an f32 to the nearest number with 10 fraction bits, ties away from 0, as PTX's cvt.rna.tf32.f32; tf32_rz
# to the one next to it towards 0, as cvt.rz.tf32.f32. power_of_two is the power of two next to an f32 towards 0, with
# its sign; of a subnormal number it is 0. Infinities and nan stay what they are.
# Integers wrap as their types do, // and % round down, >> keeps the sign, and shifts are by less than the type's bits.
OPERATIONS = {
    "+": 2, "-": 2, "*": 2, "/": 2, "//": 2, "%": 2, "neg": 1, "&": 2, "|": 2, "^": 2, "<<": 2, ">>": 2, "~": 1,
    "<": 2, "<=": 2, ">": 2, ">=": 2, "==": 2, "!=": 2, "and": 2, "or": 2, "not": 1, "select": 3,
    "min": 2, "max": 2, "abs": 1, "sqrt": 1, "rsqrt": 1, "exp": 1, "exp2": 1, "expm1": 1, "log": 1,
    "log1p": 1, "log2": 1, "sin": 1, "cos": 1, "tan": 1, "tanh": 1, "sinh": 1, "cosh": 1, "asin": 1, "acos": 1,
    "atan": 1, "atan2": 2, "erf": 1, "pow": 2, "floor": 1, "ceil": 1, "round": 1, "fma": 3, "tf32": 1, "tf32_rz": 1,
    "power_of_two": 1,
}  # fmt: skip


# The functions that hardware approximates within a documented bound: the word of a step -> its key of OPERATIONS.
APPROXIMATIONS = {
    "divide": "/", "sqrt": "sqrt", "rsqrt": "rsqrt", "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2",
    "sin": "sin", "cos": "cos", "tanh": "tanh",
}  # fmt: skip
