"""The lists of a kernel for the reference: what is a hit, how many there are, and what each stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tilegen.interpreter.dtypes import Array, to_values, wrap
from tilegen.interpreter.expected.box import POINTS, Memory, Part, evaluate, evaluate_whole, extents_of, parts
from tilegen.interpreter.expected.rounding import error_with_overflow
from tilegen.ir.facts.defined import conditions_on_left
from tilegen.ir.nodes import FLOATS, Equation
from tilegen.ir.parts.lists import Hits


@dataclass(frozen=True)
class _Found:
    """The hits of one list, a row each, in order. Of `sure` of them the place is known, and `unsure` points may be hits
    or not."""

    values: Array
    errors: Array
    sure: int
    unsure: int


def keep_lists(
    equation: Equation, sizes: Mapping[str, int], memory: Mapping[str, Memory]
) -> Callable[[Array], Array] | None:
    """Computes the equation of a list into `memory`.

    Returns what `Reference.gap` is where the hits may come in any order. Raises Undefined.
    """
    hits, target = equation.hits, memory[equation.target]
    assert hits
    home, found = memory[hits.access.buffer], dict[tuple[int, ...], _Found]()
    for left in parts(extents_of(equation.loops, sizes), sizes, 1):
        mask = left.mask(conditions_on_left(equation))
        if mask is not None and not mask.all():
            continue
        every = _find(equation, hits, left, memory)
        place = tuple(int(np.asarray(left.index(i)).item()) for i in equation.index)
        count = len(every.values)
        target.value[place] = wrap(np.asarray(count), target.dtype)
        target.error[place], target.written[place] = every.unsure, True
        row = tuple(int(np.asarray(left.index(i)).item()) for i in hits.access.index)
        _store(_places(home.value, hits, row), every.values)
        _store(_places(home.error, hits, row), every.errors)
        _places(home.error, hits, row)[every.sure if every.unsure else count :] = np.inf if every.unsure else 0.0
        _places(home.written, hits, row)[: count + every.unsure] = True
        found[row] = every
    if equation.reduce == "list":
        return None
    return lambda got: _gap(to_values(np.asarray(got), home.dtype), hits, found)


def _places(array: Array, hits: Hits, row: tuple[int, ...]) -> Array:
    """A view of the places of one list, each a row of its items."""
    last = len(row) - (len(hits.items) > 1)
    view: Array = array[tuple(slice(None) if d == hits.place or d >= last else i for d, i in enumerate(row))]
    return view.reshape(-1, 1) if len(hits.items) == 1 else view


def _store(places: Array, rows: Array) -> None:
    count = min(len(places), len(rows))
    places[:count] = rows[:count]


def _find(equation: Equation, hits: Hits, left: Part, memory: Mapping[str, Memory]) -> _Found:
    """The hits at one point of the left side."""
    dtype = memory[hits.access.buffer].dtype
    values, errors, count, sure, unsure = [], [], 0, 0, 0
    for piece in parts(extents_of(equation.reduced, left.sizes), left.sizes, POINTS):
        whole = left.times(piece)
        mask = whole.mask(equation.conditions)
        answers = (*evaluate(equation.value, whole, memory, mask), np.ones((), bool) if mask is None else mask)
        hit, doubt, there = (np.broadcast_to(each, whole.shape) for each in answers)
        hit, doubt = hit & there, (doubt > 0) & there
        pairs = [evaluate_whole(item, whole, memory, hit) for item in hits.items]
        rows, their = (np.stack([pair[n][hit] for pair in pairs], 1) for n in (0, 1))
        values.append(wrap(rows, dtype) if dtype not in FLOATS else rows)
        errors.append(error_with_overflow(rows, their, dtype) if dtype in FLOATS else their)
        if not unsure:
            first = np.argmax(doubt) if doubt.any() else doubt.size
            sure = count + int(hit.ravel()[:first].sum())
        count, unsure = count + len(rows), unsure + int(doubt.sum())
    none = np.zeros((0, len(hits.items)))
    kind = np.float64 if dtype in FLOATS else np.int64
    return _Found(np.concatenate([none.astype(kind), *values]), np.concatenate([none, *errors]), sure, unsure)


def _gap(got: Array, hits: Hits, found: Mapping[tuple[int, ...], _Found]) -> Array:
    """By place, 0 where it has a hit that no place before it has, and inf where not.

    Where values are not exact, lists of all the hits are compared in their order by value.
    """
    result = np.zeros(got.shape)
    for row, every in found.items():
        places, wrong = _places(got, hits, row), _places(result, hits, row)
        count = min(len(places), len(every.values))
        if every.unsure:
            continue
        if not every.errors.any():
            left = Counter(map(_key, every.values))
            for n in range(count):
                wrong[n] = 0.0 if left[_key(places[n])] > 0 else np.inf
                left[_key(places[n])] -= 1
        elif len(every.values) == count and len(hits.items) == 1:
            order = np.argsort(every.values[:, 0])
            off, allowed = np.abs(np.sort(places[:count, 0]) - every.values[order, 0]), np.max(every.errors)
            wrong[:count, 0] = np.where(off <= allowed, 0.0, np.inf)
    return result


def _key(row: Array) -> bytes:
    """What equal rows have in common; any nan equals any other, and 0 is -0."""
    return (np.where(np.isnan(row), np.nan, row + 0) if row.dtype == np.float64 else row).tobytes()
