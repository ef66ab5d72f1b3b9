"""Sums of what is equal to an index, for the reference: each term is taken in once, at the place that it tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tilegen.interpreter.dtypes import Array
from tilegen.interpreter.expected.box import POINTS, Memory, Part, evaluate, evaluate_whole, extents_of, parts
from tilegen.interpreter.expected.reduce import TermSum
from tilegen.ir.nodes import Equation, Range
from tilegen.ir.reductions.scatter import Pick, pick_of, speaks_of

Whole = tuple[Part, Array, Array]


def picked_sums(equation: Equation, sizes: Mapping[str, int], memory: Mapping[str, Memory]) -> Iterator[Whole] | None:
    """All of the left side with its values and errors; None where no data decide where a term goes, or not for sure."""
    if equation.reduce != "sum":
        return None
    for place in equation.loops:
        pick, own = pick_of(equation.value, place.name), frozenset((place.name,))
        if pick and pick.rest.value == 0 and not speaks_of((pick.term, equation.conditions), own):
            result = _sums(equation, place, pick, sizes, memory)
            return iter((result,)) if result else None
    return None


def _sums(
    equation: Equation, along: Range, pick: Pick, sizes: Mapping[str, int], memory: Mapping[str, Memory]
) -> Whole | None:
    extents = extents_of((*equation.loops, *equation.reduced), sizes)
    left = tuple(r.name for r in equation.loops)
    away = {name: extent for name, extent in extents.items() if name != along.name}
    shape = tuple(extents[name] for name in left)
    result, others = TermSum(equation.value.dtype, shape), [left.index(name) for name in left if name != along.name]
    for part in parts(away, sizes, POINTS):
        mask = part.mask(equation.conditions)
        place, doubt = evaluate(pick.place, part, memory, mask)
        if np.any(doubt):
            return None
        kept = np.broadcast_to((place >= 0) & (place < extents[along.name]), part.shape)
        kept = kept if mask is None else kept & mask
        index: list[Array] = [np.empty(0)] * len(left)
        for axis, position in enumerate(others):
            index[position] = np.broadcast_to(part.axis(axis), part.shape)[kept]
        index[left.index(along.name)] = np.broadcast_to(place, part.shape)[kept]
        value, error = (each[kept] for each in evaluate_whole(pick.term, part, memory, kept))
        result.add_at(tuple(index), value, error)
    return Part(left, tuple(map(range, shape)), sizes), *result.result()
