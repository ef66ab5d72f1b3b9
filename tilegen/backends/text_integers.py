"""Integers in C: where C computes in another type than the program does, the result is brought back to its own."""

from __future__ import annotations

from tilegen.ir.nodes import INTEGERS, Op

# What C computes in int for the short types, and what may leave them there.
_SHORT = ("i8", "u8")
_LEAVES = ("+", "-", "*", "//", "neg", "abs", "<<", "~")
# OpenCL's helpers give long, and its abs an unsigned number.
_OF_HELPERS = ("//", "%", "abs")
BITS = {"&": "&", "|": "|", "^": "^", "<<": "<<", ">>": ">>"}


def brought_back(op: Op, opencl: bool) -> bool:
    """True where the C type of the operation's result is not that of the operation, and matters."""
    if op.dtype not in INTEGERS:
        return False
    return op.dtype in _SHORT and op.name in _LEAVES or opencl and op.name in _OF_HELPERS


def of_one_type(op: Op) -> bool:
    """True where C wants the operands in the operation's own type: of short ones OpenCL finds no word else."""
    return op.dtype in _SHORT and op.name in ("min", "max")
