"""A reduction of a part of a range at each point: y[i] = sum[k <= i](x[k]), and how it stands in a tree."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, var
from tilegen.ir.facts.ranges import least_value
from tilegen.ir.nodes import Condition, Equation, Kernel, Range, Tree
from tilegen.ir.reductions.initial import COMBINES
from tilegen.ir.reductions.linear import LINEAR, running_form
from tilegen.ir.reductions.running import compared, depends_on
from tilegen.ir.walk import substitute
from tilegen.primitives.equations.terms import need_reduction

_WAY = "a running sum is written y[i] = sum[k <= i](x[k]), with k < i, k >= i and k > i likewise"


@dataclass(frozen=True)
class Prefix:
    """The equation of `y`, and what makes it one.

    `i` is the loop of the left side that says how far the loop `k` goes: up to it or, if not `forward`, from it on, and
    with `inclusive` itself too. `terms` are the other conditions on what is reduced, `points` those on the left side.
    `extent` is that of the longer one of the two loops.
    """

    equation: Equation
    i: Range
    k: Range
    forward: bool
    inclusive: bool
    terms: tuple[Condition, ...]
    points: tuple[Condition, ...]
    extent: Affine

    @property
    def outer(self) -> tuple[Range, ...]:
        """The loops of the left side but `i`."""
        return tuple(r for r in self.equation.loops if r != self.i)

    @property
    def inner(self) -> tuple[Range, ...]:
        """What is reduced besides `k`."""
        return tuple(r for r in self.equation.reduced if r != self.k)

    @property
    def rows(self) -> tuple[Condition, ...]:
        """The conditions on the other loops of the left side: where they do not hold, there is no prefix at all."""
        return tuple(c for c in self.points if self.i.name not in c.value.names())

    def terms_at(self, place: Affine) -> tuple[Condition, ...]:
        """The conditions on terms where `k` is at `place` of the common range."""
        return substitute(self.terms, {self.k.name: place}) + _within(self.k, place, self.extent)

    def points_at(self, place: Affine) -> tuple[Condition, ...]:
        """The conditions on the left side where `i` is at `place` of the common range."""
        return substitute(self.points, {self.i.name: place}) + _within(self.i, place, self.extent)

    def point_at(self, place: Affine) -> tuple[Affine, ...]:
        """The instance of the left side."""
        return tuple(place if r == self.i else var(r.name) for r in self.equation.loops)

    def term_at(self, place: Affine) -> tuple[Affine, ...]:
        """The term, of what is reduced."""
        return tuple(place if r == self.k else var(r.name) for r in self.equation.reduced)


def _within(r: Range, place: Affine, extent: Affine) -> tuple[Condition, ...]:
    """That a place of a longer range is in that of `r`."""
    return () if r.extent == extent else (Condition(r.extent - 1 - place),)


def prefix_of(tree: Tree, target: str) -> Prefix:
    """The reduction of `target`, or its linear recurrence as one. StepError where none runs along a loop of its left
    side."""
    equation = _recurrence(tree, target) or need_reduction(tree, target)
    if equation.reduce not in (*COMBINES, LINEAR):
        raise StepError(f"'{target}' is a reduction by {equation.reduce}, and a scan is a sum, prod, max or min")
    own, reduced = ({r.name: r for r in ranges} for ranges in (equation.loops, equation.reduced))
    both = [c for c in equation.conditions if c.value.names() & own.keys() and c.value.names() & reduced.keys()]
    found = [each for c in both if (each := compared(c, own, reduced))]
    if not found:
        raise StepError(
            f"'{target}' does not run along an index: none is compared with one that it reduces", notes=(_WAY,)
        )
    (first, *more), i = found, found[0].i
    others = [c for c in equation.conditions if c != first.condition]
    if more or any(i.name in c.value.names() and c.value.names() & reduced.keys() for c in others):
        raise StepError(
            f"'{target}' reduces more at one point than a prefix: '{i.index}' bounds it twice", notes=(_WAY,)
        )
    if depends_on(equation, i):
        raise StepError(f"the terms of '{target}' depend on '{i.index}', so that no prefix is part of the next one")
    terms = tuple(c for c in others if c.value.names() & reduced.keys())
    points = tuple(c for c in others if c not in terms)
    extent = _longer(i, first.k, tree.kernel)
    return Prefix(equation, i, first.k, first.forward, first.inclusive, terms, points, extent)


def _recurrence(tree: Tree, target: str) -> Equation | None:
    """The recurrence of `target` as a reduction. StepError where it is none whose steps can be taken together."""
    equation = next((e for e in tree.kernel.equations if e.target == target and e.carried), None)
    if equation is None:
        return None
    if found := running_form(equation):
        return found
    i = equation.loops[0].index
    notes = (f"a linear recurrence runs along one index: y[{i}] = a[{i}] * (y[{i} - 1] else 0) + b[{i}]",)
    raise StepError(f"'{target}' is a recurrence that is not linear in the element before", notes=notes)


def _longer(i: Range, k: Range, kernel: Kernel) -> Affine:
    """The extent of a range that holds both."""
    for long, short in ((i, k), (k, i)):
        least = least_value(long.extent - short.extent, {}, kernel.symbols)
        if least is not None and least >= 0:
            return long.extent
    notes = (f"let '{k.index}' run as far as '{i.index}': {k.index} in 0..{i.extent}",)
    raise StepError(f"'{i.index}' runs over {i.extent} and '{k.index}' over {k.extent}", notes=notes)
