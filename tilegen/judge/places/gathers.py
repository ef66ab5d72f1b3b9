"""Gathers: does a computed index stay inside of its dimension, whatever the data are?

Theorem: `max(a, b)` is at least 0 if one of the two is, and below n if both are; `min` the other way round; `x % d` is
both if 1 <= d <= n; a choice is if each arm is, where it is taken. An affine index is asked of isl, at all points.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.errors import SourceError, Span
from tilegen.ir.affine import Affine, const
from tilegen.ir.facts.choices import cases_of
from tilegen.ir.nodes import Condition, Const, Expr, Gather, Index, Op
from tilegen.poly.rows import Rows
from tilegen.poly.system import Row, rows_of, solvable

Points = tuple[Row, ...] | Rows


def stays_inside(place: Expr, extent: Affine, points: Points) -> bool:
    """True if `place` is seen to be at least 0 and below `extent` at all points: theorem by its form.

    A maximum is at least 0 if one of its sides is, a remainder always; and so on. isl is asked of affine ones.
    """
    return _is_least(place, points) and _is_below(place, extent, points)


def _is_least(place: Expr, points: Points) -> bool:
    match place:
        case Index() | Const():
            return _is_nonnegative(_affine(place), points)
        case Op("max", (one, two)):
            return _is_least(one, points) or _is_least(two, points)
        case Op("min", (one, two)):
            return _is_least(one, points) and _is_least(two, points)
        case Op("select", (test, one, two)):
            return all(_is_least(arm, rows) for arm, rows in _arms(test, one, two, points))
        case Op("%", (_, Index() | Const() as by)):
            return _is_nonnegative(_affine(by) - 1, points)
        case _:
            return False


def _is_below(place: Expr, extent: Affine, points: Points) -> bool:
    match place:
        case Index() | Const():
            return _is_nonnegative(extent - 1 - _affine(place), points)
        case Op("min", (one, two)):
            return _is_below(one, extent, points) or _is_below(two, extent, points)
        case Op("max", (one, two)):
            return _is_below(one, extent, points) and _is_below(two, extent, points)
        case Op("select", (test, one, two)):
            return all(_is_below(arm, extent, rows) for arm, rows in _arms(test, one, two, points))
        case Op("%", (_, Index() | Const() as by)):
            return _is_nonnegative(_affine(by) - 1, points) and _is_nonnegative(extent - _affine(by), points)
        case _:
            return False


def _arms(test: Expr, one: Expr, two: Expr, points: Points) -> Iterator[tuple[Expr, Points]]:
    """Each arm of a choice with the points at which it is taken, as far as indices tell."""
    for arm, cases in zip((one, two), cases_of(test), strict=True):
        for case in cases:
            yield arm, points + tuple(row for c in case for row in rows_of(c))


def _is_nonnegative(value: Affine, points: Points) -> bool:
    return not solvable(points + rows_of(Condition(-1 - value)))


def _affine(value: Index | Const) -> Affine:
    return value.index if isinstance(value, Index) else const(int(value.value))


def outside_by_data(gather: Gather, place: Expr, extent: Affine, span: Span | None) -> SourceError:
    """The error for an index that may leave its dimension."""
    text = gather.span.text if gather.span else f"{gather.buffer}[...]"
    return SourceError(
        f"'{gather.buffer}' is read at an index that may be outside of its {extent} elements",
        gather.span or span,
        notes=(
            f"hold it inside, clamp(..., 0, {extent} - 1) or (...) % {extent}, "
            f"or say what it is outside: ({text} else 0)",
        ),
    )
