"""Running reductions for the reference: each term is taken in once, and all prefixes are computed from that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from tilegen.interpreter.dtypes import Array
from tilegen.interpreter.expected.box import POINTS, Memory, Part, evaluate, extents_of, parts
from tilegen.interpreter.expected.reduce import accumulator
from tilegen.ir.nodes import Equation
from tilegen.ir.reductions.running import Compared, running_of


def prefixes(
    equation: Equation, sizes: Mapping[str, int], memory: Mapping[str, Memory]
) -> Iterator[tuple[Part, Array, Array]] | None:
    """Parts of the left side with their values and errors; None where the equation is no running reduction."""
    found = running_of(equation)
    return None if found is None else _prefixes(equation, found, sizes, memory)


def _prefixes(
    equation: Equation, found: Compared, sizes: Mapping[str, int], memory: Mapping[str, Memory]
) -> Iterator[tuple[Part, Array, Array]]:
    outer = [r for r in equation.loops if r != found.i]
    inner = [r for r in equation.reduced if r != found.k]
    depths, along, count = extents_of(inner, sizes), *extents_of((found.i, found.k), sizes).values()
    reduced = {r.name for r in equation.reduced}
    tests = tuple(c for c in equation.conditions if c != found.condition and c.value.names() & reduced)
    # One place more: that of no terms, before the first or after the last.
    pad, axis = ((1, 0) if found.forward else (0, 1)), len(outer)
    places = np.minimum(np.arange(along) + (found.forward == found.inclusive), count)
    for part in parts(extents_of(outer, sizes), sizes, max(1, POINTS // (count + 1))):
        shape = (*part.shape, count)
        result = accumulator(equation, count * prod(depths.values()), (*part.shape, count + 1))
        for piece in parts(depths, sizes, max(1, POINTS // max(1, prod(shape)))):
            whole = part.times(Part((found.k.name,), (range(count),), sizes)).times(piece)
            mask = whole.mask(tests)
            terms = (*evaluate(equation.value, whole, memory, mask), np.ones((), bool) if mask is None else mask)
            full = (np.broadcast_to(each, whole.shape).reshape(*shape, prod(piece.shape)) for each in terms)
            value, error, there = (np.pad(each, [(0, 0)] * axis + [pad, (0, 0)]) for each in full)
            result.add(value, error, there, (axis + 1,), 0)
        result.accumulate(axis, found.forward)
        position = equation.loops.index(found.i)
        named = [*zip(part.names, part.box, strict=True)]
        named.insert(position, (found.i.name, range(along)))
        left = Part(tuple(n for n, _ in named), tuple(b for _, b in named), sizes)
        value, error = (np.moveaxis(np.take(each, places, axis), axis, position) for each in result.result())
        yield left, value, error
