"""Ranges that data give: `sum[j in start[i]..start[i + 1]](x[j])` chooses its terms of the whole dimension of `x`.

`y[t] = x[t] * scale[g] for t in start[g]..start[g + 1]` is `only[g](..)`: of all g, the row that has t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilegen.errors import SourceError
from tilegen.frontend import syntax as s
from tilegen.frontend.equations.index_words import Declared
from tilegen.frontend.equations.operators import adapt, adapt_to_default
from tilegen.frontend.equations.values import Scope, value_of
from tilegen.frontend.parsing.expressions import conjunction
from tilegen.ir.facts.choices import all_of
from tilegen.ir.nodes import ONLY, Equation, Expr, Kernel, Op
from tilegen.ir.parts.lists import LISTS
from tilegen.ir.reductions.initial import init_value


def by_rows(equation: s.Assign, conditions: Sequence[s.Syntax], given: Sequence[s.Param]) -> s.Assign:
    """The equation where these hold. With a range that data give, it sums what the rows have, of which all but one have
    0. Raises SourceError where the range is no row of one of the parameters `given`."""
    parts: list[s.Syntax] = []
    for each in conditions:
        match each:
            case s.Within(name, low, high) if not _reads(low) and not _reads(high):
                parts += [s.Binary("<=", low, name, each.span), s.Binary("<", name, high, each.span)]
            case s.Within():
                equation = _in_rows(equation, each, given)
            case _:
                parts.append(each)
    return replace(equation, condition=conjunction(tuple(parts)) if parts else None)


def _in_rows(equation: s.Assign, rows: s.Within, given: Sequence[s.Param]) -> s.Assign:
    shapes = {param.name.text: param.shape or () for param in given}
    match rows.low, rows.high:
        case s.Subscript(base, (s.Name() as row,)), s.Subscript(other, (s.Binary("+", s.Name() as same, s.Num(1)),)):
            known = len(shapes.get(base.text, ())) == 1 and not equation.rows and not equation.kept
            if known and (base.text, row.text) == (other.text, same.text):
                count = s.Binary("-", shapes[base.text][0], s.Num(1, rows.span), rows.span)
                each = s.Within(row, s.Num(0, rows.span), count, rows.span)
                total = s.Reduction(s.Name(ONLY, rows.span), (each,), equation.value, equation.value.span)
                return replace(equation, value=total, rows=rows)
    example = f"{rows.name.text} in start[g]..start[g + 1]"
    notes = (f"write one, from its start to the next: {example}",)
    raise SourceError("this is not the range of a row", rows.span, notes=notes)


def with_whole_rows(equations: Sequence[s.Assign], kernel: Kernel) -> Kernel:
    """The kernel. Raises SourceError where an element of a left side may be in no row, or in several."""
    for equation, built in zip(equations, kernel.equations, strict=True):
        if equation.rows:
            _check_rows(equation.rows, built, kernel)
    return kernel


def _check_rows(rows: s.Within, built: Equation, kernel: Kernel) -> None:
    """Of rows that rise from 0 to the last element, exactly one has it."""
    assert isinstance(rows.low, s.Subscript)
    name, word = rows.low.base.text, rows.name.text
    extent = next((r.extent for r in built.loops if r.index == word), None)
    if extent is None:
        raise SourceError(f"'{word}' is no index of the left side", rows.name.span)
    if dict(kernel.rising).get(name) != extent:
        notes = (f"say so after the outputs: where rising({name}, {extent})",)
        raise SourceError(f"nothing says that each '{word}' is in one row", rows.span, notes=notes)


def _reads(end: s.Syntax) -> bool:
    return any(isinstance(part, s.Subscript) for part in s.subexpressions(end))


def is_data(end: s.Syntax, declared: Declared) -> bool:
    """True if the end of a range depends on a tensor or on a number that a call gives."""
    return any(isinstance(part, s.Name | s.Subscript) and _base(part) in declared for part in s.subexpressions(end))


def _base(part: s.Name | s.Subscript) -> str:
    return part.text if isinstance(part, s.Name) else part.base.text


def in_ranges(scope: Scope, equation: s.Assign, term: Expr, word: str) -> Expr:
    """The term of a reduction, and its neutral element outside of the ranges that data give. Raises SourceError."""
    tests: list[Expr] = []
    declared: Declared = {**scope.tensors, **scope.scalars}
    items = equation.value.items if isinstance(equation.value, s.Reduction) else ()
    for item in (*items, *([equation.rows] if equation.rows else ())):
        if isinstance(item, s.Within):
            for sign, end in ((">=", item.low), ("<", item.high)):
                if is_data(end, declared):
                    _check_integer(adapt_to_default(value_of(scope, end)).dtype, end)
                    tests.append(adapt(value_of(scope, s.Binary(sign, item.name, end, end.span)), "bool"))
    if not tests:
        return term
    inside = all_of(tests)
    if word in LISTS:
        return Op("and", (inside, term), "bool")
    return Op("select", (inside, term, init_value(word, term.dtype)), term.dtype)


def _check_integer(dtype: str, end: s.Syntax) -> None:
    if dtype not in ("i32", "i64"):
        notes = (f"cast it: i32({end.span.text})",)
        raise SourceError(f"the end of a range is i32 or i64, and this is {dtype}", end.span, notes=notes)
