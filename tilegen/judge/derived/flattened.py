"""Dimensions that lie side by side in storage are one dimension, of as many elements.

Theorem: let tensors have dimensions of extents E1, .., Ek side by side, the last one fastest in storage, and let each
equation that reads or writes these have loops i1, .., ik over 0 <= i < E one after another, for nothing but these
dimensions, in this order. Then (i1, .., ik) -> ((i1*E2 + i2)*E3 + ..)*Ek + ik takes the points of these loops to those
of one loop over E1*..*Ek, each to one of its own, in the same order; and elements to the elements of one dimension, at
the same address. So all instances are there once, terms of a reduction are added in the order that they had, and an
array of a call is read as the kernel as written reads it.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.affine import Affine, product_of, var
from tilegen.ir.nodes import Equation, Kernel, Range, Tensor
from tilegen.ir.parts.derived import Flattened
from tilegen.ir.parts.windows import Digit
from tilegen.ir.reductions.flattened import (
    Place,
    is_plain,
    is_row_major,
    names_in_values,
    reached_by_data,
    splice,
    with_elements,
)
from tilegen.poly.verdict import Refused


def check_flattened(kernel: Kernel, origin: Kernel, made: Flattened) -> None:
    """Refused where `kernel`, with its flat dimensions written out again, is not `origin`."""
    tensors = tuple(_unfold_tensor(t, dict(made.tensors), made.extents) for t in kernel.tensors)
    equations = tuple(_unfold(e, made) for e in kernel.equations)
    if replace(kernel, tensors=tensors, equations=equations, origin=origin.origin, derived=origin.derived) != origin:
        raise Refused(f"kernel '{kernel.name}' has more than dimensions seen as one")
    for name, first in made.tensors:
        if name in reached_by_data(origin):
            raise Refused(f"data tell elements of '{name}', which has dimensions that are seen as one")
        if not is_row_major(origin.tensor(name), first, len(made.extents)):
            raise Refused(f"dimensions of '{name}' that are seen as one do not lie one after another in storage")


def _unfold_tensor(tensor: Tensor, flat: dict[str, int], extents: tuple[Affine, ...]) -> Tensor:
    first = flat.get(tensor.name)
    if first is None:
        return tensor
    if tensor.shape[first] != product_of(extents):
        raise Refused(f"'{tensor.name}' has another extent than the dimensions that are seen as one")
    more = len(extents) - 1
    order = [d + more * (d > first) for d in tensor.order]
    place = order.index(first)
    order[place : place + 1] = range(first, first + more + 1)
    windows = tensor.windows and tensor.windows.parted(first, _counts(tensor.windows.digits[first], extents))
    return replace(tensor, shape=splice(tensor.shape, first, 1, extents), order=tuple(order), windows=windows)


def _counts(digits: tuple[Digit, ...], extents: tuple[Affine, ...]) -> tuple[int, ...]:
    """How many of the digits of a place in windows each of the dimensions has that it is made of."""
    counts, at = list[int](), 0
    for extent in extents:
        ends = range(at + 1, len(digits) + 1)
        end = next((n for n in ends if product_of(e for _, e in digits[at:n]) == extent), at)
        counts, at = [*counts, end - at], end
    if 0 in counts or at < len(digits):
        raise Refused("the dimensions of windows that are seen as one are not those of their definition")
    return tuple(counts)


def _unfold(equation: Equation, made: Flattened) -> Equation:
    found = [(loop, ranges) for target, loop, ranges in made.loops if target == equation.target]
    if not found:
        return equation
    ((loop, ranges),), flat = found, dict(made.tensors)
    names = tuple(var(r.name) for r in ranges)

    def unfold(buffer: str, index: Place) -> Place:
        first = flat.get(buffer)
        return index if first is None or index[first] != var(loop) else splice(index, first, 1, names)

    written = with_elements(equation, unfold)
    if loop in names_in_values(written) or not all(map(is_plain, ranges, made.extents)):
        raise Refused(f"loop '{loop}' of '{equation.target}' is for more than the dimensions that are seen as one")
    whole = product_of(made.extents)

    def unfold_loop(group: tuple[Range, ...]) -> tuple[Range, ...]:
        return tuple(r for old in group for r in (ranges if old.name == loop and is_plain(old, whole) else (old,)))

    return replace(written, loops=unfold_loop(equation.loops), reduced=unfold_loop(equation.reduced))
