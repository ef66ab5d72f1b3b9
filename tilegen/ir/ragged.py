"""Loops of which data tell the part that runs: in all other iterations a reduction gets a neutral term.

for i < M                                                           for i < M
  for j < N                                                           for j from start[i] to start[i + 1] - 1
    y[i] += select(j >= start[i] and j < start[i + 1], x[j], 0)         y[i] += x[j]
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import NamedTuple

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import Condition, Const, Expr, Index, Load, Op
from tilegen.ir.ranges import interval_of
from tilegen.ir.walk import walk

# The sign of a comparison with an index on its left -> whether it is an upper end, and what is added to the other side.
_SIDES = {"<": (True, 0), "<=": (True, 1), ">=": (False, 0), ">": (False, 1)}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Bound:
    """The iteration floor((value + more) / by) of a loop, or the nearest that it has. The value is data.

    With `sure`, a promise says that it has that iteration, or one behind the last.
    """

    value: Expr
    more: Affine
    by: int
    sure: bool = False

    def has_iteration(self, upper: bool, extent: Affine, rising: Collection[tuple[str, Affine]]) -> Condition | None:
        """What makes it an iteration of a loop, the one behind the last, or less than that where it is the upper end.

        None where no promise says how large the value is: one that rises from 0 has no other values than up to its
        last one.
        """
        match self.value:
            case Load(buffer) if not upper and buffer in dict(rising):
                return Condition(self.more)
            case Load(buffer) if buffer in dict(rising):
                return Condition((extent + 1) * self.by - 1 - dict(rising)[buffer] - self.more)
        return None


@dataclass(frozen=True)
class Bounds:
    """The first iteration of a loop that runs, and the one behind the last; None where data do not tell."""

    first: Bound | None
    end: Bound | None

    @cached_property
    def names(self) -> frozenset[str]:
        """The loops and sizes that the ends speak of."""
        return frozenset().union(*(v.names() for v in walk((self.first, self.end)) if isinstance(v, Affine)))

    def may_need(self, test: Condition, sizes: Collection[str]) -> bool:
        """True if the test may be what lets the ends be read: it speaks of nothing but what they speak of."""
        return test.value.names() <= self.names | frozenset(sizes)


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
        moving = rest.part_with(inner)
        ends = interval_of(moving, inner)
        if by <= 0 or loop in rest.names() or ends is None:
            return None
        return Bound(self.value, const(self.more + by - 1 - ends[not self.upper]) - (rest - moving), by)


def sides_of(value: Expr) -> Iterator[Side]:
    """What compares an index with data, and makes the term of a reduction neutral where it fails."""
    match value:
        case Op("select", (test, term, Const() as rest)):
            for part in conjuncts(test):
                match part:
                    case Op(word, (Index(index), other)) if word in _SIDES and not isinstance(other, Index | Const):
                        upper, more = _SIDES[word]
                        yield Side(part, index, other, more, upper)
                    case Op(word, (other, Index(index))) if word in _SIDES and not isinstance(other, Index | Const):
                        upper, more = _SIDES[_TURNED[word]]
                        yield Side(part, index, other, more, upper)
            match term:
                case Op("select", (_, _, other)) if other == rest:
                    yield from sides_of(term)


def bounds_of(value: Expr, upper: bool, loop: str, inner: Mapping[str, int]) -> Iterator[Bound]:
    """The ends, first or last, that the conditions of a term set to a loop. Arguments as for `Side.bound`."""
    for side in sides_of(value):
        if side.upper is upper and (bound := side.bound(loop, inner)):
            yield bound


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
            return Op("select", (reduce(lambda a, b: Op("and", (a, b), "bool"), left), inner, rest), dtype)
    return value


def conjuncts(test: Expr) -> Iterator[Expr]:
    """What all has to hold where a condition does."""
    match test:
        case Op("and", (one, two)):
            yield from conjuncts(one)
            yield from conjuncts(two)
        case _:
            yield test
