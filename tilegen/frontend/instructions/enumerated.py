"""What a declared instruction means and where its operands lie, checked at every point: the operands are small."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tilegen.errors import SourceError, Span
from tilegen.ir.affine import Affine
from tilegen.ir.hardware.boxes import Box, Numbers, first_of_equals
from tilegen.ir.hardware.instructions import ROW_BYTES, Fragment, Point, SharedRows
from tilegen.ir.nodes import Equation, Kernel, Tensor
from tilegen.ir.walk import loads

MOST_POINTS = 2**16  # of an operand, and of a meaning with conditions


# -- the meaning


def check_points(kernel: Kernel, span: Span) -> None:
    """Raises SourceError unless the meaning stays inside its operands and writes each element of the target once.

    Args:
        kernel: the meaning, one equation, which stands at `span`.
    """
    equation = kernel.equations[0]
    target = kernel.tensor(equation.target)
    accesses = [(target, equation.index), *((kernel.tensor(x.buffer), x.index) for x in loads(equation.value))]
    for tensor, index in accesses:
        points = _points(equation, frozenset().union(*(each.names() for each in index)), span)
        _check_inside(tensor, _elements_at(index, points), points, span)
    points = _points(equation, frozenset(r.name for r in equation.loops), span)
    shape = [extent.const for extent in target.shape]
    written = np.ravel_multi_index(_elements_at(equation.index, points), shape)
    left = {r.name: points.values[r.name] for r in equation.loops}
    _check_written_once(target, written, left, span)
    missing = np.setdiff1d(np.arange(prod(shape)), written)
    if missing.size:
        message = f"the meaning leaves out an element of '{target.name}'"
        notes = ("an instruction writes all of its output: give the output the shape of what is written",)
        witness = f"{target.name}{_element_text(np.unravel_index(missing[0], shape))}"
        raise SourceError(message, span, witness=witness, notes=notes)


@dataclass(frozen=True)
class _Points:
    """This number of points in the order of their indices, and the values of each index."""

    count: int
    values: dict[str, Any]

    def at(self, number: int) -> dict[str, int]:
        return {name: int(each[number]) for name, each in self.values.items()}


def _points(equation: Equation, names: frozenset[str], span: Span) -> _Points:
    """The values of these indices in the equation; of all indices, where it has conditions."""
    ranges = [r for r in (*equation.loops, *equation.reduced) if r.name in names or equation.conditions]
    if any(not r.extent.is_const for r in ranges) or prod(r.extent.const for r in ranges) > MOST_POINTS:
        message = f"the meaning is no box of at most {MOST_POINTS} points"
        raise SourceError(message, span, notes=("an instruction is small: each index runs from 0 to a number",))
    box = Box({r.name: r.extent.const for r in ranges})
    held = np.full(box.count, True)
    for condition in equation.conditions:
        number = box.at(condition.value)
        held &= number == 0 if condition.equal else number >= 0
    return _Points(int(held.sum()), {name: each[held] for name, each in box.values.items()})


def _check_inside(tensor: Tensor, elements: Sequence[Numbers], points: _Points, span: Span) -> None:
    shape = [extent.const for extent in tensor.shape]
    inside = np.full(points.count, True)
    for at, extent in zip(elements, shape, strict=True):
        inside &= (at >= 0) & (at < extent)
    if not inside.all():
        number = int(np.argmin(inside))
        element = _element_text([each[number] for each in elements])
        witness = f"{tensor.name}{element} at {_point_text(points.at(number))}"
        notes = (f"the shape of {tensor.name} is {shape}",)
        raise SourceError(f"the meaning leaves '{tensor.name}'", span, witness=witness, notes=notes)


def _check_written_once(target: Tensor, written: Numbers, left: Mapping[str, Numbers], span: Span) -> None:
    """Raises SourceError where points of the loops, `left` of the equation, write one element."""
    first = first_of_equals(written)
    differs = np.full(written.size, False)
    for values in left.values():
        differs |= values != values[first]
    if differs.any():
        number = int(np.argmax(differs))
        element = _element_text(np.unravel_index(written[number], [extent.const for extent in target.shape]))
        one, two = ({name: int(values[at]) for name, values in left.items()} for at in (first[number], number))
        witness = f"{target.name}{element} is written at {_point_text(one)} and at {_point_text(two)}"
        raise SourceError(f"the meaning writes an element of '{target.name}' twice", span, witness=witness)


def _elements_at(index: tuple[Affine, ...], points: _Points) -> tuple[Numbers, ...]:
    return tuple(np.broadcast_to(each.evaluate(points.values), points.count) for each in index)


def _element_text(element: Iterable[Any]) -> str:
    return str([int(at) for at in element])


def _point_text(point: dict[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in point.items())


# -- the layouts


def check_bijection(layout: Fragment | SharedRows, lanes: int, most: int) -> None:
    """Raises SourceError unless each element has a place of its own; as there are as many places, none is left empty.

    A place is one of the lanes 0 to `lanes` - 1 and, of it, a register or an element from 0 to `most` - 1.
    """
    name, count = layout.operand.name, prod(layout.shape)
    box = Box(dict(zip(layout.indices, layout.shape, strict=True)))
    lane, place = map(box.each, layout.place(list(box.values.values())))
    inside = (lane >= 0) & (lane < lanes) & (place >= 0) & (place < most)

    def point(number: int) -> Point:
        return tuple(int(at) for at in np.unravel_index(number, layout.shape))

    if not inside.all():
        raise _outside_error(layout, point(int(np.argmin(inside))), lanes, most)
    places = lane * most + place
    first = first_of_equals(places)
    again = np.flatnonzero(first != np.arange(count))
    if again.size:
        one, two = point(first[again[0]]), point(again[0])
        empty = int(np.setdiff1d(np.arange(lanes * most), places)[0])
        own = "a lane and a register" if isinstance(layout, Fragment) else "a lane and an element of its row"
        raise SourceError(
            f"the layout of '{name}' puts two elements into one place",
            layout.span,
            witness=f"{name}{list(one)} and {name}{list(two)} are both in {layout.PLACE.format(*layout.place(two))}; "
            f"nothing is in {layout.PLACE.format(*divmod(empty, most))}",
            notes=(f"each element has {own} of its own",),
        )


def _outside_error(layout: Fragment | SharedRows, point: Point, lanes: int, most: int) -> SourceError:
    name, elements = layout.operand.name, prod(layout.shape)
    if isinstance(layout, Fragment):
        parts, note = "registers", f"{elements} elements in {lanes} lanes are {most} in each"
    else:
        parts, note = "elements", f"{elements} elements in rows of {ROW_BYTES} bytes are {lanes} rows of {most}"
    return SourceError(
        f"the layout of '{name}' leaves the lanes 0 to {lanes - 1} or their {parts} 0 to {most - 1}",
        layout.span,
        witness=f"{name}{list(point)} would be in {layout.PLACE.format(*layout.place(point))}",
        notes=(note,),
    )
