"""Which kernels are a convolution of one, two or three dimensions, with channels first or last, in groups or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from tilegen.ir.affine import Affine, const
from tilegen.ir.nodes import Equation, Kernel, Load
from tilegen.lab.forms.product import operands, without_casts


@dataclass(frozen=True)
class Convolution:
    """`y[n, k, ...] = sum[c, ...](x[n, c, ...] * f[k, c, ...])`.

    `stride`, `padding` and `dilation` have one number for each dimension behind the channels. The axes say of each
    tensor which of its dimensions are the batch (or the filters), the channels, and those behind them. Where it is
    `grouped`, x and y have a dimension of groups before the channels, and f one before the filters.
    """

    x: str
    f: str
    y: str
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    operands: str
    x_axes: tuple[int, ...] = ()
    f_axes: tuple[int, ...] = ()
    y_axes: tuple[int, ...] = ()
    grouped: bool = False


def as_convolution(kernel: Kernel) -> Convolution | None:
    """How the kernel is a convolution; None where it is none. A last equation may round the sums."""
    match kernel.equations:
        case (equation,):
            last = equation
        case (equation, last) if last.reduce is None and not last.conditions:
            stored = without_casts(last.value)
            if not isinstance(stored, Load) or (stored.buffer, stored.index) != (equation.target, last.index):
                return None
        case _:
            return None
    factors = operands(equation)
    if factors is None or factors[0][1] != factors[1][1]:
        return None
    read, dtype = [load for load, _ in factors], factors[0][1]
    tensors = [kernel.tensor(name) for name in (last.target, *(load.buffer for load in read))]
    if any(tensor.order != tuple(range(len(tensor.shape))) for tensor in tensors):
        return None
    if kernel.tensor(equation.target).shape != tensors[0].shape:
        return None
    return next(filter(None, (_convolution(equation, last.target, dtype, *pair) for pair in (read, read[::-1]))), None)


def _convolution(equation: Equation, y: str, dtype: str, image: Load, filters: Load) -> Convolution | None:
    if filters.fallback is not None:
        return None
    rank = len(image.index)
    for grouped in (False, True):
        if len(equation.index) != rank or not 3 <= rank - grouped <= 5 or len(filters.index) not in (2 + grouped, rank):
            continue
        for x_axes, f_axes in product(_orders(rank, grouped), _orders_of_filters(len(filters.index), grouped)):
            x, out = ([index[axis] for axis in x_axes] for index in (image.index, equation.index))
            f = [filters.index[axis] for axis in f_axes]
            if numbers := _numbers(equation, image, x, f, out, grouped):
                return Convolution(image.buffer, filters.buffer, y, *numbers, dtype, x_axes, f_axes, x_axes, grouped)
    return None


def _orders(rank: int, grouped: bool) -> Iterator[tuple[int, ...]]:
    """Axes of images with the channels, or groups and channels, first and last."""
    yield tuple(range(rank))
    if grouped:
        yield (0, rank - 2, rank - 1, *range(1, rank - 2))
    elif rank > 2:
        yield (0, rank - 1, *range(1, rank - 1))


def _orders_of_filters(rank: int, grouped: bool) -> Iterator[tuple[int, ...]]:
    """Axes of filters with the channels behind them, then last, then (without groups) before the filters."""
    yield tuple(range(rank))
    if grouped:
        yield (0, 1, rank - 1, *range(2, rank - 1))
        return
    if rank > 2:
        yield (0, rank - 1, *range(1, rank - 1))
    yield (rank - 1, rank - 2, *range(rank - 2))


def _numbers(
    equation: Equation, image: Load, x: list[Affine], f: list[Affine], y: list[Affine], grouped: bool
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """(stride, padding, dilation) with the indices in the order of a library: batch, groups, channels, places."""
    names = [str(i) for i in (*y, *f[2 if grouped else 1 :])]
    if sorted(names) != sorted(r.name for r in (*equation.loops, *equation.reduced)):
        return None
    if grouped:
        if (x[1], f[0]) != (y[1], y[1]):
            return None
        x, f, y = [x[0], *x[2:]], f[1:], [y[0], *y[2:]]
    if (f[0], x[0], x[1]) != (y[1], y[0], f[1]):
        return None
    shifts = f[2:] or [const(0)] * len(x[2:])  # filters of 1 x 1 may have no dimensions for it
    places = [_stride_and_dilation(*each) for each in zip(x[2:], y[2:], shifts, strict=True)]
    padding = tuple(-place.const for place in x[2:])
    # A fallback of 0 is padding; without a fallback there must be none.
    zeros = image.fallback is not None and image.fallback.value == 0
    if not all(places) or min(padding) < 0 or (image.fallback is not None or any(padding)) and not zeros:
        return None
    stride, dilation = zip(*(p for p in places if p), strict=True)
    return stride, padding, dilation


def _stride_and_dilation(x: Affine, y: Affine, r: Affine) -> tuple[int, int] | None:
    """(stride, dilation) where `x` is y * stride + r * dilation and a constant."""
    stride, dilation = x.coefficient(str(y)), x.coefficient(str(r)) if r.terms else 1
    rest = x - y * stride - r * dilation
    return (stride, dilation) if rest.is_const and stride > 0 and dilation > 0 else None
