"""Sums of products of two factors by matrix multiplication, where the loops fall apart the right way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tilegen.interpreter.dtypes import Array
from tilegen.interpreter.expected.box import Memory, Part, cut_box, evaluate_whole, extents_of
from tilegen.interpreter.expected.rounding import are_integers, error_with_overflow, gamma, holds_integers, tiny, unit
from tilegen.interpreter.expected.summation import SumBound
from tilegen.ir.nodes import FLOATS, Equation, Expr, Index, Load, Op
from tilegen.ir.walk import walk

# The most elements that a part of a factor has: 128 MB.
_LARGEST_FACTOR = 2**24


@dataclass(frozen=True)
class _Split:
    """Loops by where they occur: in both factors and on the left, in one alone, or summed over."""

    batch: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    summed: tuple[str, ...]


def sums_of_products(
    equation: Equation, sizes: Mapping[str, int], memory: Mapping[str, Memory], bound: SumBound | None
) -> Iterator[tuple[Part, Array, Array]] | None:
    """The sum and its error for each part of the left side, or None where it is no sum of two such factors.

    `bound` is that of the instructions that may add it up.
    """
    value = equation.value
    if equation.reduce != "sum" or equation.conditions or not (isinstance(value, Op) and value.name == "*"):
        return None
    split = _split_loops(equation, value.args[0], value.args[1])
    read = [memory[load.buffer] for load in walk(value) if isinstance(load, Load)]
    if split is None or not all(np.isfinite(m.value).all() and np.isfinite(m.error).all() for m in read):
        return None
    extents = extents_of((*equation.loops, *equation.reduced), sizes)
    steps = _steps(split, extents)
    if steps is None:
        return None
    return (
        (part, *_part(equation, split, extents, part, memory, bound))
        for part in cut_box(extents_of(equation.loops, sizes), steps, sizes)
    )


def _steps(split: _Split, extents: Mapping[str, int]) -> dict[str, int] | None:
    """How far each loop of the left side goes in one part, so that both factors fit; None if none does."""
    steps = dict(extents)
    for names in ((*split.batch, *split.rows), (*split.batch, *split.columns)):
        while prod(steps[n] for n in (*names, *split.summed)) > _LARGEST_FACTOR:
            longest = max(names, key=lambda n: steps[n], default=None)
            if longest is None or steps[longest] <= 1:
                return None
            steps[longest] = (steps[longest] + 1) // 2
    return {name: max(1, step) for name, step in steps.items()}


def _part(
    equation: Equation,
    split: _Split,
    extents: Mapping[str, int],
    part: Part,
    memory: Mapping[str, Memory],
    bound: SumBound | None,
) -> tuple[Array, Array]:
    """The sums on one part, with one axis for each loop of the left side.

    With X and Y the factors' magnitudes with their errors, a term is within XY - |xy| + uXY of the exact
    one, and n of them that are not 0 add gamma_n times the sum of (1 + u) XY.
    """
    value = equation.value
    assert isinstance(value, Op)
    ranges = dict(zip(part.names, part.box, strict=True)) | {n: range(extents[n]) for n in split.summed}
    factors = []
    for factor, names in (
        (value.args[0], (*split.batch, *split.rows, *split.summed)),
        (value.args[1], (*split.batch, *split.summed, *split.columns)),
    ):
        own = Part(names, tuple(ranges[n] for n in names), part.sizes)
        factors.append(evaluate_whole(factor, own, memory, None))
    (x, ex), (y, ey) = factors
    lengths = {name: len(r) for name, r in ranges.items()}
    count = prod(lengths[n] for n in split.summed)

    def total(left: Array, right: Array) -> Array:
        return _multiply(left, right, split, lengths, part.names)

    if value.dtype not in FLOATS:
        return _integer_total(x, y, count, total), np.zeros(())
    most = total(np.abs(x) + ex, np.abs(y) + ey)
    least = total(np.abs(x), np.abs(y)) if ex.any() or ey.any() else most
    u = unit(value.dtype)
    terms: Any = count
    if np.isinf(gamma(count, value.dtype)):
        terms = total(((x != 0) | (ex != 0)).astype(float), ((y != 0) | (ey != 0)).astype(float))
    rounded = u * most + gamma(terms, value.dtype) * (1 + u) * most
    # Far below the normal numbers a product loses more than u of itself.
    lost = np.where(most > 0, count * tiny(value.dtype), 0.0)
    if are_integers(x, ex) and are_integers(y, ey):
        rounded, lost = (np.where(holds_integers(most, value.dtype), 0.0, each) for each in (rounded, lost))
    if bound:
        rounded = np.maximum(rounded, bound.share * total(bound.magnitude(x, ex), bound.magnitude(y, ey)))
    result, error = total(x, y), (most - least) + rounded + lost
    return result, np.where(np.isfinite(error_with_overflow(most, error, value.dtype)), error, np.inf)


def _integer_total(x: Array, y: Array, count: int, total: Callable[[Array, Array], Array]) -> Array:
    """The exact sums, in float64 where they fit, since numpy multiplies matrices of integers slowly."""
    if x.size and y.size and float(np.abs(x).max()) * float(np.abs(y).max()) * count < 2.0**53:
        return total(x.astype(np.float64), y.astype(np.float64)).astype(np.int64)
    return total(x, y)


def _split_loops(equation: Equation, left: Expr, right: Expr) -> _Split | None:
    in_left, in_right = _loops(left), _loops(right)
    outer = [r.name for r in equation.loops]
    inner = [r.name for r in equation.reduced]
    if not all(n in in_left and n in in_right for n in inner) or not all(n in in_left | in_right for n in outer):
        return None
    return _Split(
        tuple(n for n in outer if n in in_left and n in in_right),
        tuple(n for n in outer if n not in in_right),
        tuple(n for n in outer if n not in in_left),
        tuple(inner),
    )


def _loops(value: Expr) -> set[str]:
    """The names in the indices of a factor, sizes among them."""
    names: set[str] = set()
    for node in walk(value):
        if isinstance(node, Load):
            names |= {n for i in node.index for n in i.names()}
        elif isinstance(node, Index):
            names |= node.index.names()
    return names


def _multiply(left: Array, right: Array, split: _Split, extents: Mapping[str, int], order: tuple[str, ...]) -> Array:
    def size(names: tuple[str, ...]) -> int:
        return prod(extents[n] for n in names)

    batch, rows, columns, summed = (size(n) for n in (split.batch, split.rows, split.columns, split.summed))
    result = left.reshape(batch, rows, summed) @ right.reshape(batch, summed, columns)
    names = (*split.batch, *split.rows, *split.columns)
    shaped = result.reshape([extents[n] for n in names])
    return shaped.transpose([names.index(n) for n in order])
