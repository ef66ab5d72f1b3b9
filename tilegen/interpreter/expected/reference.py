"""What a kernel means, from its equations alone: in float64 or int64, with a bound for any right program.

The tree plays no part here, so that a mistake in how trees are made or changed cannot hide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from math import prod
from typing import Any

import numpy as np

from tilegen.interpreter.dtypes import Array, check_arguments, shape_of, wrap
from tilegen.interpreter.expected.box import (
    POINTS,
    Memory,
    Part,
    Rough,
    Undefined,
    empty_memory,
    evaluate,
    evaluate_whole,
    extents_of,
    memory_of_input,
    parts,
)
from tilegen.interpreter.expected.linear import regrouped
from tilegen.interpreter.expected.lists import keep_lists
from tilegen.interpreter.expected.picked import picked_sums
from tilegen.interpreter.expected.prefixes import prefixes
from tilegen.interpreter.expected.products import sums_of_products
from tilegen.interpreter.expected.ragged import between_ends, loops_of_ends
from tilegen.interpreter.expected.reduce import Accumulator, TermSum, accumulator
from tilegen.interpreter.expected.rounding import error_with_overflow
from tilegen.interpreter.expected.summation import SumBound, factors_of, sum_bound
from tilegen.interpreter.run import InterpreterError
from tilegen.ir.affine import Affine, const
from tilegen.ir.comparison.tolerance import PLAIN, Tolerance
from tilegen.ir.facts.defined import conditions_on_left
from tilegen.ir.in_place import memory_of, old_of
from tilegen.ir.nodes import FLOATS, Equation, Kernel, Op, Range
from tilegen.ir.reductions.initial import init_value
from tilegen.ir.walk import rewrite


@dataclass(frozen=True)
class Reference:
    """What an output has to be.

    Attributes:
        value: the exact result up to float64's rounding; float64, or int64 for integer tensors.
        bound: how far a right program's result may be from `value`, element by element; float64, 0 where
            it has to be equal, inf where nothing can be said (an overflow, a tie of argmax).
        written: which elements the kernel defines; the others may hold anything.
        gap: for the target of argmax or argmin, None otherwise: takes indices in the shape of the target and tells how
            far the value at each is from the best one, as a share of what these values' bounds explain. Up to 1 it may
            be the best; inf where it is not, or is no index at all. For a list in any order it takes the list.
        best: for a target of argmax or argmin how far the best values may be off; None otherwise.
    """

    value: Array
    bound: Array
    written: Array
    gap: Callable[[Array], Array] | None = field(default=None, compare=False, repr=False)
    best: Array | None = None

    @property
    def known(self) -> Array:
        """Of which elements something is known, so that a result can be held against it."""
        return np.isfinite(self.bound if self.best is None else self.best)


def reference(
    kernel: Kernel, sizes: Mapping[str, int], arrays: Mapping[str, Array], tolerance: Tolerance = PLAIN
) -> dict[str, Reference]:
    """The outputs of `kernel` as written by name, of their logical shapes; `sizes` and `arrays` as for `run`.

    The bound holds for any order of summation in the declared types, with or without fused
    multiply-adds, and for functions as exact as CUDA and OpenCL promise; see rounding.py. A tree's `tolerance`
    adds its approximations of functions, and the sums of its instructions; see approximate.py and summation.py. Of a
    kernel that says what it approximates, this is the result, with the bound that it claims.
    Integer kernels are exact and wrap as their types do.

    Raises ArgumentError for arrays that do not fit, and InterpreterError where the kernel reads an
    element outside a tensor or without a value.
    """
    kernel = kernel.written_kernel
    if claimed := tolerance.claimed or (kernel if kernel.meant else None):
        return _claimed(claimed, sizes, arrays)
    check_arguments(kernel, sizes, arrays)
    memory: dict[str, Memory] = {}
    for tensor in kernel.tensors:
        if tensor.role == "input" or old_of(tensor.name) in memory:
            # What the equation of an updated tensor leaves out stays as it was.
            memory[tensor.name] = memory_of_input(tensor.name, tensor.dtype, np.asarray(arrays[memory_of(tensor.name)]))
        else:
            memory[tensor.name] = empty_memory(tensor.name, tensor.dtype, shape_of(tensor, sizes))
    for number in kernel.scalars:
        memory[number.name] = memory_of_input(number.name, number.dtype, np.asarray(arrays[number.name]))
    judges: dict[str, tuple[Callable[[Array], Array] | None, Array | None]] = {}
    with np.errstate(all="ignore"):
        marked = _mark_rough(kernel.equations, tolerance.approximate)
        for shared, group in groupby(marked, lambda e: e.loops[: e.carried]):
            _compute_along(shared, tuple(group), sizes, memory, tolerance)
        for equation in marked:
            if equation.hits and equation.reduce == "unordered_list":
                judges[equation.hits.access.buffer] = keep_lists(equation, sizes, memory), None
            if equation.best is not None:
                judges[equation.target] = _judge(equation, dict(sizes), memory), memory[equation.best].error
    return {
        t.name: Reference(m.value, m.error, m.written, *judges.get(t.name, ()))
        for t in kernel.tensors
        if t.role == "output" and (m := memory[t.name])
    }


def _claimed(kernel: Kernel, sizes: Mapping[str, int], arrays: Mapping[str, Array]) -> dict[str, Reference]:
    """What a kernel approximates, with the bound of that and with what it claims beside."""
    assert kernel.meant
    found = reference(kernel.meant, sizes, arrays)
    more = reference(kernel.slack, sizes, arrays) if kernel.slack else {}
    for name, slack in more.items():
        found[name] = replace(found[name], bound=found[name].bound + slack.value)
    return found


def _mark_rough(equations: tuple[Equation, ...], approximate: Collection[str]) -> tuple[Equation, ...]:
    """The equations with the operations that may be approximated marked as such."""
    return rewrite(
        equations, lambda v: Rough(v.name, v.args, v.dtype) if isinstance(v, Op) and v.name in approximate else v
    )


def _undefined_error(equation: Equation, bad: Undefined) -> InterpreterError:
    at = ", ".join(map(str, bad.element))
    error = InterpreterError(
        f"the equation of '{equation.target}' reads {bad.tensor}[{at}], {bad.why}",
        buffer=bad.tensor,
        element=bad.element,
        statement=equation.target,
        witness=f"{bad.tensor}[{at}]",
    )
    error.span = equation.span
    return error


def _compute_along(
    shared: tuple[Range, ...],
    equations: tuple[Equation, ...],
    sizes: Mapping[str, int],
    memory: Mapping[str, Memory],
    tolerance: Tolerance,
) -> None:
    """Equations one after another, in each iteration of the loops that a recurrence goes along."""
    if equations[0].target in tolerance.regrouped and (whole := regrouped(equations[0], sizes, memory)):
        try:
            for part, value, error in whole:
                _store(memory[equations[0].target], equations[0], part, value, error)
        except Undefined as bad:
            raise _undefined_error(equations[0], bad) from None
        return
    inner = [replace(e, loops=e.loops[e.carried :]) for e in equations]
    for point in product(*(range(r.extent.evaluate(sizes)) for r in shared)):
        here = {**sizes, **{r.name: at for r, at in zip(shared, point, strict=True)}}
        for equation in inner:
            try:
                _compute(equation, here, memory, tolerance)
            except Undefined as bad:
                raise _undefined_error(equation, bad) from None


def _compute(equation: Equation, sizes: Mapping[str, int], memory: Mapping[str, Memory], tolerance: Tolerance) -> None:
    """One equation, for all points of its loops, a part of the box at a time."""
    if equation.hits:
        keep_lists(equation, sizes, memory)
        return
    target = memory[equation.target]
    best = memory[equation.best] if equation.best else None
    inner = extents_of(equation.reduced, sizes)
    count = prod(inner.values())
    bound = sum_bound(tolerance.sums, equation, count, sizes)
    whole = None if bound else prefixes(equation, sizes, memory)
    whole = whole or (None if bound else picked_sums(equation, sizes, memory))
    whole = whole or sums_of_products(equation, sizes, memory, bound)
    if whole is not None:
        for part, value, error in whole:
            _store(target, equation, part, value, error)
        return
    # An arg reduction sees all its values at once, to know whether the best one is the only one.
    single = loops_of_ends(equation)
    reduced_points = count if best else min(prod(n for name, n in inner.items() if name not in single), POINTS)
    for part in parts(extents_of(equation.loops, sizes), sizes, max(1, POINTS // max(1, reduced_points))):
        if equation.reduce is None:
            value, error = evaluate(equation.value, part, memory, part.mask(equation.conditions))
            _store(target, equation, part, value, error)
            continue
        result = accumulator(equation, count, part.shape, bound.share if bound else 0.0)
        _reduce(equation, part, inner, reduced_points, memory, result, bound)
        value, error = result.result()
        if best is not None:
            _store(best, equation, part, *result.best())
            value = _index_at(equation, part, value)
        _store(target, equation, part, value, error)


def _reduce(
    equation: Equation,
    part: Part,
    inner: Mapping[str, int],
    points: int,
    memory: Mapping[str, Memory],
    result: Accumulator,
    bound: SumBound | None,
) -> None:
    left = len(part.names)
    for piece in (p for box in between_ends(equation, part, inner, memory) for p in box.cut(points)):
        whole = part.times(piece)
        mask = whole.mask(equation.conditions)
        value, error = evaluate_whole(equation.value, whole, memory, mask)
        axes = tuple(range(left, left + len(inner)))
        there = None if mask is None else np.broadcast_to(mask, whole.shape)
        result.add(value, error, there, axes, piece.box[0].start)
        if bound:
            assert isinstance(result, TermSum)
            terms = [bound.magnitude(*evaluate(f, whole, memory, mask)) for f in factors_of(equation.value)]
            result.add_magnitudes(np.broadcast_to(prod(terms), whole.shape), there, axes)


def _index_at(equation: Equation, part: Part, place: Array) -> Array:
    """What an arg reduction gives for the places of the best values: of an empty range, at -1, its lower end.

    Of several indices, these are the places themselves.
    """
    assert equation.first is not None
    first = evaluate(equation.first, part, {}, None)[0]
    low = equation.reduced[0].low if len(equation.reduced) == 1 else const(0)
    return np.where(place < 0, first, place + part.lift(part.index(low)))


def _store(target: Memory, equation: Equation, part: Part, value: Array, error: Array) -> None:
    """Put the values of a part's left side into the target, where its own conditions hold."""
    mask = part.mask(conditions_on_left(equation))
    index = np.broadcast_arrays(*(part.lift(part.index(i)) for i in equation.index), np.empty(part.shape, bool))
    place = tuple(index[:-1])
    if mask is not None:
        mask = np.broadcast_to(mask, part.shape)
        place = tuple(i[mask] for i in place)
    for i, extent in zip(place, target.value.shape, strict=True):
        if i.size and (i.min() < 0 or i.max() >= extent):
            raise Undefined(target.name, tuple(int(j.max()) for j in place), "which is outside the tensor")
    value, error = np.broadcast_to(value, part.shape), np.broadcast_to(error, part.shape)
    if target.dtype in FLOATS:
        error = error_with_overflow(value, error, target.dtype)
    else:
        value = wrap(value, target.dtype)
    target.value[place] = value if mask is None else value[mask]
    target.error[place] = error if mask is None else error[mask]
    target.written[place] = True


def _judge(equation: Equation, sizes: Mapping[str, int], memory: Mapping[str, Memory]) -> Callable[[Array], Array]:
    """The function that computes how far the values at indices found by an argmax or argmin are from the best ones."""
    assert equation.best is not None
    target, best = memory[equation.target], memory[equation.best]
    extents = extents_of(equation.loops, sizes)
    low = equation.reduced[0].low if len(equation.reduced) == 1 else const(0)
    reduced = extents_of(equation.reduced, sizes)
    box = tuple(reduced.values())
    start = init_value(str(equation.reduce), best.dtype).value
    frozen = {name: Memory(m.name, m.dtype, m.value, m.error, m.written) for name, m in memory.items()}

    def gap(found: Array) -> Array:
        result = np.zeros(target.value.shape)
        part = Part(tuple(extents), tuple(map(range, extents.values())), sizes)
        place = tuple(np.broadcast_arrays(*(part.lift(part.index(i)) for i in equation.index)))
        taken = np.broadcast_to(np.asarray(found).astype(np.int64)[place], part.shape)
        expected = np.broadcast_to(target.value[place], part.shape)
        place_in = taken - part.index(low)
        right = (place_in >= 0) & (place_in < prod(box))
        if not prod(box):
            return np.where((taken == expected) | ~target.written, 0.0, np.inf)
        loops = np.unravel_index(np.clip(place_in, 0, prod(box) - 1), box)
        at = _Chosen(part.names, part.box, sizes, dict(zip(reduced, loops, strict=True)))
        with np.errstate(all="ignore"):
            mask = at.mask(equation.conditions)
            value, error = evaluate(equation.value, at, frozen, mask)
            sign, slack = 1.0 if equation.reduce == "argmax" else -1.0, error + best.error[place]
            short = sign * best.value[place] - sign * value
            # Where nothing is known of the values, any index will do; nan compares with nothing.
            share = np.where((short <= 0) | (value == best.value[place]) | np.isinf(slack), 0.0, short / slack)
        if mask is not None:
            right &= np.broadcast_to(mask, part.shape)
        # Where all is exact the first of the best values is right alone; where none beats the start, the first index.
        sure = (best.error[place] == 0) & ((target.error[place] == 0) | (best.value[place] == start))
        share = np.where(right & ~np.isnan(share), share, np.inf)
        result[place] = np.where(sure, np.where(taken == expected, 0.0, np.inf), share)
        return np.where(target.written, result, 0.0)

    return gap


@dataclass(frozen=True)
class _Chosen(Part):
    """The box of the left side, with the reduced loops at chosen values for each point."""

    chosen: Mapping[str, Array]

    def index(self, value: Affine) -> Any:
        names: dict[str, Any] = dict(self.sizes)
        names |= {name: self.axis(n) for n, name in enumerate(self.names)}
        return value.evaluate(names | dict(self.chosen))
