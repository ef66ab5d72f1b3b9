"""Integers of 32 and 64 bits that wrap: in C a signed sum that leaves its type has no value, an unsigned one wraps.

x * y + 1       (int)((unsigned)x * y + 1)
"""

from __future__ import annotations

from tilegen.backends.text.values.dialect import ExprWriter
from tilegen.ir.affine import Affine
from tilegen.ir.nodes import INTEGERS, Cast, Const, Expr, Index, Op
from tilegen.ir.reductions.initial import limits

_SIGNS = {"+": 5, "-": 5, "*": 6}
_UNARY, _ATOM = 7, 8


def may_wrap(expr: Expr, wide: bool) -> bool:
    """True for an operation whose exact result its type, of 32 or 64 bits, may not have.

    What is affine in indices and sizes is none: the proof asks that of it, for 64 bits if the version is `wide`.
    """
    if not isinstance(expr, Op) or expr.dtype not in ("i32", "i64") or expr.name not in (*_SIGNS, "neg", "<<"):
        return False
    low, high = _exact(expr, wide)
    least, most = _range(expr.dtype)
    return low < least or high > most


def wrapping_op(w: ExprWriter, op: Op) -> str:
    """`op`, which may wrap, as C that does so."""
    return f"({w.dialect.types[op.dtype]}){_unsigned_text(w, op, _UNARY)}"


def _unsigned_text(w: ExprWriter, expr: Expr, parent: int) -> str:
    """The text in C's unsigned arithmetic: one operand that is unsigned is enough."""
    kind = w.dialect.unsigned[expr.dtype]
    if not isinstance(expr, Op) or not may_wrap(expr, w.wide):
        return f"({kind}){w.value(expr, _ATOM)}"
    first = _unsigned_text(w, expr.args[0], _SIGNS.get(expr.name, _UNARY))
    if expr.name == "neg":
        text = f"-({first})" if first.startswith("-") else f"-{first}"
        return text if parent <= _UNARY else f"({text})"
    if expr.name == "<<":
        return f"({first} << {w.value(expr.args[1], _UNARY)})"
    level = _SIGNS[expr.name]
    last = expr.args[1]
    second = _unsigned_text(w, last, level + 1) if may_wrap(last, w.wide) else w.value(last, level + 1)
    text = f"{first} {expr.name} {second}"
    return f"({text})" if level < parent else text


def _range(dtype: str) -> tuple[int, int]:
    return (0, 1) if dtype == "bool" else limits(dtype)


def _interval(expr: Expr, wide: bool) -> tuple[int, int]:
    """What an integer lies between."""
    low, high = _exact(expr, wide)
    least, most = _range(expr.dtype)
    return (low, high) if least <= low and high <= most else (least, most)


def _exact(expr: Expr, wide: bool) -> tuple[int, int]:
    """What the exact result of an operation on integers, or a value, lies between."""
    match expr:
        case Const(value, _):
            return int(value), int(value)
        case Index(index, "i64") if not wide:
            return -_reach(index), _reach(index)
        case Cast(arg, dtype) if arg.dtype in (*INTEGERS, "bool"):
            low, high = _interval(arg, wide)
            least, most = _range(dtype)
            return (low, high) if least <= low and high <= most else (least, most)
        case Op("neg", (arg,)):
            low, high = _interval(arg, wide)
            return -high, -low
        case Op("+" | "-" | "*" as name, (left, right)):
            ends = [(p, q) for p in _interval(left, wide) for q in _interval(right, wide)]
            results = [p + q if name == "+" else p - q if name == "-" else p * q for p, q in ends]
            return min(results), max(results)
        case Op("<<", (left, Const(by, _))):
            low, high = _interval(left, wide)
            return low << int(by), high << int(by)
        case Op("<<", _):
            return -(2**64), 2**64
        case Op("select", (_, then, other)):
            return min(_interval(then, wide)[0], _interval(other, wide)[0]), max(
                _interval(then, wide)[1], _interval(other, wide)[1]
            )
        case Op("%", (_, Const(by, _))) if by > 0:
            return 0, int(by) - 1
        case Op("&", (_, Const(mask, _)) | (Const(mask, _), _)) if mask >= 0:
            return 0, int(mask)
        case _:
            return _range(expr.dtype)


def _reach(index: Affine) -> int:
    """What an index of loops and sizes in 32 bits is not beyond, on either side of 0."""
    return abs(index.const) + sum(abs(f) * (2**31 if isinstance(a, str) else _reach(a.arg) + 1) for a, f in index.terms)
