"""Reads with a fallback become a choice: the element where the index is inside, else the fallback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from tilegen.ir.affine import Affine, const
from tilegen.ir.nodes import Buffer, Condition, Expr, Index, Load, Op
from tilegen.ir.walk import loads, replace, rewrite
from tilegen.lowering.guards import Implied, Tests
from tilegen.lowering.program import Combine, For, If, Spmd, with_body


def choose(body: tuple[Spmd, ...], buffers: Mapping[str, Buffer], implied: Implied) -> tuple[Spmd, ...]:
    """`body` without fallbacks. What the tests around a read imply is not asked again."""
    return _choose(body, _Place(buffers, implied))


@dataclass(frozen=True)
class _Place:
    """What is known where a read stands: the tests around it, and the loops, outermost first."""

    buffers: Mapping[str, Buffer]
    implied: Implied
    given: Tests = ()
    loops: tuple[str, ...] = ()

    def changes(self, condition: Condition) -> int:
        """How deep the innermost loop is that `condition` changes in."""
        names = condition.value.names()
        return max((depth for depth, name in enumerate(self.loops, 1) if name in names), default=0)


def _choose(body: tuple[Spmd, ...], place: _Place) -> tuple[Spmd, ...]:
    out: list[Spmd] = []
    for node in body:
        match node:
            case If(test=test, body=then, orelse=orelse):
                inner = _choose(then, replace(place, given=place.given + test))
                out.append(with_body(node, inner, _choose(orelse, place)))
            case For(name=name):
                out.append(with_body(node, _choose(node.body, replace(place, loops=(*place.loops, name)))))
            case Combine(test=test):  # its tests stand around its value
                out.append(_rewritten(node, replace(place, given=place.given + test)))
            case _ if any(load.fallback for load in loads(node)):
                out.append(_rewritten(node, place))
            case _:
                out.append(node)
    return tuple(out)


def _rewritten(node: Spmd, place: _Place) -> Spmd:
    return rewrite(node, lambda v: _chosen(v, place))


def _chosen(value: Any, place: _Place) -> Any:
    if not isinstance(value, Load) or value.fallback is None:
        return value
    element = replace(value, fallback=None)
    tests = [c for c in inside(place.buffers[value.buffer], value.index) if not place.implied(c, place.given)]
    if not tests:
        return element
    # What an inner loop does not change is tested first, once for all of its iterations.
    tests.sort(key=place.changes)
    test = reduce(lambda a, b: Op("and", (a, b), "bool"), [_comparison(c) for c in tests])
    return Op("select", (test, element, value.fallback), value.dtype)


def inside(buffer: Buffer, index: tuple[Affine, ...]) -> Tests:
    """The conditions that `index` is an element of `buffer`."""
    tests: Tests = ()
    for place, extent in zip(index, buffer.shape, strict=True):
        tests += (Condition(place), Condition(extent - 1 - place))
    return tests


def _comparison(condition: Condition) -> Expr:
    """The condition as a value, with the terms of each sign on their own side."""
    low, high = const(0), const(0)
    for atom, factor in condition.value.terms:
        if factor < 0:
            low = low + Affine(((atom, -factor),))
        else:
            high = high + Affine(((atom, factor),))
    constant = condition.value.const
    if low.is_const:
        return Op(">=", (Index(high), Index(const(-constant))), "bool")
    return Op("<", (Index(low + max(0, -constant - 1)), Index(high + max(0, constant + 1))), "bool")
