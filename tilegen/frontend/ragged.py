"""Ranges that data tell: `sum[j in start[i]..start[i + 1]](x[j])` chooses its terms of the whole dimension of `x`."""

from __future__ import annotations

from functools import reduce

from tilegen.errors import SourceError
from tilegen.frontend import syntax as s
from tilegen.frontend.index_words import Declared
from tilegen.frontend.operators import adapt, adapt_to_default
from tilegen.frontend.values import Scope, value_of
from tilegen.ir.initial import init_value
from tilegen.ir.lists import LISTS
from tilegen.ir.nodes import Expr, Op


def is_data(end: s.Syntax, declared: Declared) -> bool:
    """True if the end of a range depends on a tensor or on a number that a call gives."""
    return any(isinstance(part, s.Name | s.Subscript) and _base(part) in declared for part in s.subexpressions(end))


def _base(part: s.Name | s.Subscript) -> str:
    return part.text if isinstance(part, s.Name) else part.base.text


def in_ranges(scope: Scope, equation: s.Assign, term: Expr, word: str) -> Expr:
    """The term of a reduction, and its neutral element outside of the ranges that data tell. Raises SourceError."""
    tests: list[Expr] = []
    declared: Declared = {**scope.tensors, **scope.scalars}
    for item in equation.value.items if isinstance(equation.value, s.Reduction) else ():
        if isinstance(item, s.Within):
            for sign, end in ((">=", item.low), ("<", item.high)):
                if is_data(end, declared):
                    _check_integer(adapt_to_default(value_of(scope, end)).dtype, end)
                    tests.append(adapt(value_of(scope, s.Binary(sign, item.name, end, end.span)), "bool"))
    if not tests:
        return term
    inside = reduce(lambda one, two: Op("and", (one, two), "bool"), tests)
    if word in LISTS:
        return Op("and", (inside, term), "bool")
    return Op("select", (inside, term, init_value(word, term.dtype)), term.dtype)


def _check_integer(dtype: str, end: s.Syntax) -> None:
    if dtype not in ("i32", "i64"):
        notes = (f"cast it: i32({end.span.text})",)
        raise SourceError(f"the end of a range is i32 or i64, and this is {dtype}", end.span, notes=notes)
