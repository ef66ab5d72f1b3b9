"""The results of argmax and argmin: the place of the best value, and the place where no value beats the start."""

from __future__ import annotations

from collections.abc import Iterable

from tilegen.errors import SourceError, Span
from tilegen.frontend.equations.index import never_negative
from tilegen.frontend.equations.loops import Loops
from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import Condition, Const, Expr, Index, Op, Range


def argmax_place_and_start(loops: Loops, places: tuple[Affine, ...], dtype: str, span: Span) -> tuple[Expr, Expr]:
    """(the place that an argmax or argmin reports for a point, the place that it starts from).

    `places` are the values of its indices.

    Of one index, the place is its value; of several, the number of the point in the box of their ranges, row by row.
    """
    if len(places) > 1:
        _check_first_position(loops.reduced, loops.conditions, loops.left, span)
        return _place_in_box(loops.reduced, _width_of(dtype)), Const(0, dtype)
    first = first_index(loops.reduced[0], places[0], loops.conditions, loops.left, dtype, span)
    return Index(places[0], _width_of(dtype)), first


def first_index(
    reduced: Range, arg: Affine, conditions: Iterable[Condition], left: Iterable[Range], dtype: str, span: Span
) -> Expr:
    """The least value of `arg`, which grows with the loop `reduced`, where the conditions hold.

    It is given in the loops of the left side, for an index of the type `dtype`. Where the conditions hold nowhere,
    it is the lower end of the range. Raises SourceError where they leave gaps.
    """
    ends = [arg.substitute({reduced.name: low}) for low in _lower_ends(reduced, conditions, span)]
    loops = {r.name for r in left}
    ends = [e for e in ends if not any(o != e and never_negative(o - e, loops, loops) for o in ends)]
    if ends[0].is_const and len(ends) == 1:
        return Const(ends[0].const, dtype)
    width = _width_of(dtype)
    first: Expr = Index(ends[0], width)
    for end in ends[1:]:
        other = Index(end, width)
        first = Op("select", (Op("<", (first, other), "bool"), other, first), width)
    return first


def _width_of(dtype: str) -> str:
    """The type that an index is computed in for a target of the type `dtype`."""
    return "i64" if dtype == "i64" else "i32"


def _place_in_box(reduced: Iterable[Range], dtype: str) -> Expr:
    place: Expr = Index(const(0))
    for r in reduced:
        place = _sum(_product(place, Index(r.extent), dtype), Index(var(r.name)), dtype)
    return _with_type(place, dtype)


def _product(one: Expr, two: Index, dtype: str) -> Expr:
    if isinstance(one, Index) and (one.index.is_const or two.index.is_const):
        return Index(two.index * one.index.const if one.index.is_const else one.index * two.index.const)
    return Op("*", (_with_type(one, dtype), Index(two.index, dtype)), dtype)


def _sum(one: Expr, two: Index, dtype: str) -> Expr:
    if isinstance(one, Index):
        return Index(one.index + two.index)
    return Op("+", (one, Index(two.index, dtype)), dtype)


def _with_type(value: Expr, dtype: str) -> Expr:
    return Index(value.index, dtype) if isinstance(value, Index) else value


def _check_first_position(
    reduced: Iterable[Range], conditions: Iterable[Condition], left: Iterable[Range], span: Span
) -> None:
    """Raises SourceError unless the first point of the box satisfies the conditions wherever any point does."""
    names = {r.name for r in reduced}
    loops = {r.name for r in left}
    for condition in conditions:
        value = condition.value
        inside = value.names() & names
        if not inside or not condition.equal and all(value.linear_in(n) and value.coefficient(n) <= 0 for n in inside):
            continue  # what bounds from above is true of the first point if of any
        begin = value.substitute(dict.fromkeys(inside, const(0)))
        if begin == const(0) or not condition.equal and never_negative(begin, loops, loops):
            continue
        raise SourceError(
            "these indices do not all begin at 0, and the place of the best value is counted from there",
            span,
            notes=("take the whole ranges, and give what lies outside a value that never wins: -inf, or inf",),
        )


def _lower_ends(reduced: Range, conditions: Iterable[Condition], span: Span) -> list[Affine]:
    """The lower bounds of the loop: 0, and one for each condition that gives one."""
    loop, ends = reduced.name, [const(0)]
    for condition in conditions:
        if loop not in condition.value.names():
            continue
        for value in (condition.value, -condition.value) if condition.equal else (condition.value,):
            if not value.linear_in(loop):
                raise SourceError(
                    f"the range of '{reduced.index}' is not given by its ends, and the first index of it is wanted",
                    span,
                    notes=("take the whole range, and give what lies in a gap a value that never wins: -inf, or inf",),
                )
            factor = value.coefficient(loop)
            if factor > 0:
                ends.append((var(loop) * factor - value).ceildiv(factor))
    return list(dict.fromkeys(ends))
