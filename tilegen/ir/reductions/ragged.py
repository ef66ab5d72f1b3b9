"""Loops of which data decide the part that runs: in all other iterations a reduction gets a neutral term.

for i < M                                                           for i < M
  for j < N                                                           for j from start[i] to start[i + 1] - 1
    y[i] += select(j >= start[i] and j < start[i + 1], x[j], 0)         y[i] += x[j]
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.facts.choices import all_of
from tilegen.ir.facts.ranges import interval_of
from tilegen.ir.nodes import FLOATS, Condition, Const, Expr, Index, Load, Nothing, Op, Stmt
from tilegen.ir.reductions.initial import limits
from tilegen.ir.walk import walk

# The sign of a comparison with an index on its left -> whether it is an upper end, and what is added to the other side.
_SIDES = {"<": (True, 0), "<=": (True, 1), ">=": (False, 0), ">": (False, 1)}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Bound:
    """The iteration floor((value + more) / by) of a loop, or the nearest that it has. The value is data.

    With `sure`, a promise says that it has that iteration, or one after the last.
    """

    value: Expr
    more: Affine
    by: int
    sure: bool = False

    def has_iteration(self, upper: bool, extent: Affine, rising: Collection[tuple[str, Affine]]) -> Condition | None:
        """What makes it an iteration of a loop, the one after the last, or less than that where it is the upper end.

        None where nothing says how large the value is: what a promise says that rises from 0 has no other values than
        up to its last one, and a remainder none from its divisor on.
        """
        match self.value:
            case Op("%", (_, Const(int() as by)), dtype) if by > 0 and dtype not in FLOATS:
                return Condition((extent + 1) * self.by - by - self.more if upper else self.more)
            case Load(buffer) if not upper and buffer in dict(rising):
                return Condition(self.more)
            case Load(buffer) if buffer in dict(rising):
                return Condition((extent + 1) * self.by - 1 - dict(rising)[buffer] - self.more)
        return None


@dataclass(frozen=True)
class Found:
    """The first iteration of a loop in which an element of an input that rises is greater than a place."""

    element: Load
    place: Affine


End = Bound | Found


@dataclass(frozen=True)
class Bounds:
    """The first iteration of a loop that runs, and the one after the last; None where data do not tell.

    Where two neighbouring elements are found, it `skips` iterations in which they are equal.
    """

    first: End | None
    end: End | None
    skips: bool = False

    @cached_property
    def names(self) -> frozenset[str]:
        """The loops and sizes that the ends speak of."""
        return _names_in(self.first, self.end)

    @property
    def pick_one(self) -> bool:
        """True if one iteration runs, which a promise says that the loop has."""
        match self.first, self.end:
            case Bound(value, more, 1, True), Bound(other, behind, 1, True):
                return (other, behind) == (value, more + 1)
        return False

    def may_need(self, test: Condition, sizes: Collection[str]) -> bool:
        """True if the test may be what lets the ends be read: it speaks of what they speak of, and of sizes.

        All elements of a row can be read where one is to be found.
        """
        names = _names_in(*(end for end in (self.first, self.end) if isinstance(end, Bound)))
        return not names.isdisjoint(test.value.names()) and test.value.names() <= names | frozenset(sizes)


def _names_in(*ends: End | None) -> frozenset[str]:
    return frozenset().union(*(v.names() for v in walk(ends) if isinstance(v, Affine)))


class Side(NamedTuple):
    """A part of a term's condition: `place < value + more` where it is an upper end, else `place >= value + more`."""

    test: Expr
    place: Affine
    value: Expr
    more: int
    upper: bool

    def bound(self, loop: str, inner: Mapping[str, int]) -> Bound | None:
        """From which iteration of `loop` on some iteration of the loops in it passes, or the last such and 1."""
        by = self.place.coefficient(loop)
        rest = self.place - var(loop) * by
        ends = _hull(rest, inner)
        if by <= 0 or loop in rest.names() or ends is None:
            return None
        return Bound(self.value, const(self.more + by - 1) - ends[not self.upper], by)

    def found(self, loop: str, inner: Mapping[str, int]) -> Found | None:
        """Where the element compared is the one of each iteration of `loop`, of an input that rises: up to where it is
        too small for all iterations of the loops in it, or from where on too great."""
        match self.value:
            case Load(_, (index,), fallback=None) if (index - var(loop)).is_const and loop not in self.place.names():
                ends = _hull(self.place, inner)
                return Found(self.value, ends[not self.upper] - self.more) if ends else None
        return None


def _hull(place: Affine, inner: Mapping[str, int]) -> tuple[Affine, Affine] | None:
    """(least, greatest) of a place over the loops `inner`."""
    moving = place.part_with(inner)
    ends = interval_of(moving, inner)
    return ends and (place - moving + ends[0], place - moving + ends[1])


def sides_of(value: Expr) -> Iterator[Side]:
    """What compares an index with data, and makes the term of a reduction neutral where it fails."""
    match value:
        case Op("select", (test, term, Const() as rest)):
            for part in conjuncts(test):
                match part:
                    case Op(word, (Index(index), other)) if word in _SIDES and not isinstance(other, Index | Const):
                        yield _side(part, index, word, other)
                    case Op(word, (other, Index(index))) if word in _SIDES and not isinstance(other, Index | Const):
                        yield _side(part, index, _TURNED[word], other)
            match term:
                case Op("select", (_, _, other)) if other == rest:
                    yield from sides_of(term)


def _side(test: Expr, place: Affine, word: str, other: Expr) -> Side:
    """The side that a comparison with data is; what is added to a remainder is a number, for it does not wrap."""
    upper, more = _SIDES[word]
    match other:
        case Op("+", (Op("%", (_, Const(int() as by))) as value, Const(int() as number)), dtype) if (
            dtype not in FLOATS and number >= 0 and by + number <= limits(dtype)[1]
        ):
            return Side(test, place, value, more + number, upper)
    return Side(test, place, other, more, upper)


def bounds_of(value: Expr, upper: bool, loop: str, inner: Mapping[str, int]) -> Iterator[Bound]:
    """The ends, first or last, that the conditions of a term set to a loop. Arguments as for `Side.bound`."""
    for side in sides_of(value):
        if side.upper is upper and (bound := side.bound(loop, inner)):
            yield bound


def is_empty_row(value: Expr, low: Found, high: Found) -> bool:
    """True if a term has no place where the elements at both ends are equal."""
    sides = [*sides_of(value)]
    return any(
        one.value == low.element and two.value == high.element and one.place == two.place and one.more >= two.more
        for one in sides
        for two in sides
        if two.upper and not one.upper
    )


def founds_of(
    value: Expr, upper: bool, loop: str, inner: Mapping[str, int], rising: Collection[str]
) -> Iterator[Found]:
    """Where elements of inputs that rise become too great for a term, or with `upper` great enough."""
    for side in sides_of(value):
        if side.upper is upper and (found := side.found(loop, inner)) and found.element.buffer in rising:
            yield found


def without_tests(value: Expr, tests: frozenset[Expr]) -> Expr:
    """The value where these parts of its conditions hold."""
    match value:
        case Op("select", (test, term, rest), dtype):
            inner = without_tests(term, tests)
            left = [part for part in conjuncts(test) if part not in tests]
            if not left:
                return inner
            if inner is term and len(left) == len([*conjuncts(test)]):
                return value
            return Op("select", (all_of(left), inner, rest), dtype)
    return value


def term_of(value: Expr) -> tuple[Expr, Expr] | None:
    """(where an element has its only term, that term); None for a value that is it wherever it is computed."""
    match value:
        case Op("select", (test, term, Nothing())):
            return test, term
    return None


def only_where(test: Expr, value: Expr) -> Expr:
    """The value where the test holds, and no value elsewhere."""
    return Op("select", (test, value, Nothing(0, value.dtype)), value.dtype)


def stored_value(stmt: Stmt) -> Expr:
    """What a copy stores, wherever it does."""
    chosen = term_of(stmt.value) if stmt.term is not None else None
    return chosen[1] if chosen else stmt.value


def conjuncts(test: Expr) -> Iterator[Expr]:
    """What all has to hold where a condition does."""
    match test:
        case Op("and", (one, two)):
            yield from conjuncts(one)
            yield from conjuncts(two)
        case _:
            yield test
