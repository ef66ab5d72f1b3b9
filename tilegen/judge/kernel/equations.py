"""Does the text of a kernel define what it reads, and each element once? Asked of the kernel before any step.

For all sizes that the kernel admits:

- every element that an equation defines is inside its target, and no two points of the left side define the same one;
- every read without a fallback is inside its tensor, at each point at which its value is wanted: an arm of a choice is
  wanted only where the choice takes it;
- every element of an intermediate tensor or an output that is read is one that the tensor's equation defines. A choice
  makes no difference to that: what is inside is read whether it is wanted or not. That it is defined before is asked
  in `recurrences`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tilegen.errors import Collected, SourceError
from tilegen.ir.affine import Affine
from tilegen.ir.facts.choices import ALWAYS, Cases, both, cases_of, tests_of
from tilegen.ir.facts.defined import conditions_on_left, defines_all
from tilegen.ir.in_place import memory_of, old_of
from tilegen.ir.nodes import (
    Cast,
    Condition,
    Const,
    Equation,
    Expr,
    Gather,
    Index,
    Kernel,
    Load,
    Op,
    Scalar,
    Tensor,
)
from tilegen.ir.walk import loads
from tilegen.judge.kernel.equation_points import EquationPoints, mark_names, points_of
from tilegen.judge.kernel.recurrences import in_sequence
from tilegen.judge.places.gathers import outside_by_data, stays_inside
from tilegen.poly.covering import find_uncovered
from tilegen.poly.rows import rename
from tilegen.poly.system import Point, Row, Undecided, equal_rows, example, form, rows_of, solvable


def check_equations(kernel: Kernel) -> Kernel:
    """The kernel, whose equations are well defined. Raises SourceError, with a witness, where they are not.

    A read that only the choice around it keeps inside its tensor gets 0 as a fallback, which is never taken: reads are
    made at all points then.
    """
    writers = {equation.target: equation for equation in kernel.equations}
    equations: list[Equation] = []
    collected, wrong = Collected(), set[str]()
    for equation in kernel.equations:
        # What is said of others may come of these.
        if wrong.isdisjoint(load.buffer for load in loads((equation.value, equation.hits))):
            wrong.add(equation.target)
            with collected:
                equations.append(_checked(kernel, equation, writers))
                wrong.remove(equation.target)
        else:
            wrong.add(equation.target)
    collected.raise_any()
    return in_sequence(replace(kernel, equations=tuple(equations)))


def _checked(kernel: Kernel, equation: Equation, writers: Mapping[str, Equation]) -> Equation:
    """The equation, if it is well defined. Raises SourceError."""
    check = _Check(kernel, equation, writers)
    try:
        check.target(equation.target, equation.index)
        value, hits = check.value(equation.value, ALWAYS), equation.hits
        if hits:
            check.target(hits.access.buffer, hits.access.index)
            wanted = cases_of(equation.value)[0]
            hits = replace(hits, items=tuple(check.value(item, wanted) for item in hits.items))
        return replace(equation, value=value, hits=hits)
    except Undecided:
        message = f"whether the equation of '{equation.target}' is well defined is beyond the budget for one proof"
        notes = ("name parts of it with 'var' tensors",)
        raise SourceError(message, equation.span, notes=notes, code="unproved") from None


def has_sizes(kernel: Kernel) -> bool:
    """True if the kernel admits some sizes: its facts hold, and no tensor is empty."""
    extents = tuple(Condition(extent - 1) for tensor in kernel.tensors for extent in tensor.shape)
    try:
        return solvable(points_of(kernel, (), extents))
    except Undecided:
        return True  # no proof needs it


@dataclass(frozen=True)
class _Check(EquationPoints):
    """The questions about one equation; `writers` are those of all tensors."""

    writers: Mapping[str, Equation]

    # -- what it defines

    def target(self, name: str, index: tuple[Affine, ...]) -> None:
        """Every element that is defined is inside the target, and is defined once."""
        tensor = self.kernel.tensor(name)
        if name == self.equation.target and defines_all(self.equation, tensor):
            return
        left = points_of(self.kernel, self.equation.loops, conditions_on_left(self.equation))
        found = _outside(left, index, tensor, self.name_order(self.equation.loops))
        if found is not None:
            point, dim = found
            raise SourceError(
                f"an element outside of '{tensor.name}' is defined",
                self.equation.span,
                witness=f"{self.element_text(point, self.equation.loops)} defines "
                f"{self.element(tensor, index, point)}, and {self.extent(tensor, dim, point)}",
                notes=("leave these points out: 'for ...' at the end, with a condition on the indices",),
            )
        self._check_once(tensor, index, left)

    def _check_once(self, tensor: Tensor, places: tuple[Affine, ...], left: tuple[Row, ...]) -> None:
        loops = [r.name for r in self.equation.loops]
        index = [form(i) for i in places]
        names = mark_names(left, index, loops)
        both = left + rename(left, names) + equal_rows(index, [f.rename(names) for f in index])
        for loop in loops:
            later: Row = (False, ((names[loop], 1), (loop, -1)), -1)
            point = example((*both, later), [*self.name_order(self.equation.loops), *names.values()])
            if point is not None:
                second = point | {n: point[names[n]] for n in loops}
                raise SourceError(
                    f"an element of '{tensor.name}' is defined twice",
                    self.equation.span,
                    witness=f"{self.element_text(point, self.equation.loops)} and "
                    f"{self.element_text(second, self.equation.loops)} "
                    f"both define {self.element(tensor, places, point)}{self.sizes_text(point)}",
                    notes=("an equation gives each element of its target one value; to combine several, reduce them: "
                           f"{tensor.name}[...] = sum[...](...)",),
                )  # fmt: skip
            both += ((True, ((names[loop], 1), (loop, -1)), 0),)

    # -- what it reads

    def value(self, value: Expr, under: Cases) -> Expr:
        """`value`, wanted where one of the cases holds, with a fallback for reads that need these to be inside."""
        match value:
            case Const() | Index() | Scalar():
                return value
            case Load():
                return self._guard_load(value, under)
            case Gather():
                return self._guard_gather(value, under)
            case Cast(arg):
                return replace(value, arg=self.value(arg, under))
            case Op("select", (condition, then, other)):
                true, false = cases_of(condition)
                arms = (self.value(then, both(under, true)), self.value(other, both(under, false)))
                if (read := self._one_read(condition, *arms)) is not None:
                    return read
                return replace(value, args=(self.value(condition, under), *arms))
            case Op("and" | "or" as word, (first, second)):
                # The second one is looked at only where the first one does not decide.
                true, false = cases_of(first)
                wanted = both(under, true if word == "and" else false)
                return replace(value, args=(self.value(first, under), self.value(second, wanted)))
            case Op(args=args):
                return replace(value, args=tuple(self.value(arg, under) for arg in args))
            case _:
                raise TypeError(value)

    def _one_read(self, condition: Expr, then: Expr, other: Expr) -> Load | None:
        """The choice between a read and a constant where it is that of a fallback: the index is inside, or not."""
        tests = tests_of(condition)
        if tests is None or not isinstance(other, Const):
            return None
        if not isinstance(then, Load) or then.fallback is None or then.fallback.value != 0:
            return None
        inside = _inside_conditions(then.index, self.kernel.tensor(then.buffer))
        points = points_of(self.kernel, self.ranges, self.equation.conditions)
        for given, wanted in ((tests, inside), (inside, tests)):
            rows = points + tuple(row for c in given for row in rows_of(c))
            if any(solvable(rows + rows_of(Condition(-1 - c.value))) for c in wanted):
                return None
        return replace(then, fallback=other)

    def _guard_load(self, load: Load, under: Cases) -> Load:
        tensor = self.kernel.tensor(load.buffer)
        guarded = load
        if load.fallback is None and self._goes_outside(load, tensor, ALWAYS):
            if under == ALWAYS or self._goes_outside(load, tensor, under):
                raise self._read_outside(load, tensor, under)
            guarded = replace(load, fallback=Const(0, load.dtype))
        elif load.fallback is not None and under != ALWAYS and not self._goes_outside(load, tensor, under):
            guarded = replace(load, fallback=Const(0, load.dtype))  # never taken, as that of a guarded read
        if load.buffer == old_of(self.equation.target):
            self._check_in_place(load, tensor)
        # What an update leaves out has the value from before the call.
        if tensor.role != "input" and not any(t.name == old_of(tensor.name) for t in self.kernel.tensors):
            self._check_defined(load, tensor)
        return guarded

    def _guard_gather(self, value: Gather, under: Cases) -> Gather:
        """The gather with tests of the dimensions alone that it may leave. What data decide is wanted at any point."""
        places = tuple(self.value(place, under) for place in value.index)
        ranges = (*self.equation.loops, *self.equation.reduced)
        points = points_of(self.kernel, ranges, self.equation.conditions)
        shape = self.kernel.tensor(value.buffer).shape
        tested = tuple(d for d, place in enumerate(places) if not stays_inside(place, shape[d], points))
        if value.fallback is None and tested:
            raise outside_by_data(value, places[tested[0]], shape[tested[0]], self.equation.span)
        other = value.fallback and self.value(value.fallback, under)
        return replace(value, index=places, fallback=other if tested else None, tested=tested)

    def _goes_outside(self, load: Load, tensor: Tensor, under: Cases) -> bool:
        return any(_outside(points, load.index, tensor) is not None for points in self._wanted_points(under))

    def _read_outside(self, load: Load, tensor: Tensor, under: Cases) -> SourceError:
        ranges = self.ranges
        found = (_outside(points, load.index, tensor, self.name_order(ranges)) for points in self._wanted_points(under))
        point, dim = next(one for one in found if one is not None)
        text = load.span.text if load.span else str(load)
        return SourceError(
            f"'{memory_of(tensor.name)}' is read outside its bounds",
            load.span or self.equation.span,
            witness=f"{self.element_text(point, ranges)} reads {self.element(tensor, load.index, point)}, and "
            f"{self.extent(tensor, dim, point)}",
            notes=(f"say what it is there, ({text} else 0), or leave these points out by a condition on the indices",),
        )

    def _check_defined(self, load: Load, tensor: Tensor) -> None:
        """Every element inside the tensor that is read at any point is one that the tensor's equation has defined.

        A choice does not keep a read that is inside from being made.
        """
        writer = self.writers.get(tensor.name)
        if writer is None:
            notes = ("what follows the last hit has no value; what counts the hits can be read",)
            span = load.span or self.equation.span
            raise SourceError(f"'{tensor.name}' keeps a list, and is read", span, notes=notes)
        if defines_all(writer, tensor):
            return
        loops = [r.name for r in writer.loops]
        index = [form(i) for i in writer.index]
        written = points_of(self.kernel, writer.loops, conditions_on_left(writer))
        names = mark_names(written, index, loops)
        read = [form(i) for i in load.index]
        piece = rename(written, names) + equal_rows([f.rename(names) for f in index], read)
        inside = tuple(row for c in _inside_conditions(load.index, tensor) for row in rows_of(c))
        order = self.name_order(self.ranges)
        points = points_of(self.kernel, self.ranges, self.equation.conditions)
        point = find_uncovered(points + inside, [points + inside + piece], order)
        if point is None:
            return
        line = f" on line {writer.span.line}" if writer.span else ""
        raise SourceError(
            f"'{tensor.name}' is read where it has no value",
            load.span or self.equation.span,
            witness=f"{self.element_text(point, self.ranges)} reads {self.element(tensor, load.index, point)}, "
            f"which the equation of '{tensor.name}'{line} leaves out{self.sizes_text(point)}",
            notes=("define it there, for instance by a choice, 'a if condition else b', or leave these points out",),
        )

    def _check_in_place(self, load: Load, tensor: Tensor) -> None:
        """The equation that updates a tensor reads, at each point, the element alone that it defines there."""
        points = points_of(self.kernel, self.ranges, self.equation.conditions)
        points += tuple(row for c in _inside_conditions(load.index, tensor) for row in rows_of(c))
        for read, written in zip(load.index, self.equation.index, strict=True):
            for apart in (Condition(read - written - 1), Condition(written - read - 1)):
                point = example(points + rows_of(apart), self.name_order(self.ranges))
                if point is not None:
                    target = self.kernel.tensor(self.equation.target)
                    raise SourceError(
                        f"the equation that updates '{target.name}' reads other elements than it defines",
                        load.span or self.equation.span,
                        witness=f"{self.element_text(point, self.ranges)} defines "
                        f"{self.element(target, self.equation.index, point)} and reads "
                        f"{self.element(target, load.index, point)}{self.sizes_text(point)}",
                        notes=("an equation defines all its elements at once, in no order: write to another tensor, or "
                               "read what a 'var' tensor has kept of the old values",),
                    )  # fmt: skip

    # -- points, and how they are shown

    def _wanted_points(self, under: Cases) -> Iterator[tuple[Row, ...]]:
        """The points of the equation at which one of the cases holds, a system for each that can."""
        points = points_of(self.kernel, self.ranges, self.equation.conditions)
        for case in under:
            rows = points + tuple(row for c in case for row in rows_of(c))
            if solvable(rows):
                yield rows


def _inside_conditions(index: tuple[Affine, ...], tensor: Tensor) -> tuple[Condition, ...]:
    return tuple(
        condition
        for place, extent in zip(index, tensor.shape, strict=True)
        for condition in (Condition(place), Condition(extent - 1 - place))
    )


def _outside(
    points: tuple[Row, ...], index: tuple[Affine, ...], tensor: Tensor, order: list[str] | None = None
) -> tuple[Point, int] | None:
    """A point at which the element is outside of the tensor, and the dimension; None if it is inside everywhere.

    The point is the least one in the given order of names; without an order it is not looked for.
    """
    for number, condition in enumerate(_inside_conditions(index, tensor)):
        rows = points + rows_of(Condition(-1 - condition.value))
        if solvable(rows):
            point = {} if order is None else example(rows, order)
            assert point is not None
            return point, number // 2
    return None
