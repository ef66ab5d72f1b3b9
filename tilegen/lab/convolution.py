"""Which kernels are a convolution of the libraries, and how far a result is from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from tilegen.ir.affine import Affine, const
from tilegen.ir.nodes import BYTE_FLOATS, FLOATS, Equation, Kernel, Load, Tensor
from tilegen.lab.products import epsilon, operands, without_casts
from tilegen.lab.stored_factors import with_given_factors


@dataclass(frozen=True)
class Convolution:
    """`y[n, k, ...] = sum[c, ...](x[n, c, ...] * f[k, c, ...])`: one number for each dimension behind the channels.

    `operands` is the type of x and f, `result` that of y. The axes say of each tensor which of its dimensions are the
    batch (or the filters), the channels, and those behind them.
    """

    x: str
    f: str
    y: str
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    operands: str = "f32"
    result: str = "f32"
    x_axes: tuple[int, ...] = ()
    f_axes: tuple[int, ...] = ()
    y_axes: tuple[int, ...] = ()


def as_convolution(kernel: Kernel) -> Convolution | None:
    """How the kernel is a convolution of one, two or three dimensions, channels first or last; None where it is none.

    First equations may store image and filters in another form, with zeros beyond; a last one may round the sums.
    """
    match with_given_factors(kernel):
        case (equation,):
            result = equation.target
        case (equation, last) if _is_rounded(last, equation.target):
            result = last.target
        case _:
            return None
    factors = operands(equation)
    if factors is None or factors[0][1] != factors[1][1] or factors[0][1] not in FLOATS or factors[0][1] in BYTE_FLOATS:
        return None
    loads = [load for load, _ in factors]
    tensors = [kernel.tensor(name) for name in (result, *(load.buffer for load in loads))]
    if tensors[0].dtype not in FLOATS or not all(map(_is_row_major, tensors)):
        return None
    if kernel.tensor(equation.target).shape != tensors[0].shape:
        return None
    found = [_match_convolution(equation, *pair) for pair in (loads, loads[::-1])]
    one = next((each for each in found if each), None)
    if one is None or not _has_all_places(kernel, replace(one, y=result)):
        return None
    return replace(one, y=result, operands=factors[0][1], result=tensors[0].dtype)


def _has_all_places(kernel: Kernel, found: Convolution) -> bool:
    """True if the result has as many places as a library gives it, at some sizes."""
    x, f, y = (kernel.tensor(name).shape for name in (found.x, found.f, found.y))
    steps = zip(found.stride, found.padding, found.dilation, strict=True)
    for number, (stride, padding, dilation) in enumerate(steps, start=2):
        filters = f[found.f_axes[number]] if number < len(f) else const(1)
        room = x[found.x_axes[number]] + 2 * padding - (filters - 1) * dilation - 1
        for size in (40, 41, 47):
            values = dict.fromkeys(kernel.sizes, size)
            if room.evaluate(values) // stride + 1 != y[found.y_axes[number]].evaluate(values):
                return False
    return True


def _is_rounded(last: Equation, sums: str) -> bool:
    """True if `last` takes over the elements of `sums`, whatever their type."""
    value = without_casts(last.value)
    same = isinstance(value, Load) and (value.buffer, value.index, value.fallback) == (sums, last.index, None)
    return same and last.reduce is None and not last.conditions


def _is_row_major(tensor: Tensor) -> bool:
    return tensor.order == tuple(range(len(tensor.shape)))


def _match_convolution(equation: Equation, image: Load, filters: Load) -> Convolution | None:
    if not 3 <= len(equation.index) == len(image.index) <= 5:
        return None
    if filters.fallback is not None and filters.fallback.value != 0:
        return None
    if len(filters.index) not in (2, len(image.index)):
        return None
    for x_axes, f_axes in product(_orders(len(image.index)), _orders(len(filters.index), filters=True)):
        x, y = ([index[axis] for axis in x_axes] for index in (image.index, equation.index))
        found = _match_places(equation, image, filters, x, [filters.index[axis] for axis in f_axes], y)
        if found:
            return replace(found, x_axes=x_axes, f_axes=f_axes, y_axes=x_axes)
    return None


def _orders(rank: int, filters: bool = False) -> Iterator[tuple[int, ...]]:
    """Axes for channels first and channels last, of filters also with the filters behind the channels."""
    yield tuple(range(rank))
    if rank > 2:
        yield (0, rank - 1, *range(1, rank - 1))
    if filters:
        yield (rank - 1, rank - 2, *range(rank - 2))


def _match_places(
    equation: Equation, image: Load, filters: Load, x: list[Affine], f: list[Affine], y: list[Affine]
) -> Convolution | None:
    """The convolution with the indices in the order of the library's: batch, channels, places."""
    names = [str(i) for i in (*y, *f[1:])]
    loops = [r.name for r in (*equation.loops, *equation.reduced)]
    if sorted(names) != sorted(loops) or (f[0], x[0], x[1]) != (y[1], y[0], f[1]):
        return None
    # Filters of 1 x 1 may have no dimensions for it.
    shifts = f[2:] or [const(0)] * len(x[2:])
    places = [_stride_and_dilation(*each) for each in zip(x[2:], y[2:], shifts, strict=True)]
    padding = tuple(-place.const for place in x[2:])
    if not all(places) or min(padding) < 0:
        return None
    # A fallback of 0 is padding; without a fallback there must be none.
    if image.fallback is None and any(padding) or image.fallback is not None and image.fallback.value != 0:
        return None
    stride, dilation = zip(*(p for p in places if p), strict=True)
    return Convolution(image.buffer, filters.buffer, equation.target, stride, padding, dilation)


def _stride_and_dilation(x: Affine, y: Affine, r: Affine) -> tuple[int, int] | None:
    """(stride, dilation) where `x` is y * stride + r * dilation and a constant."""
    stride, dilation = x.coefficient(str(y)), x.coefficient(str(r)) if r.terms else 1
    rest = x - y * stride - r * dilation
    return (stride, dilation) if rest.is_const and stride > 0 and dilation > 0 else None


def as_library_has_them(found: Convolution, x: Any, f: Any) -> tuple[Any, Any]:
    """The image and the filters, tensors of torch, as views with the channels as dimension 1."""
    x, f = x.permute(found.x_axes), f.permute(found.f_axes)
    return x, f.reshape(*f.shape, *(1,) * (x.ndim - f.ndim))


def convolution_difference(
    found: Convolution, torch: Any, inputs: Mapping[str, Any], result: Any, *, rounded: bool = False
) -> float:
    """The largest difference of a result from the convolution in f32 or f64, as a share of what rounding can explain.

    Args:
        inputs: the image and the filters by name; they and `result` are tensors of `torch`.
        result: batch, channels, places, in this order.
        rounded: the result may have been rounded to the type of the factors.
    """
    exact = torch.float64 if found.operands == "f64" else torch.float32
    x, f = as_library_has_them(found, *(inputs[name].to(exact) for name in (found.x, found.f)))
    apply = getattr(torch.nn.functional, f"conv{x.ndim - 2}d")
    given = {"stride": found.stride, "padding": found.padding, "dilation": found.dilation}
    before, torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.allow_tf32, False
    try:
        wanted, size = apply(x, f, **given), apply(x.abs(), f.abs(), **given)
    finally:
        torch.backends.cudnn.allow_tf32 = before
    sums = epsilon("f64" if found.operands == "f64" else "f32")
    allowed = 2 * (f.numel() // f.shape[0]) * sums * size
    allowed += 4 * epsilon(found.operands if rounded else found.result) * wanted.abs() + 1e-30
    return float(((result.to(exact) - wanted).abs() / allowed).max())
