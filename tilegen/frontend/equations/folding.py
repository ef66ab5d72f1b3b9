"""Constant folding of numbers without a type, and arithmetic that stays an affine index."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.errors import SourceError, Span
from tilegen.ir.affine import Affine, const
from tilegen.ir.nodes import DTYPE_BYTES, FLOATS, Const, Index
from tilegen.ir.reductions.initial import limits

_MOST_BITS = 64


@dataclass(frozen=True)
class Literal:
    """A number without a type yet: it takes the type of the other operand or of its target.

    What has been `shifted` to the left, by that number of bits at most, is bits: it has the last ones of its type.
    """

    value: int | float
    span: Span
    shifted: int = 0


def constant(literal: Literal, dtype: str) -> Const:
    """The literal as a constant of `dtype`. Raises SourceError where it does not fit."""
    number = literal.value
    if dtype in FLOATS:
        return Const(float(number), dtype)
    if dtype == "bool":
        raise SourceError("a condition is expected here, not a number", literal.span)
    if isinstance(number, float):
        raise SourceError(f"{number:g} is no {dtype}", literal.span)
    low, high = limits(dtype)
    if literal.shifted:
        if literal.shifted >= 8 * DTYPE_BYTES[dtype]:
            raise SourceError(shift_text(dtype, literal.shifted), literal.span)
        return Const(wrap(number, dtype), dtype)
    if not low <= number <= high:
        raise SourceError(f"{number} does not fit {dtype}, which goes from {low} to {high}", literal.span)
    return Const(number, dtype)


def shift_text(dtype: str, amount: int) -> str:
    """What is wrong with a shift by more than a type has bits."""
    return f"{dtype} is shifted by 0 to {8 * DTYPE_BYTES[dtype] - 1}, not by {amount}"


def wrap(number: int, dtype: str) -> int:
    """The integer of `dtype` that has the last bits of `number`."""
    low, high = limits(dtype)
    return (number - low) % (high - low + 1) + low


def index_arithmetic(name: str, args: tuple[object, ...]) -> Index | None:
    """The operation as an index expression where it is affine; else None."""
    parts = [a.index if isinstance(a, Index) else _integer_constant(a) for a in args]
    match name, parts:
        case "neg", [Affine() as only]:
            return Index(-only)
        case "+", [Affine() as left, Affine() as right]:
            return Index(left + right)
        case "-", [Affine() as left, Affine() as right]:
            return Index(left - right)
        case "*", [Affine() as left, Affine() as right] if left.is_const or right.is_const:
            return Index(right * left.const if left.is_const else left * right.const)
        case "//", [Affine() as left, Affine() as right] if right.is_const and right.const > 0:
            return Index(left // right.const)
        case "%", [Affine() as left, Affine() as right] if right.is_const and right.const > 0:
            return Index(left % right.const)
        case _:
            return None


def _integer_constant(value: object) -> Affine | None:
    return const(value.value) if isinstance(value, Literal) and isinstance(value.value, int) else None


def fold(name: str, args: tuple[object, ...], span: Span) -> Literal | None:
    """Arithmetic of literals, done here; None where the operation is not folded."""
    values = [a.value for a in args if isinstance(a, Literal)]
    if name in ("/", "//", "%") and values[1] == 0:
        raise SourceError("division by zero", span)
    if name in ("<<", ">>") and not 0 <= values[1] < _MOST_BITS:
        raise SourceError(f"{values[0]} is shifted by {values[1]}; the least is 0, and {_MOST_BITS - 1} the most", span)
    result = _evaluate(name, values)
    if result is None:
        return None
    shifted = max(a.shifted for a in args if isinstance(a, Literal)) if name in ("&", "|", "^", "<<") else 0
    if name == "<<" and isinstance(result, int):
        shifted, result = max(shifted, int(values[1])), wrap(result, "i64") if abs(result) >= 2**64 else result
    if result != result or isinstance(result, int) and abs(result) >= 2**64:
        raise SourceError("the value of this constant is not a number that any type has", span)
    return Literal(result, span, shifted)


def _evaluate(name: str, values: list[int | float]) -> int | float | None:
    match name, values:
        case "neg", [x]:
            return -x
        case "+", [x, y]:
            return x + y
        case "-", [x, y]:
            return x - y
        case "*", [x, y]:
            return x * y
        case "//", [int(x), int(y)]:
            return x // y
        case "%", [int(x), int(y)]:
            return x % y
        case "&" | "|" | "^", [int(x), int(y)]:
            return {"&": x & y, "|": x | y, "^": x ^ y}[name]
        case "<<" | ">>", [int(x), int(y)]:
            return x << y if name == "<<" else x >> y
        case "/", [x, y]:
            even = isinstance(x, int) and isinstance(y, int) and x % y == 0
            return x // y if even else x / y
        case "min", [x, y]:
            return min(x, y)
        case "max", [x, y]:
            return max(x, y)
        case _:
            return None
