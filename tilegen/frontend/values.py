"""Typed expressions: what the right side of an equation computes, with functions inlined and literals adapted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import pi

from tilegen.errors import SourceError, Span, did_you_mean
from tilegen.frontend import syntax as s
from tilegen.frontend.index import COMPARISONS, affine_of, written
from tilegen.ir.affine import Affine, const
from tilegen.ir.nodes import (
    DTYPE_BYTES,
    FLOATS,
    INTEGERS,
    OPERATIONS,
    REDUCTIONS,
    Cast,
    Const,
    Expr,
    Index,
    Load,
    Op,
    Tensor,
)

DTYPES = (*FLOATS, *INTEGERS)
CONSTANTS = {"inf": float("inf"), "pi": pi}
_ANY_NUMBER = ("+", "-", "*", "min", "max", "abs", "neg")
_FUNCTIONS = tuple(name for name in OPERATIONS if name.isidentifier() and name not in ("neg", "and", "or", "not"))
_MOST_NODES = 5000
_LARGEST_POWER = 16


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


@dataclass(frozen=True)
class Scope:
    """What names mean inside one equation.

    `index` has the sizes, attributes and loop indices, `readable` the tensors that have a value by now.
    """

    tensors: Mapping[str, Tensor]
    index: Mapping[str, Affine]
    functions: Mapping[str, s.Function]
    readable: frozenset[str]
    target: str
    arguments: Mapping[str, Typed] = field(default_factory=dict)
    calling: tuple[str, ...] = ()
    budget: Budget = field(default_factory=Budget)


def value_of(scope: Scope, node: s.Syntax) -> Typed:
    """The typed expression of `node`. Raises SourceError."""
    match node:
        case s.Num(value):
            return Literal(value, node.span)
        case s.Name():
            return _name(scope, node)
        case s.Subscript():
            return _read(scope, node, None)
        case s.Fallback(s.Subscript() as read, other):
            return _read(scope, read, other)
        case s.Fallback():
            notes = ("write it (X[i - 1] else 0)",)
            raise SourceError("only the read of a tensor can have a fallback", node.span, notes=notes)
        case s.Choice(then, condition, other):
            parts = (value_of(scope, condition), value_of(scope, then), value_of(scope, other))
            return _operate(scope, "select", parts, node.span)
        case s.Unary("+", arg):
            return value_of(scope, arg)
        case s.Unary(operator, arg):
            return _operate(scope, "neg" if operator == "-" else operator, (value_of(scope, arg),), node.span)
        case s.Binary("**", left, right):
            return _power(scope, value_of(scope, left), value_of(scope, right), node.span)
        case s.Binary(operator, left, right):
            return _operate(scope, operator, (value_of(scope, left), value_of(scope, right)), node.span)
        case s.Apply():
            return _apply(scope, node)
        case s.Reduction():
            raise _not_at_top(node)
        case s.Within():
            raise SourceError("a range can stand in a reduction only: sum[k in 0..n](...)", node.span)
        case _:
            raise TypeError(node)


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


def _name(scope: Scope, node: s.Name) -> Typed:
    text = node.text
    if text in scope.arguments:
        return scope.arguments[text]
    if text in scope.index and not scope.calling:
        index = scope.index[text]
        return Literal(index.const, node.span) if index.is_const else Index(index)
    if text in CONSTANTS:
        return Literal(CONSTANTS[text], node.span)
    if text in scope.tensors:
        note = f"'{text}' has {len(scope.tensors[text].shape)} dimensions; write {_example(scope.tensors[text])}"
        raise SourceError(f"the tensor '{text}' is used without an index", node.span, notes=(note,))
    if scope.calling:
        known = [*scope.arguments, *CONSTANTS]
        raise SourceError(
            f"the function '{scope.calling[-1]}' has no parameter '{text}'",
            node.span,
            notes=did_you_mean(text, known) or ("a function sees its own parameters only",),
        )
    known = [*scope.index, *scope.tensors, *CONSTANTS]
    raise SourceError(f"there is no '{text}' here", node.span, notes=did_you_mean(text, known))


def _example(tensor: Tensor) -> str:
    return f"{tensor.name}[{', '.join('ijklmnop'[: len(tensor.shape)])}]"


def _read(scope: Scope, node: s.Subscript, fallback: s.Syntax | None) -> Expr:
    name = node.base.text
    if scope.calling:
        raise SourceError("a function cannot read tensors; give it the element as an argument", node.span)
    if name not in scope.tensors:
        raise _no_tensor(scope, node)
    tensor = scope.tensors[name]
    if name == scope.target:
        raise SourceError(
            f"'{name}' is read by its own equation; a scan or recurrence cannot be expressed",
            node.span,
            notes=("an equation defines all elements of its target at once, in no order",),
        )
    if name not in scope.readable:
        raise SourceError(
            f"'{name}' is read before its equation",
            node.span,
            notes=(f"move the equation of '{name}' above this one",),
        )
    check_rank(tensor, node)
    index = tuple(affine_of(item, scope.index, scope.tensors) for item in node.items)
    constant = None
    if fallback is not None:
        value = adapt(value_of(scope, fallback), tensor.dtype)
        if not isinstance(value, Const):
            raise SourceError("a fallback is a constant", fallback.span)
        _same_type("else", value.dtype, tensor.dtype, fallback.span, node.span)
        constant = value
    return Load(name, index, tensor.dtype, constant, span=node.span)


def _no_tensor(scope: Scope, node: s.Subscript) -> SourceError:
    name = node.base.text
    if name in REDUCTIONS:
        return SourceError(f"a reduction needs what it reduces: {name}[k](...)", node.span)
    if name in scope.index:
        return SourceError(f"'{name}' is an index or a size and has no elements", node.base.span)
    return SourceError(f"there is no tensor '{name}'", node.base.span, notes=did_you_mean(name, list(scope.tensors)))


def check_rank(tensor: Tensor, node: s.Subscript) -> None:
    """Raises SourceError where the number of indices is not that of the tensor's dimensions."""
    if len(node.items) != len(tensor.shape):
        shape = ", ".join(str(dim) for dim in tensor.shape)
        raise SourceError(
            f"'{tensor.name}' has {len(tensor.shape)} dimensions, and {len(node.items)} indices are given",
            node.span,
            notes=(f"it is declared {tensor.dtype}[{shape}]",),
        )


def _apply(scope: Scope, node: s.Apply) -> Typed:
    name = node.function.text
    args = tuple(value_of(scope, arg) for arg in node.args)
    if name in scope.functions:
        return _inline(scope, scope.functions[name], args, node)
    if name in DTYPES:
        return _cast(scope, name, args, node)
    if name in ("min", "max") and len(args) > 2:
        result = args[0]
        for arg in args[1:]:
            result = _operate(scope, name, (result, arg), node.span)
        return result
    if name in REDUCTIONS and name not in OPERATIONS:
        raise SourceError(f"the reduction '{name}' needs an index: {name}[k](...)", node.span)
    if name not in _FUNCTIONS:
        known = [*_FUNCTIONS, *scope.functions, *DTYPES]
        raise SourceError(f"there is no function '{name}'", node.function.span, notes=did_you_mean(name, known))
    if len(args) != OPERATIONS[name]:
        raise SourceError(f"'{name}' takes {OPERATIONS[name]} arguments, not {len(args)}", node.span)
    if name == "pow":
        return _power(scope, args[0], args[1], node.span)
    return _operate(scope, name, args, node.span)


def _inline(scope: Scope, function: s.Function, args: tuple[Typed, ...], node: s.Apply) -> Typed:
    name = function.name.text
    if name in scope.calling:
        raise SourceError(f"the function '{name}' calls itself", node.span)
    if len(args) != len(function.parameters):
        wanted = ", ".join(p.text for p in function.parameters)
        raise SourceError(f"'{name}({wanted})' is called with {len(args)} arguments", node.span)
    values = {p.text: a for p, a in zip(function.parameters, args, strict=True)}
    try:
        return value_of(replace(scope, arguments=values, calling=(*scope.calling, name)), function.body)
    except SourceError as error:
        if error.span and not scope.calling:
            error.notes += (f"in the call {written(node.span)} on line {node.span.line}",)
        raise


def _cast(scope: Scope, dtype: str, args: tuple[Typed, ...], node: s.Apply) -> Expr:
    if len(args) != 1:
        raise SourceError(f"the cast '{dtype}' takes 1 argument, not {len(args)}", node.span)
    arg = adapt(args[0], dtype)
    if isinstance(arg, Const) and arg.dtype == dtype or arg.dtype == dtype and not isinstance(arg, Index):
        return arg
    return scope.budget.charge(Cast(arg, dtype), (arg,), node.span)


def _power(scope: Scope, base: Typed, exponent: Typed, span: Span) -> Typed:
    """Small integer powers as products, so that they are exact for integers; the others as `pow`."""
    if not isinstance(exponent, Literal) or not isinstance(exponent.value, int):
        return _operate(scope, "pow", (base, exponent), span)
    power = abs(exponent.value)
    if power > _LARGEST_POWER:
        return _operate(scope, "pow", (base, exponent), span)
    if power == 0:
        return Literal(1, span)
    result = base
    for bit in bin(power)[3:]:
        result = _operate(scope, "*", (result, result), span)
        if bit == "1":
            result = _operate(scope, "*", (result, base), span)
    return result if exponent.value > 0 else _operate(scope, "/", (Literal(1, span), result), span)


def _operate(scope: Scope, name: str, args: tuple[Typed, ...], span: Span) -> Typed:
    """One operation, its arguments brought to one type. Raises SourceError where they have none."""
    if name in ("and", "or", "not"):
        return _logical(scope, name, args, span)
    if all(isinstance(a, Literal) for a in args) and (folded := _fold(name, args, span)) is not None:
        return folded
    if (index := _index_arithmetic(name, args)) is not None:
        return index
    condition = args[:1] if name == "select" else ()
    operands = _common_type(name, args[len(condition) :], span)
    for c in condition:
        _check_bool(name, c, span)
    dtype = operands[0].dtype
    _check_operand(name, dtype, span)
    parts = (*(adapt(c, "bool") for c in condition), *operands)
    result = Op(name, parts, "bool" if name in COMPARISONS else dtype)
    return scope.budget.charge(result, parts, span)


def _logical(scope: Scope, name: str, args: tuple[Typed, ...], span: Span) -> Expr:
    for arg in args:
        _check_bool(name, arg, span)
    parts = tuple(adapt(a, "bool") for a in args)
    return scope.budget.charge(Op(name, parts, "bool"), parts, span)


def _check_bool(name: str, value: Typed, span: Span) -> None:
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


def _common_type(name: str, args: tuple[Typed, ...], span: Span) -> tuple[Expr, ...]:
    """The operands with literals adapted to the others' type; all literals become f32."""
    typed = [a for a in args if not isinstance(a, Literal)]
    if not typed:
        typed = [adapt(args[0], "f32")]
    for other in typed[1:]:
        _same_type(name, typed[0].dtype, other.dtype, span, span)
    return tuple(adapt(a, typed[0].dtype) for a in args)


def _same_type(name: str, left: str, right: str, span: Span, read: Span) -> None:
    if left == right:
        return
    if "bool" in (left, right):
        raise SourceError(f"'{name}' of a condition and a number ({left} and {right})", span)
    wide = left if _rank(left) >= _rank(right) else right
    narrow = right if wide == left else left
    raise SourceError(
        f"'{name}' of {left} and {right}; types are never mixed without a cast",
        span,
        notes=(f"cast the {narrow} operand: {wide}(...)",),
    )


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
    match name, values:
        case "neg", [x]:
            return Literal(-x, span)
        case "+", [x, y]:
            return Literal(x + y, span)
        case "-", [x, y]:
            return Literal(x - y, span)
        case "*", [x, y]:
            return Literal(x * y, span)
        case "//", [int(x), int(y)]:
            return Literal(x // y, span)
        case "%", [int(x), int(y)]:
            return Literal(x % y, span)
        case "/", [x, y]:
            even = isinstance(x, int) and isinstance(y, int) and x % y == 0
            return Literal(x // y if even else x / y, span)
        case "min", [x, y]:
            return Literal(min(x, y), span)
        case "max", [x, y]:
            return Literal(max(x, y), span)
        case _:
            return None


def _not_at_top(node: s.Reduction) -> SourceError:
    word = node.word.text
    if word not in REDUCTIONS:
        known = ", ".join(REDUCTIONS)
        return SourceError(f"there is no reduction '{word}'", node.word.span, notes=(f"the reductions are {known}",))
    text = written(node.span)
    return SourceError(
        "a reduction stands alone on the right side of its equation",
        node.span,
        notes=(
            "give it a tensor and an equation of its own, and use that here:",
            "    var t: f32[M]",
            f"    t[i] = {text}",
        ),
    )
