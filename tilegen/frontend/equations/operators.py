"""Operations on typed expressions: numbers and indices take the type of their place, and nothing else is converted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from tilegen.errors import SourceError, Span
from tilegen.frontend.equations.folding import Literal, constant, fold, index_arithmetic, shift_text, wrap
from tilegen.frontend.equations.index import COMPARISONS
from tilegen.ir.hardware.instructions import ROUNDINGS
from tilegen.ir.nodes import BYTE_FLOATS, DTYPE_BYTES, FLOATS, INTEGERS, Const, Expr, Index, Op
from tilegen.ir.reductions.initial import limits

DTYPES = (*FLOATS, *INTEGERS)
_BITS = ("&", "|", "^", "<<", ">>", "~")
_INTEGERS_ONLY = ("//", "%", *_BITS)
_OF_INTEGERS = ("+", "-", "*", "min", "max", "abs", "neg", "select", *COMPARISONS, *_INTEGERS_ONLY)
_OF_INDICES = ("i32", "i64")
_MOST_NODES = 5000


T = TypeVar("T", bound="Expr | Open")


@dataclass
class Budget:
    """How large each expression is when written out; shared parts count each time."""

    sizes: dict[int, tuple[Typed, int]] = field(default_factory=dict)

    def charge(self, value: T, parts: tuple[Typed, ...], span: Span) -> T:
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


@dataclass(frozen=True)
class Open:
    """An operation on what has no type yet: it takes the type of its place, and so do its operands.

    `places` are those of the arguments. `indexed` is True where an index is inside, `fraction` where something is
    that no integer type has; `least` and `most` are the ends of the integers inside. `within` tells of the call
    that it was written out of.
    """

    name: str
    args: tuple[Typed, ...]
    span: Span
    places: tuple[Span, ...]
    budget: Budget
    indexed: bool
    fraction: bool
    least: int
    most: int
    within: str = ""


Typed = Expr | Literal | Open


def is_open(value: Typed) -> bool:
    """True for what takes the type of its place: a number, an index, an operation on such."""
    return isinstance(value, Literal | Index | Open)


def may_be(value: Typed, dtype: str) -> bool:
    """True for what is open and can take the type `dtype`, whether its numbers fit or not."""
    match value:
        case Literal():
            return True
        case Index():
            return dtype in _OF_INDICES
        case Open():
            fits = dtype in FLOATS or not value.fraction
            return fits and (dtype in _OF_INDICES or not value.indexed) and dtype not in BYTE_FLOATS
        case _:
            return False


def adapt(value: Typed, dtype: str) -> Expr:
    """`value` as an expression of `dtype` if it is open, an index as one of i32 or i64; else `value` itself.

    Raises SourceError where a number or an operation does not fit `dtype`.
    """
    match value:
        case Literal():
            return constant(value, dtype)
        case Index(index):
            return Index(index, dtype) if dtype in _OF_INDICES else value
        case Open():
            return _close_operation(value, "i32" if value.indexed and dtype not in _OF_INDICES else dtype)
        case _:
            return value


def adapt_to_default(value: Typed) -> Expr:
    """`value` in its default type if it is open; else `value` itself."""
    return adapt(value, default_type((value,)))


def _open_operation(budget: Budget, name: str, args: tuple[Typed, ...], span: Span, places: tuple[Span, ...]) -> Open:
    operands = args[1:] if name == "select" else args
    inner = [a for a in operands if isinstance(a, Open)]
    numbers = [a.value for a in operands if isinstance(a, Literal)]
    integers = [n for n in numbers if isinstance(n, int)]
    return Open(
        name, args, span, places, budget,
        indexed=any(isinstance(a, Index) for a in operands) or any(a.indexed for a in inner),
        fraction=name not in _OF_INTEGERS or len(integers) < len(numbers) or any(a.fraction for a in inner),
        least=min([0, *integers, *(a.least for a in inner)]),
        most=max([0, *integers, *(a.most for a in inner)]),
    )  # fmt: skip


def _close_operation(value: Open, dtype: str) -> Expr:
    try:
        if value.indexed and value.fraction:
            text, quotient = "an index is an integer, and this makes a fraction of it", _quotient_in(value)
            if quotient is None:
                raise SourceError(text, value.span, notes=("cast the index: f32(i)",))
            left, right = (_in_product(place.text) for place in quotient.places)
            notes = (f"{left}//{right} is the floor of it, and f32({_without_brackets(left)})/{right} the fraction",)
            raise SourceError(text, quotient.span, notes=notes)
        return _operation(value.budget, value.name, value.args, dtype, value.span, value.places)
    except SourceError as error:
        if value.within and value.within not in error.notes:
            error.notes += (value.within,)
        raise


def _quotient_in(value: Open) -> Open | None:
    """The first quotient of indices that an operation is made of."""
    inside = (_quotient_in(arg) for arg in value.args if isinstance(arg, Open))
    return next(filter(None, inside), value if value.name == "/" and value.indexed and value.places else None)


def _in_product(text: str) -> str:
    """`text` as an operand of a product."""
    return f"({text})" if any(sign in text for sign in "+-") and _without_brackets(text) == text else text


def default_type(values: tuple[Typed, ...]) -> str:
    """The type of what no place gives one: i64 with indices inside, f32 for what has a fraction, else i32 if that will
    do, or i64."""
    inside = [v for v in values if isinstance(v, Open)]
    numbers = [v.value for v in values if isinstance(v, Literal)]
    if any(v.indexed for v in inside) or any(isinstance(v, Index) for v in values):
        return "i64"
    if any(v.fraction for v in inside) or any(isinstance(n, float) for n in numbers):
        return "f32"
    low, high = limits("i32")
    ends = [*numbers, *(v.least for v in inside), *(v.most for v in inside)]
    return "i32" if all(low <= n <= high for n in ends) else "i64"


def operate(budget: Budget, name: str, args: tuple[Typed, ...], span: Span, places: tuple[Span, ...] = ()) -> Typed:
    """One operation, its arguments brought to one type; open if all of them are. Raises SourceError if they have none.

    `places` are those of the arguments, for a message that shows where a cast belongs.
    """
    if name in ("and", "or", "not"):
        return _logical(budget, name, args, span)
    if all(isinstance(a, Literal) for a in args) and (folded := fold(name, args, span)) is not None:
        return folded
    if (index := index_arithmetic(name, args)) is not None:
        return index
    operands = args
    if name == "select":
        check_bool(name, args[0], span)
        operands = args[1:]
    if not all(map(is_open, operands)):
        dtype = next(a.dtype for a in operands if not isinstance(a, Literal | Index | Open))
        return _operation(budget, name, args, dtype, span, places)
    if name not in COMPARISONS:
        return budget.charge(_open_operation(budget, name, args, span, places), args, span)
    # Indices are compared as they are; what is computed with them is not to leave its type.
    plain = [a for a in operands if not isinstance(a, Index)]
    return _operation(budget, name, args, default_type(tuple(plain)), span, places)


def _operation(
    budget: Budget, name: str, args: tuple[Typed, ...], dtype: str, span: Span, places: tuple[Span, ...]
) -> Expr:
    """The operation in `dtype`, which what is open in `args` takes."""
    for kind in (dtype, *(a.dtype for a in args if isinstance(a, Expr) and not is_open(a))):
        if kind in BYTE_FLOATS and name != "select":
            raise not_computed_error(name, kind, span, "cast the operands: f32(...)")
    condition = tuple(adapt(c, "bool") for c in args[:1]) if name == "select" else ()
    operands = _of_one_type(name, args[len(condition) :], dtype, span, places[len(condition) :])
    dtype = operands[0].dtype
    _check_operand(name, dtype, span)
    if name in ("<<", ">>"):
        operands = (operands[0], _shift_amount(budget, operands[1], dtype, places[-1] if places else span))
    if name == "~" and isinstance(operands[0], Const):
        return Const(wrap(~int(operands[0].value), dtype), dtype)
    parts = (*condition, *operands)
    return budget.charge(Op(name, parts, "bool" if name in COMPARISONS else dtype), parts, span)


def _shift_amount(budget: Budget, amount: Expr, dtype: str, span: Span) -> Expr:
    """What is shifted by: a number that is less than the type's bits, else what it leaves when divided by them."""
    bits = 8 * DTYPE_BYTES[dtype]
    if not isinstance(amount, Const):
        parts = (amount, Const(bits - 1, dtype))
        return budget.charge(Op("&", parts, dtype), parts, span)
    if not 0 <= amount.value < bits:
        raise SourceError(shift_text(dtype, int(amount.value)), span)
    return amount


def _logical(budget: Budget, name: str, args: tuple[Typed, ...], span: Span) -> Expr:
    for arg in args:
        check_bool(name, arg, span)
    parts = tuple(adapt(a, "bool") for a in args)
    return budget.charge(Op(name, parts, "bool"), parts, span)


def check_bool(name: str, value: Typed, span: Span) -> None:
    if isinstance(value, Literal | Open) or value.dtype != "bool":
        raise SourceError(
            f"'{name}' needs a condition, and this is a number",
            value.span if isinstance(value, Literal) else span,
            notes=("a condition is a comparison, such as x > 0",),
        )


def not_computed_error(name: str, dtype: str, span: Span, note: str) -> SourceError:
    """What to say of an operation or a reduction in one of BYTE_FLOATS; `note` is the way out."""
    text = f"'{name}' is not computed in {dtype}: numbers of this type are stored and cast, and nothing else"
    return SourceError(text, span, notes=(note,))


def _check_operand(name: str, dtype: str, span: Span) -> None:
    """Raises SourceError where the operation does not exist for the type."""
    if dtype == "bool" and name in ("&", "|", "^", "~"):
        word = {"&": "and", "|": "or", "^": "!=", "~": "not"}[name]
        raise SourceError(f"'{name}' is for integers, and this is a condition", span, notes=(f"write '{word}'",))
    if dtype == "bool" and name not in ("select", "==", "!="):
        raise SourceError(
            f"'{name}' needs numbers, and this is a condition",
            span,
            notes=("a condition becomes a number by a cast, f32(x > 0), or by 'a if x > 0 else b'",),
        )
    if dtype in INTEGERS and name == "/":
        notes = ("write // for the floor of the quotient, or cast the operands: f32(a) / f32(b)",)
        raise SourceError(f"'/' of integers ({dtype}) is ambiguous", span, notes=notes)
    if dtype in FLOATS and name in _INTEGERS_ONLY:
        way_out = {"//": "write floor(a / b)", "%": "write a - b * floor(a / b)"}.get(
            name, "cast the operands: i32(...)"
        )
        raise SourceError(f"'{name}' is for integers, not {dtype}", span, notes=(way_out,))
    if name in (*ROUNDINGS, "power_of_two") and dtype != "f32":
        raise SourceError(f"'{name}' rounds an f32, not {dtype}", span, notes=(f"cast the argument: {name}(f32(...))",))
    if dtype in INTEGERS and name not in _OF_INTEGERS:
        notes = (f"cast the argument: {name}(f32(...))",)
        raise SourceError(f"'{name}' is for floating-point numbers, not {dtype}", span, notes=notes)


def _of_one_type(
    name: str, args: tuple[Typed, ...], dtype: str, span: Span, places: tuple[Span, ...]
) -> tuple[Expr, ...]:
    """The operands, what is open as `dtype`. Raises SourceError where two of them differ in type."""
    adapted = tuple(adapt(a, dtype) for a in args)
    first = next((n for n, a in enumerate(args) if not is_open(a)), 0)
    for n, other in enumerate(adapted):
        if other.dtype != adapted[first].dtype:
            one, two = sorted((first, n))
            texts = (places[one].text, places[two].text) if places else ("...", "...")
            raise _mixed_types_error(name, (adapted[one].dtype, adapted[two].dtype), texts, span)
    return adapted


def _mixed_types_error(name: str, dtypes: tuple[str, str], texts: tuple[str, str], span: Span) -> SourceError:
    word = "if" if name == "select" else name
    (wide, _), (narrow, text) = sorted(zip(dtypes, texts, strict=True), key=lambda p: _rank(p[0]), reverse=True)
    if "bool" in dtypes:
        other, text = (wide, text) if narrow == "bool" else (narrow, texts[dtypes.index("bool")])
        note = f"make the condition a number: {other}({_without_brackets(text)})"
        return SourceError(f"'{word}' of a condition and a number", span, notes=(note,))
    return SourceError(
        f"'{word}' of {dtypes[0]} and {dtypes[1]}; types are never mixed without a cast",
        span,
        notes=(f"cast the {narrow} operand: {wide}({_without_brackets(text)})",),
    )


def _without_brackets(text: str) -> str:
    """`text` without the brackets around all of it."""
    return text[1:-1] if text.startswith("(") and text.endswith(")") and "(" not in text[1:] else text


def _rank(dtype: str) -> tuple[bool, int]:
    return dtype in FLOATS, DTYPE_BYTES[dtype]
