"""Sums of products of two factors by matrix multiplication, where the loops fall apart the right way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from tilegen.interpreter.box import Memory, Part, evaluate
from tilegen.interpreter.dtypes import Array
from tilegen.interpreter.rounding import gamma, tiny, unit
from tilegen.ir.nodes import FLOATS, Equation, Expr, Index, Load, Op
from tilegen.ir.walk import walk

# A factor is held whole, so it may have this many elements at most: 128 MB.
_LARGEST_FACTOR = 2**24


@dataclass(frozen=True)
class Products:
    """The sum and its error, with one axis for each loop of the left side."""

    value: Array
    error: Array


@dataclass(frozen=True)
class _Split:
    """Loops by where they occur: in both factors and on the left, in one alone, or summed over."""

    batch: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    summed: tuple[str, ...]


def sum_of_products(equation: Equation, sizes: Mapping[str, int], memory: Mapping[str, Memory]) -> Products | None:
    """The sum by matrix products, or None where the equation is no sum of two factors that fit.

    With X and Y the factors' magnitudes with their errors, a term is within XY - |xy| + uXY of the exact
    one, and n of them add gamma_n times the sum of (1 + u) XY.
    """
    value = equation.value
    if equation.reduce != "sum" or equation.conditions or value.dtype not in FLOATS:
        return None
    if not (isinstance(value, Op) and value.name == "*"):
        return None
    extents = {r.name: max(0, r.extent.evaluate(sizes)) for r in (*equation.loops, *equation.reduced)}
    split = _split(equation, value.args[0], value.args[1])
    if split is None:
        return None
    left_names = (*split.batch, *split.rows, *split.summed)
    right_names = (*split.batch, *split.summed, *split.columns)
    if max(prod(extents[n] for n in names) for names in (left_names, right_names)) > _LARGEST_FACTOR:
        return None
    factors = []
    for factor, names in ((value.args[0], left_names), (value.args[1], right_names)):
        part = Part(names, tuple(range(extents[n]) for n in names), sizes)
        pair = evaluate(factor, part, memory, None)
        factors.append(tuple(np.broadcast_to(array, part.shape) for array in pair))
    (x, ex), (y, ey) = factors

    def total(left: Array, right: Array) -> Array:
        return _multiplied(left, right, split, extents, tuple(r.name for r in equation.loops))

    most = total(np.abs(x) + ex, np.abs(y) + ey)
    least = total(np.abs(x), np.abs(y)) if ex.any() or ey.any() else most
    u = unit(value.dtype)
    count = prod(extents[r.name] for r in equation.reduced)
    error = (most - least) + u * most + gamma(count, value.dtype) * (1 + u) * most
    # Far below the normal numbers a product loses more than u of itself.
    error = error + np.where(most > 0, count * tiny(value.dtype), 0.0)
    return Products(total(x, y), error)


def _split(equation: Equation, left: Expr, right: Expr) -> _Split | None:
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


def _multiplied(left: Array, right: Array, split: _Split, extents: Mapping[str, int], order: tuple[str, ...]) -> Array:
    def size(names: tuple[str, ...]) -> int:
        return prod(extents[n] for n in names)

    batch, rows, columns, summed = (size(n) for n in (split.batch, split.rows, split.columns, split.summed))
    result = left.reshape(batch, rows, summed) @ right.reshape(batch, summed, columns)
    names = (*split.batch, *split.rows, *split.columns)
    shaped = result.reshape([extents[n] for n in names])
    return shaped.transpose([names.index(n) for n in order])
