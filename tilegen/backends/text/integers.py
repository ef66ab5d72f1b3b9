"""Integers in C: where C computes in another type than the program does, the result is brought back to its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilegen.ir.nodes import INTEGERS, Const, Op

# What C computes in int for the short types, and what may leave them there.
_SHORT = ("i8", "u8")
_LEAVES = ("+", "-", "*", "//", "neg", "abs", "<<", "~")
# OpenCL's helpers give long, and its abs an unsigned number.
_OF_HELPERS = ("//", "%", "abs")
# C type -> its least and its largest number as C writes them, and the first number beyond
_RANGES = {
    "int": ("-2147483647 - 1", "2147483647", "2147483648.0"),
    "long": ("-9223372036854775807L - 1", "9223372036854775807L", "9223372036854775808.0"),
    "long long": ("-9223372036854775807LL - 1", "9223372036854775807LL", "9223372036854775808.0"),
    "char": ("-128", "127", "128.0"),
    "signed char": ("-128", "127", "128.0"),
    "uchar": ("0", "255", "256.0"),
    "unsigned char": ("0", "255", "256.0"),
}
_SATURATING = """\
// The fraction cut off; the end of the range for what is beyond, and 0 for nan.
{inline} {kind} {name}({source} value)
{{
    if (!(value == value))
        return 0;
    if (value >= {beyond}{f})
        return {high};
    return value < {least}{f} ? {low} : ({kind})value;
}}"""
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


def magnitudes(kinds: Mapping[str, str], inline: str) -> dict[str, str]:
    """The helpers for abs of signed integers, C type -> the unsigned one, by the words that call them."""
    return {
        f"abs_of_{kind.replace(' ', '_')}(": f"""\
// Of the least number itself: abs of C has no value there.
{inline} {kind} abs_of_{kind.replace(" ", "_")}({kind} value)
{{
    return value < 0 ? ({kind})(0 - ({unsigned})value) : value;
}}"""
        for kind, unsigned in kinds.items()
    }


def conversions(kinds: Iterable[str], inline: str) -> dict[str, str]:
    """The helpers that make integers of floats, by the words that call them."""
    found = {}
    for kind in kinds:
        low, high, beyond = _RANGES[kind]
        least = f"-{beyond}" if low.startswith("-") else "0.0"
        for source, f in (("float", "f"), ("double", "")):
            name = saturating_helper(kind, source)
            words = {"inline": inline, "kind": kind, "name": name, "source": source, "beyond": beyond, "f": f}
            found[f"{name}("] = _SATURATING.format(**words, least=least, low=low, high=high)
    return found
