"""A prefix made of other results has the terms of the undivided reduction: each of them, and each once.

A kernel's `y` reduces, at each point, the terms for which its conditions hold. What stands in its place reads results
of reductions by the same operation, some of them while they run, and combines these by that operation. Since it is
associative and commutative, what counts is which terms go in. So each result is written out until terms of the kernel
remain: a reduction stands for all its terms, and one that runs for those of the iterations before. Theorem: the two are
the same if at each point of the left side each term of the kernel is among these, and once. That is asked of isl as it
is for instances of statements. It makes a running accumulator a prefix, by induction over its loop, and it makes a
prefix of the tiles before, combined with the prefix inside of a tile, the prefix of the whole.

A linear recurrence is such a reduction, whose terms are pairs (`linear.py`), if its first element is made of 0. Pairs
are associative and not commutative: what is written out has the kernel's terms in its order, too. What a group of
them comes to is two results, which are of one group if both are made of the same terms in the same places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.facts.defined import conditions_on_left, defines_all
from tilegen.ir.nodes import Access, Condition, Equation, Expr, Kernel, Load, Loop, Node, Op, Range, Stmt, Tree
from tilegen.ir.parts.derived import Regrouped
from tilegen.ir.reductions.initial import COMBINES
from tilegen.ir.reductions.linear import LINEAR, previous, running_form
from tilegen.ir.walk import loads, substitute
from tilegen.judge.coverage import check_instances
from tilegen.judge.derived.parts import check_rest, equation_of
from tilegen.judge.kernel.equation_points import points_of
from tilegen.judge.order import check_order
from tilegen.poly.instances import project
from tilegen.poly.system import range_of, solvable
from tilegen.poly.verdict import Refused


@dataclass(frozen=True)
class _Place:
    """Points at which an equation is written out: in `loops`, where `guard` holds; `at` gives its own loops there."""

    at: Mapping[str, Affine]
    loops: tuple[Range, ...]
    guard: tuple[Condition, ...]


# Where a term is, which one it is (the loops that the undivided equation reduces), and its value, with the factor of a
# linear reduction.
_Term = tuple[_Place, tuple[Affine, ...], tuple[Expr, Expr | None]]


def check_regrouped(kernel: Kernel, origin: Kernel, made: Regrouped) -> None:
    """Refused where what `kernel` has in the place of a reduction of `origin` does not have its terms."""
    whole, new = equation_of(origin, made.target), equation_of(kernel, made.target)
    known = {e.target for e in origin.equations}
    added = [e for e in kernel.equations if e.target not in known]
    check_rest(kernel, origin, whole, (*added, new), "regrouped")
    if whole.carried:
        whole = _reduction(origin, whole)
        origin = replace(origin, equations=tuple(whole if e.target == whole.target else e for e in origin.equations))
    at = {r.name: value for r, value in zip(whole.loops, made.point, strict=True)}
    if whole.reduce not in (*COMBINES, LINEAR) or new.best or new.index != substitute(whole.index, at):
        raise Refused(f"'{made.target}' is not regrouped where it is")
    here = _Place({r.name: var(r.name) for r in new.loops}, new.loops, conditions_on_left(new))
    place = Access(whole.target, new.index)
    start = Stmt(f"{whole.target}.init", place, whole.value, made.point, here.guard)
    body = [_nest(here.loops, start)]
    for found, term, value in _WrittenOut(kernel, whole, dict(made.terms)).terms(new, here):
        values = at | {r.name: index for r, index in zip(whole.reduced, term, strict=True)}
        if value != substitute((whole.value, whole.arg), values):
            raise Refused(f"'{made.target}' is made of other terms than the kernel has")
        stmt = replace(start, name=whole.target, instance=(*made.point, *term), guard=found.guard, reduce=whole.reduce,
                       arg=whole.arg)  # fmt: skip
        body.append(_nest(found.loops, stmt))
    program = project(Tree(origin, (), tuple(body)))
    check_instances(program, start.name)
    check_instances(program, whole.target)
    if whole.reduce == LINEAR:
        check_order(program)


def _reduction(kernel: Kernel, recurrence: Equation) -> Equation:
    """The linear reduction that a recurrence is, whose first element is made of 0."""
    found, i = running_form(recurrence), recurrence.loops[0]
    if found is None:
        raise Refused(f"the recurrence of '{recurrence.target}' is not linear in the element before")
    shape = kernel.tensor(recurrence.target).shape
    first = substitute(previous(recurrence), {i.name: const(0)})
    inside = [c for at, extent in zip(first, shape, strict=True) for c in (Condition(at), Condition(extent - 1 - at))]
    rows = points_of(kernel, recurrence.loops[1:], (*recurrence.conditions, *inside))
    if solvable((*rows, *range_of(i.name, i.extent))):
        raise Refused(f"the first element of the recurrence of '{recurrence.target}' is made of another one")
    return found


def _nest(loops: tuple[Range, ...], node: Node) -> Node:
    for r in reversed(loops):
        node = Loop(r.name, r.extent, (node,))
    return node


@dataclass(frozen=True)
class _WrittenOut:
    """The terms of `whole` in results of the kernel; `named` are those of each tensor that reduces some."""

    kernel: Kernel
    whole: Equation
    named: Mapping[str, tuple[Affine, ...]]

    def terms(self, equation: Equation, place: _Place) -> Iterator[_Term]:
        """What goes into the equation at a place."""
        if equation.reduce not in (None, self.whole.reduce) or equation.best:
            raise Refused(f"'{equation.target}' is no {self.whole.reduce}, and '{self.whole.target}' is")
        if equation.running is None:
            yield from self._of_value(equation, equation.value, equation.arg, self._enter(equation, place))
            return
        runs = self._source(equation, equation.running)
        is_sum = (equation.value, equation.loops) == (
            Load(runs.target, runs.index, self._dtype(runs.target)),
            (*runs.loops, *runs.reduced[:1]),
        )
        between = self.kernel.equations[self.kernel.equations.index(runs) + 1 : self.kernel.equations.index(equation)]
        if not is_sum or any(load.buffer == equation.target for e in between for load in loads(e)):
            raise Refused(f"'{equation.target}' does not read '{runs.target}' in the loop that reduces it")
        self._check_there(runs, place)
        inner, outermost = self._enter(runs, place), runs.reduced[0].name
        before = place.at[outermost] - inner.at[outermost] - (0 if equation.inclusive else 1)
        inner = replace(inner, guard=(*inner.guard, Condition(before)))
        yield from self._of_value(runs, runs.value, runs.arg, inner)

    def _enter(self, equation: Equation, place: _Place) -> _Place:
        """The place inside of the loops that the equation reduces, which get names of their own."""
        loops = tuple(replace(r, name=f"{r.index}.{len(place.loops)}") for r in equation.reduced)
        at = {**place.at, **{r.name: var(n.name) for r, n in zip(equation.reduced, loops, strict=True)}}
        kept = dict.fromkeys((*place.guard, *(substitute(c, at) for c in equation.conditions)))
        return _Place(at, (*place.loops, *loops), tuple(kept))

    def _of_value(self, equation: Equation, value: Expr, factor: Expr | None, place: _Place) -> Iterator[_Term]:
        """What a value of the equation is made of; with a `factor`, a group of pairs."""
        if equation.target in self.named:
            yield place, substitute(self.named[equation.target], place.at), substitute((value, factor), place.at)
            return
        match value:
            case Op(name, parts) if name == COMBINES.get(self.whole.reduce or ""):
                for part in parts:
                    yield from self._of_value(equation, part, None, place)
            case Op("+", (Op("*", (by, before)), group)) if self.whole.reduce == LINEAR and factor is None:
                yield from self._of_value(equation, before, None, place)
                yield from self._of_value(equation, group, by, place)
            case Load(buffer, index, fallback=None):
                source = self._source(equation, buffer)
                inner = substitute(index, place.at)
                at = {str(loop): index for loop, index in zip(source.index, inner, strict=True)}
                self._check_there(source, there := replace(place, at=at))
                found = list(self.terms(source, there))
                if factor is not None:
                    self._check_factor(equation, factor, found, place)
                yield from found
            case _:
                raise Refused(f"'{equation.target}' is made of more than results of '{self.whole.target}'")

    def _check_factor(self, equation: Equation, factor: Expr, found: list[_Term], place: _Place) -> None:
        """Refused unless the factor is the product of the factors of these terms."""
        factors = replace(self.whole, reduce="prod", value=self.whole.arg or factor, arg=None)
        there = replace(self, whole=factors)._of_value(equation, factor, None, place)
        if [(p.loops, p.guard, term, value) for p, term, value in there] != [
            (p.loops, p.guard, term, (by, None)) for p, term, (_, by) in found
        ]:
            raise Refused(f"'{equation.target}' takes a group of terms with the factor of another")

    def _source(self, equation: Equation, name: str) -> Equation:
        """The equation of a tensor that `equation` reads, which has a value everywhere but for its conditions."""
        found = equation_of(self.kernel, name)
        tensor = self.kernel.tensor(name)
        earlier = self.kernel.equations.index(found) < self.kernel.equations.index(equation)
        every = defines_all(replace(found, conditions=()), tensor)
        if not earlier or not every or tensor.dtype != self._dtype(self.whole.target):
            raise Refused(f"'{equation.target}' reads '{name}', which is no result of '{self.whole.target}'")
        return found

    def _check_there(self, source: Equation, place: _Place) -> None:
        """Refused where the source may have no value at the place: its conditions are those of who reads it."""
        if not set(substitute(conditions_on_left(source), place.at)) <= set(place.guard):
            raise Refused(f"'{source.target}' is read where it may have no value")

    def _dtype(self, name: str) -> str:
        return self.kernel.tensor(name).dtype
