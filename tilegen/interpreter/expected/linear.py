"""How far off the elements of a linear recurrence may be whose steps are taken together in groups.

A group makes one factor and one term of those of its steps, by any tree of them: an element is a sum of terms, each
times the factors after it. Such a product has a rounding for each factor, and one for each sum that it goes into, of
which there are as many at most. So all is within gamma of what the recurrence of the magnitudes comes to; what factors
and terms are off by themselves makes these larger.

Where a factor or a term of any group may be too large, nothing is known from there on: 0 times it is nan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tilegen.interpreter.dtypes import Array
from tilegen.interpreter.expected.box import POINTS, Memory, Part, evaluate_whole, extents_of, parts
from tilegen.interpreter.expected.rounding import error_with_overflow, gamma, holds_integers, tiny
from tilegen.interpreter.expected.uncertain import Pair
from tilegen.ir.nodes import FLOATS, Equation
from tilegen.ir.reductions.linear import running_form


def regrouped(
    equation: Equation, sizes: Mapping[str, int], memory: Mapping[str, Memory]
) -> Iterator[tuple[Part, Array, Array]] | None:
    """Parts of the left side with values and errors of any grouping; None where it is no such recurrence of floats."""
    form = running_form(equation)
    return _regrouped(form, sizes, memory) if form and equation.value.dtype in FLOATS else None


def _regrouped(
    form: Equation, sizes: Mapping[str, int], memory: Mapping[str, Memory]
) -> Iterator[tuple[Part, Array, Array]]:
    i, *others = form.loops
    count = extents_of((i,), sizes)[i.name]
    tests = tuple(c for c in form.conditions if i.name not in c.value.names())
    assert form.arg is not None
    for part in parts(extents_of(others, sizes), sizes, max(1, POINTS // max(1, count))):
        terms = Part((form.reduced[0].name,), (range(count),), sizes).times(part)
        mask = terms.mask(tests)
        factor, term = (evaluate_whole(each, terms, memory, mask) for each in (form.arg, form.value))
        yield Part((i.name, *part.names), terms.box, sizes), *_grouped(factor, term, form.value.dtype)


def _grouped(factor: Pair, term: Pair, dtype: str) -> Pair:
    """The elements of a recurrence along the first axis, and how far off they may be."""
    (a, a_error), (b, b_error) = factor, term
    wide = np.abs(a) + a_error
    # The element; what its magnitudes come to, exact and at most.
    by, more = (a, np.abs(a), wide), (b, np.abs(b), np.abs(b) + b_error)
    found, largest = np.zeros((len(a), 3, *a.shape[1:])), np.zeros_like(wide)
    old, product = np.zeros(found.shape[1:]), np.zeros(a.shape[1:])
    for at in range(len(a)):
        for n in range(3):
            old[n] = by[n][at] * old[n] + more[n][at]
        product = wide[at] * np.maximum(product, 1)  # the largest one of a group that ends here
        found[at], largest[at] = old, product
    value, exact, size = (found[:, n] for n in range(3))
    most = np.maximum.accumulate(np.maximum(size, largest), 0)
    unknown = np.isinf(most) | np.isinf(error_with_overflow(most, np.zeros_like(most), dtype))
    unknown = np.logical_or.accumulate(unknown, 0)
    whole = (np.rint(a) == a) & (np.rint(b) == b) & (a_error == 0) & (b_error == 0)
    sure = np.logical_and.accumulate(whole, 0) & holds_integers(most, dtype)
    steps = 2.0 * np.arange(2, len(a) + 2).reshape(-1, *[1] * (a.ndim - 1))
    lost = steps * tiny(dtype) * np.maximum(most, 1) ** 2
    error = size - exact + np.where(sure, 0.0, gamma(steps, dtype) * size + lost)
    error = np.where(np.isnan(most), np.where(np.isnan(value), 0.0, np.inf), error)
    return value, np.where(unknown, np.inf, error)
