"""Indices that are not affine: they are computed as data are, in integers of 64 bits."""

from __future__ import annotations

from tilegen.errors import SourceError
from tilegen.frontend import syntax as s
from tilegen.ir.facts.gathers import has_ends
from tilegen.ir.in_place import is_old, memory_of
from tilegen.ir.nodes import INTEGERS, Cast, Const, Expr, Index, Op, Tensor

_EXACT = ("+", "-", "*", "min", "max", "//", "%", "neg", "abs", "select")


def gather_index(typed: Expr, item: s.Syntax) -> Expr:
    """The index in 64 bits. Raises SourceError where it is no integer."""
    if typed.dtype not in INTEGERS:
        notes = (f"cast it: i32({item.span.text})",) if typed.dtype != "bool" else ()
        raise SourceError(f"an index is made of integers, and this is {typed.dtype}", item.span, notes=notes)
    return _in_64_bits(typed)


def _in_64_bits(value: Expr) -> Expr:
    match value:
        case Const(number):
            return Const(number, "i64")
        case Index(index):
            return Index(index, "i64")
        case Op(name, args) if name in _EXACT:
            conditions = args[:1] if name == "select" else ()
            return Op(name, (*conditions, *map(_in_64_bits, args[len(conditions) :])), "i64")
        case _:
            return value if value.dtype == "i64" else Cast(value, "i64")


def check_gather(tensor: Tensor, node: s.Subscript) -> None:
    """Raises SourceError unless the tensor is an input that is not updated: only these are gathered from."""
    if tensor.role != "input" or is_old(tensor.name):
        made = "updated" if is_old(tensor.name) else "made"
        raise SourceError(
            f"'{memory_of(tensor.name)}' is {made} by this kernel, and its index is not affine",
            node.span,
            notes=("only inputs have indices that depend on data, are clamped or wrap around",),
        )


def check_ends(place: Expr, refusal: SourceError, node: s.Subscript) -> None:
    """Raises `refusal`, with the way to write the read, unless the index is inside whatever the data are."""
    if has_ends(place):
        return
    text = node.span.text
    refusal.notes += (f"to read whatever is there, say what it is where nothing is: ({text} else 0)",)
    raise refusal


def has_call(item: s.Syntax) -> bool:
    """True for an index with a call of a function in it."""
    return any(isinstance(part, s.Apply) for part in s.subexpressions(item))
