"""Typed expressions: what the right side of an equation computes, with functions inlined and literals adapted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import pi

from tilegen.errors import SourceError, Span, did_you_mean
from tilegen.frontend import syntax as s
from tilegen.frontend.equations.folding import Literal
from tilegen.frontend.equations.gathers import check_ends, check_gather, gather_index, has_call
from tilegen.frontend.equations.index import affine_of
from tilegen.frontend.equations.operators import (
    DTYPES,
    Budget,
    Open,
    Typed,
    adapt,
    adapt_to_default,
    check_bool,
    may_be,
    operate,
)
from tilegen.ir.affine import Affine
from tilegen.ir.facts.choices import condition_of
from tilegen.ir.facts.ranges import follows
from tilegen.ir.in_place import memory_of, old_of
from tilegen.ir.nodes import REDUCTIONS, Cast, Condition, Const, Expr, Gather, Index, Load, Op, Scalar, Tensor
from tilegen.ir.parts.operations import OPERATIONS

CONSTANTS = {"inf": float("inf"), "pi": pi}
_SIGNS = ("neg", "and", "or", "not")
_FUNCTIONS = {"clamp": 3} | {name: n for name, n in OPERATIONS.items() if name.isidentifier() and name not in _SIGNS}
_LARGEST_POWER = 16


@dataclass(frozen=True)
class Scope:
    """What names mean inside one equation.

    `index` has the sizes, attributes and loop indices, `readable` the tensors that have a value by now, `circle` those
    that are computed from the target, `extents` what each loop runs over.
    """

    tensors: Mapping[str, Tensor]
    scalars: Mapping[str, Scalar]
    index: Mapping[str, Affine]
    functions: Mapping[str, s.FunctionDecl]
    readable: frozenset[str]
    target: str
    circle: frozenset[str]
    extents: Mapping[str, Affine]
    sizes: tuple[str, ...]
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
            return _build_read(scope, node, None)
        case s.Fallback(s.Subscript() as read, other):
            return _build_read(scope, read, other)
        case s.Fallback():
            notes = ("write it (X[i - 1] else 0)",)
            raise SourceError("only the read of a tensor can have a fallback", node.span, notes=notes)
        case s.Choice(then, condition, other):
            parts = (value_of(scope, condition), value_of(scope, then), value_of(scope, other))
            check_bool("if", parts[0], condition.span)
            return operate(scope.budget, "select", parts, node.span, (condition.span, then.span, other.span))
        case s.Unary("+", arg):
            return value_of(scope, arg)
        case s.Unary(operator, arg):
            return operate(scope.budget, "neg" if operator == "-" else operator, (value_of(scope, arg),), node.span)
        case s.Binary("**", left, right):
            return _power(scope, value_of(scope, left), value_of(scope, right), node.span)
        case s.Binary(operator, left, right):
            both = (value_of(scope, left), value_of(scope, right))
            return operate(scope.budget, operator, both, node.span, (left.span, right.span))
        case s.Apply():
            return _apply(scope, node)
        case s.Reduction():
            raise unknown_reduction(node.word)
        case s.Hit():
            notes = ("a choice is 'a if condition else b'; a list alone does without what is no hit",)
            raise SourceError("'else' is missing here", node.span, notes=notes)
        case s.Within():
            raise SourceError("a range can stand in a reduction only: sum[k in 0..n](...)", node.span)
        case _:
            raise TypeError(node)


def _name(scope: Scope, node: s.Name) -> Typed:
    text = node.text
    if text in scope.arguments:
        return scope.arguments[text]
    if text in scope.index and not scope.calling:
        index = scope.index[text]
        return Literal(index.const, node.span) if index.is_const else Index(index)
    if text in scope.scalars and not scope.calling:
        return scope.scalars[text]
    if text in CONSTANTS:
        return Literal(CONSTANTS[text], node.span)
    if text in scope.tensors:
        notes = (f"write {_example(scope.tensors[text])}",)
        raise SourceError(f"the tensor '{text}' is used without an index", node.span, notes=notes)
    if scope.calling:
        known = [*scope.arguments, *CONSTANTS]
        raise SourceError(
            f"the function '{scope.calling[-1]}' has no parameter '{text}'",
            node.span,
            notes=did_you_mean(text, known) or ("a function sees its own parameters only",),
        )
    known = [*scope.index, *scope.scalars, *scope.tensors, *CONSTANTS]
    raise SourceError(f"there is no '{text}' here", node.span, notes=did_you_mean(text, known))


def _example(tensor: Tensor) -> str:
    return f"{memory_of(tensor.name)}[{', '.join('ijklmnop'[: len(tensor.shape)])}]"


def _plural(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _build_read(scope: Scope, node: s.Subscript, fallback: s.Syntax | None) -> Expr:
    name = node.base.text
    if scope.calling:
        raise SourceError("a function cannot read tensors; give it the element as an argument", node.span)
    if name not in scope.tensors:
        raise _no_tensor(scope, node)
    tensor = scope.tensors[name]
    if name not in scope.readable and old_of(name) in scope.tensors:
        tensor = scope.tensors[old_of(name)]
    elif name not in scope.readable | scope.circle:
        raise SourceError(
            f"'{name}' is read before its equation",
            node.span,
            notes=(f"move the equation of '{name}' above this one",),
        )
    check_rank(tensor, node)
    places = tuple(_index_of(scope, item, node, fallback is not None) for item in node.items)
    value = None if fallback is None else _fallback(scope, tensor, fallback)
    if not all(isinstance(place, Index) for place in places):
        check_gather(tensor, node)
        parts = (*places, *((value,) if value else ()))
        tested = tuple(range(len(places))) if value else ()
        return scope.budget.charge(
            Gather(tensor.name, places, tensor.dtype, value, tested, span=node.span), parts, node.span
        )
    load = Load(tensor.name, tuple(p.index for p in places if isinstance(p, Index)), tensor.dtype, span=node.span)
    return load if value is None else _or_else(scope, load, tensor, value, node.span)


def _index_of(scope: Scope, item: s.Syntax, node: s.Subscript, total: bool) -> Expr:
    """An index: an affine one, or one that is computed; the latter may leave the tensor if the read is `total`."""
    try:
        return Index(affine_of(item, scope.index, {**scope.tensors, **scope.scalars}), "i64")
    except SourceError as error:
        refusal = error
    try:
        value = adapt(value_of(scope, item), "i64")
    except SourceError as error:
        raise (error if total or has_call(item) else refusal) from None
    place = gather_index(value, item)
    if not total:
        check_ends(place, refusal, node)
    return place


def _fallback(scope: Scope, tensor: Tensor, fallback: s.Syntax) -> Expr:
    value = adapt(value_of(scope, fallback), tensor.dtype)
    if value.dtype != tensor.dtype:
        notes = (f"cast it: {tensor.dtype}({fallback.span.text})",)
        text = f"the fallback is {value.dtype}, and '{memory_of(tensor.name)}' is {tensor.dtype}"
        raise SourceError(text, fallback.span, notes=notes)
    return value


def _or_else(scope: Scope, load: Load, tensor: Tensor, value: Expr, span: Span) -> Expr:
    """The read where it is inside of its tensor, elsewhere the value."""
    if isinstance(value, Const):
        return replace(load, fallback=value)
    tests: list[Condition] = []
    for place, extent in zip(load.index, tensor.shape, strict=True):
        ends = (Condition(place), Condition(extent - 1 - place))
        tests += [end for end in ends if not follows(end, (), scope.extents, scope.sizes)]
    if not tests:
        return load
    parts = (condition_of(tests), load, value)
    return scope.budget.charge(Op("select", parts, tensor.dtype), parts, span)


def _no_tensor(scope: Scope, node: s.Subscript) -> SourceError:
    name = node.base.text
    if name in REDUCTIONS:
        return SourceError(f"a reduction needs what it reduces: {name}[k](...)", node.span)
    if name in scope.index:
        return SourceError(f"'{name}' is an index or a size and has no elements", node.base.span)
    if name in scope.scalars:
        return SourceError(f"'{name}' is a scalar and has no elements", node.base.span, notes=(f"write {name}",))
    return SourceError(f"there is no tensor '{name}'", node.base.span, notes=did_you_mean(name, scope.tensors))


def check_rank(tensor: Tensor, node: s.Subscript) -> None:
    """Raises SourceError where the number of indices is not that of the tensor's dimensions."""
    if len(node.items) != len(tensor.shape):
        shape = ", ".join(str(dim) for dim in tensor.shape)
        raise SourceError(
            f"'{memory_of(tensor.name)}' has {_plural(len(tensor.shape), 'dimension')}, not {len(node.items)}",
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
            result = operate(scope.budget, name, (result, arg), node.span)
        return result
    if name == "clamp" and len(args) == 3:
        return operate(scope.budget, "min", (operate(scope.budget, "max", args[:2], node.span), args[2]), node.span)
    if name in REDUCTIONS and name not in OPERATIONS:
        raise SourceError(f"the reduction '{name}' needs an index: {name}[k](...)", node.span)
    if name not in _FUNCTIONS:
        known = [*_FUNCTIONS, *scope.functions]
        listed = (f"the functions are {', '.join(known)}", f"def {name}(x) = ... declares one")
        notes = did_you_mean(name, [*known, *DTYPES]) or listed
        notes = (f"an element of the tensor {name} is written {name}[...]",) if name in scope.tensors else notes
        raise SourceError(f"there is no function '{name}'", node.function.span, notes=notes)
    if len(args) != _FUNCTIONS[name]:
        raise SourceError(f"'{name}' takes {_plural(_FUNCTIONS[name], 'argument')}, not {len(args)}", node.span)
    if name == "pow":
        return _power(scope, args[0], args[1], node.span)
    return operate(scope.budget, name, args, node.span)


def _inline(scope: Scope, function: s.FunctionDecl, args: tuple[Typed, ...], node: s.Apply) -> Typed:
    name = function.name.text
    if name in scope.calling:
        raise SourceError(f"the function '{name}' calls itself", node.span)
    if len(args) != len(function.parameters):
        wanted = ", ".join(p.text for p in function.parameters)
        raise SourceError(f"'{name}({wanted})' is called with {_plural(len(args), 'argument')}", node.span)
    values = {p.text: a for p, a in zip(function.parameters, args, strict=True)}
    within = f"in the call {node.span.text} on line {node.span.line}"
    try:
        value = value_of(replace(scope, arguments=values, calling=(*scope.calling, name)), function.body)
    except SourceError as error:
        if error.span and not scope.calling:
            error.notes += (within,)
        raise
    return replace(value, within=within) if isinstance(value, Open) and not scope.calling else value


def _cast(scope: Scope, dtype: str, args: tuple[Typed, ...], node: s.Apply) -> Expr:
    if len(args) != 1:
        raise SourceError(f"the cast '{dtype}' takes 1 argument, not {len(args)}", node.span)
    arg = adapt(args[0], dtype) if may_be(args[0], dtype) else adapt_to_default(args[0])
    if isinstance(arg, Const) and arg.dtype == dtype or arg.dtype == dtype and not isinstance(arg, Index):
        return arg
    return scope.budget.charge(Cast(arg, dtype), (arg,), node.span)


def _power(scope: Scope, base: Typed, exponent: Typed, span: Span) -> Typed:
    """Small integer powers as products, so that they are exact for integers; the others as `pow`."""
    if not isinstance(exponent, Literal) or not isinstance(exponent.value, int):
        return operate(scope.budget, "pow", (base, exponent), span)
    power = abs(exponent.value)
    if isinstance(base, Literal) and exponent.value < 0 and base.value and (known := _number(base, exponent)):
        return Literal(known, span)
    if power > _LARGEST_POWER:
        return operate(scope.budget, "pow", (base, exponent), span)
    if power == 0:
        return Literal(1, span)
    result = base
    for bit in bin(power)[3:]:
        result = operate(scope.budget, "*", (result, result), span)
        if bit == "1":
            result = operate(scope.budget, "*", (result, base), span)
    return result if exponent.value > 0 else operate(scope.budget, "/", (Literal(1, span), result), span)


def _number(base: Literal, exponent: Literal) -> float:
    """The power; 0 where no float comes near."""
    try:
        return float(base.value) ** exponent.value
    except OverflowError:
        return 0.0


def unknown_reduction(word: s.Name) -> SourceError:
    """The error for a reduction of another name than REDUCTIONS has."""
    if word.text in ("mean", "average", "avg"):
        notes: tuple[str, ...] = ("a mean is sum[k](A[i, k]) / f32(N)",)
    elif word.text.startswith("top"):
        way = "the next of K largest is the argmax of those that come after the one before"
        notes = (f"{way}: 'tilegen cat topk' has a kernel of that",)
    else:
        notes = did_you_mean(word.text, REDUCTIONS, "the reductions are")
    return SourceError(f"there is no reduction '{word.text}'", word.span, notes=notes)
