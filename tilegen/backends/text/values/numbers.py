"""Numbers in C: the literals of floats; and integers, brought back to their type where C computes in another one."""

from __future__ import annotations

from math import isinf

from tilegen.interpreter.scalar import converter, to_f32
from tilegen.ir.nodes import INTEGERS, SHORT_FLOATS, Const, Op

# What C computes in int for the short types, and what may leave them there.
_SHORT = ("i8", "u8")
_LEAVES = ("+", "-", "*", "//", "neg", "abs", "<<", "~")
# OpenCL's helpers give long, and its abs an unsigned number.
_OF_HELPERS = ("//", "%", "abs")
# C type -> its least and its largest number as C writes them, and the first number beyond
RANGES = {
    "int": ("-2147483647 - 1", "2147483647", "2147483648.0"),
    "long": ("-9223372036854775807L - 1", "9223372036854775807L", "9223372036854775808.0"),
    "long long": ("-9223372036854775807LL - 1", "9223372036854775807LL", "9223372036854775808.0"),
    "char": ("-128", "127", "128.0"),
    "signed char": ("-128", "127", "128.0"),
    "uchar": ("0", "255", "256.0"),
    "unsigned char": ("0", "255", "256.0"),
}
BITS = {"&": "&", "|": "|", "^": "^", "<<": "<<", ">>": ">>"}


def brought_back(op: Op, opencl: bool) -> bool:
    """True where the C type of the operation's result is not that of the operation, and matters."""
    if op.dtype not in INTEGERS:
        return False
    return op.dtype in _SHORT and op.name in _LEAVES or opencl and op.name in _OF_HELPERS


def of_one_type(op: Op) -> bool:
    """True where C wants the operands in the operation's own type: of short ones OpenCL finds no word else."""
    return op.dtype in _SHORT and op.name in ("min", "max")


def divides(op: Op) -> bool:
    """True where the divisor of `op` is a constant for which C's own division has a value."""
    return isinstance(op.args[1], Const) and op.args[1].value not in (0, -1)


def saturating_helper(kind: str, source: str) -> str:
    """The helper that makes an integer of the C type `kind` of a float or double."""
    return f"{kind.replace(' ', '_')}_of_{source}"


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
