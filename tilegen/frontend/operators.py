"""Operations on typed expressions: literals take the type of what they meet, and nothing else is converted."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilegen.errors import SourceError, Span
from tilegen.frontend.index import COMPARISONS, written
from tilegen.ir.affine import Affine, const
from tilegen.ir.nodes import DTYPE_BYTES, FLOATS, INTEGERS, Const, Expr, Index, Op

DTYPES = (*FLOATS, *INTEGERS)
_ANY_NUMBER = ("+", "-", "*", "min", "max", "abs", "neg")
_MOST_NODES = 5000


@dataclass(frozen=True)
class Literal:
    """A number without a type yet: it takes the type of what it meets."""

    value: int | float
    span: Span


Typed = Expr | Literal


@dataclass
class Budget:
    """How large each expression is when written out; shared parts count each time."""

    sizes: dict[int, tuple[Expr, int]] = field(default_factory=dict)

    def charge(self, value: Expr, parts: tuple[Expr, ...], span: Span) -> Expr:
        """`value`, made of `parts`. Raises SourceError where it has grown out of hand."""
        total = 1 + sum(self.sizes[id(p)][1] if id(p) in self.sizes else 1 for p in parts)
        if total > _MOST_NODES:
            raise SourceError(
                f"this expression has more than {_MOST_NODES} operations once its functions are written out",
                span,
                notes=("name parts of it with 'var' tensors",),
            )
        self.sizes[id(value)] = (value, total)
        return value


def adapt(value: Typed, dtype: str) -> Expr:
    """A literal as a constant of `dtype`; anything else as it is. Raises SourceError where it does not fit."""
    if not isinstance(value, Literal):
        return value
    number = value.value
    if dtype in FLOATS:
        return Const(float(number), dtype)
    if dtype == "bool":
        raise SourceError("a condition is expected here, not a number", value.span)
    if isinstance(number, float):
        raise SourceError(f"{number:g} is no {dtype}", value.span)
    bits = 8 * DTYPE_BYTES[dtype]
    low, high = (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if not low <= number <= high:
        raise SourceError(f"{number} does not fit {dtype}, which goes from {low} to {high}", value.span)
    return Const(number, dtype)


def operate(budget: Budget, name: str, args: tuple[Typed, ...], span: Span, places: tuple[Span, ...] = ()) -> Typed:
    """One operation, its arguments brought to one type. Raises SourceError where they have none.

    `places` are those of the arguments, for a message that shows where a cast belongs.
    """
    if name in ("and", "or", "not"):
        return _logical(budget, name, args, span)
    if all(isinstance(a, Literal) for a in args) and (folded := _fold(name, args, span)) is not None:
        return folded
    if (index := _index_arithmetic(name, args)) is not None:
        return index
    condition = args[:1] if name == "select" else ()
    operands = _common_type(name, args[len(condition) :], span, places[len(condition) :])
    for c in condition:
        check_bool(name, c, span)
    dtype = operands[0].dtype
    _check_operand(name, dtype, span)
    parts = (*(adapt(c, "bool") for c in condition), *operands)
    result = Op(name, parts, "bool" if name in COMPARISONS else dtype)
    return budget.charge(result, parts, span)


def _logical(budget: Budget, name: str, args: tuple[Typed, ...], span: Span) -> Expr:
    for arg in args:
        check_bool(name, arg, span)
    parts = tuple(adapt(a, "bool") for a in args)
    return budget.charge(Op(name, parts, "bool"), parts, span)


def check_bool(name: str, value: Typed, span: Span) -> None:
    if isinstance(value, Literal) or value.dtype != "bool":
        raise SourceError(
            f"'{name}' needs a condition, and this is a number",
            value.span if isinstance(value, Literal) else span,
            notes=("a condition is a comparison, such as x > 0",),
        )


def _check_operand(name: str, dtype: str, span: Span) -> None:
    """Raises SourceError where the operation does not exist for the type."""
    if dtype == "bool" and name not in ("select", "==", "!="):
        raise SourceError(
            f"'{name}' needs numbers, and this is a condition",
            span,
            notes=("a condition becomes a number by a cast, f32(x > 0), or by 'a if x > 0 else b'",),
        )
    if dtype in INTEGERS and name == "/":
        notes = ("write // for the floor of the quotient, or cast the operands: f32(a) / f32(b)",)
        raise SourceError(f"'/' of integers ({dtype}) is ambiguous", span, notes=notes)
    if dtype in FLOATS and name in ("//", "%"):
        raise SourceError(f"'{name}' is for integers, not {dtype}", span, notes=("write floor(a / b)",))
    anywhere = name in _ANY_NUMBER or name in COMPARISONS or name in ("select", "//", "%")
    if dtype in INTEGERS and not anywhere:
        notes = (f"cast the argument: {name}(f32(...))",)
        raise SourceError(f"'{name}' is for floating-point numbers, not {dtype}", span, notes=notes)


def _common_type(name: str, args: tuple[Typed, ...], span: Span, places: tuple[Span, ...]) -> tuple[Expr, ...]:
    """The operands with literals adapted to the others' type; all literals become f32."""
    typed = [(a, n) for n, a in enumerate(args) if not isinstance(a, Literal)]
    if not typed:
        return tuple(adapt(a, "f32") for a in args)
    first, at = typed[0]
    for other, n in typed[1:]:
        if other.dtype != first.dtype:
            texts = (written(places[at]), written(places[n])) if places else ("...", "...")
            raise _mixed(name, (first.dtype, other.dtype), texts, span)
    return tuple(adapt(a, first.dtype) for a in args)


def _mixed(name: str, dtypes: tuple[str, str], texts: tuple[str, str], span: Span) -> SourceError:
    word = "if" if name == "select" else name
    (wide, _), (narrow, text) = sorted(zip(dtypes, texts, strict=True), key=lambda p: _rank(p[0]), reverse=True)
    if "bool" in dtypes:
        other, text = (wide, text) if narrow == "bool" else (narrow, texts[dtypes.index("bool")])
        note = f"make the condition a number: {other}({_bare(text)})"
        return SourceError(f"'{word}' of a condition and a number", span, notes=(note,))
    return SourceError(
        f"'{word}' of {dtypes[0]} and {dtypes[1]}; types are never mixed without a cast",
        span,
        notes=(f"cast the {narrow} operand: {wide}({_bare(text)})",),
    )


def _bare(text: str) -> str:
    """`text` without the brackets around all of it."""
    return text[1:-1] if text.startswith("(") and text.endswith(")") and "(" not in text[1:] else text


def _rank(dtype: str) -> tuple[bool, int]:
    return dtype in FLOATS, DTYPE_BYTES[dtype]


def _index_arithmetic(name: str, args: tuple[Typed, ...]) -> Index | None:
    """Sums, multiples, floors and remainders of indices stay index expressions."""
    parts = [a.index if isinstance(a, Index) else _whole(a) for a in args]
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


def _whole(value: Typed) -> Affine | None:
    return const(value.value) if isinstance(value, Literal) and isinstance(value.value, int) else None


def _fold(name: str, args: tuple[Typed, ...], span: Span) -> Literal | None:
    """Arithmetic of literals, done here; None where the operation is not folded."""
    values = [a.value for a in args if isinstance(a, Literal)]
    if name in ("/", "//", "%") and values[1] == 0:
        raise SourceError("division by zero", span)
    result = _computed(name, values)
    if result is None:
        return None
    if result != result or isinstance(result, int) and abs(result) >= 2**64:
        raise SourceError("the value of this constant is not a number that any type has", span)
    return Literal(result, span)


def _computed(name: str, values: list[int | float]) -> int | float | None:
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
        case "/", [x, y]:
            even = isinstance(x, int) and isinstance(y, int) and x % y == 0
            return x // y if even else x / y
        case "min", [x, y]:
            return min(x, y)
        case "max", [x, y]:
            return max(x, y)
        case _:
            return None
