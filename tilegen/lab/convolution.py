"""Which kernels are a convolution of the libraries, with bias and activation, and how far a result is from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from tilegen.ir.affine import Affine, const
from tilegen.ir.nodes import BYTE_FLOATS, FLOATS, Equation, Kernel, Load, Tensor
from tilegen.ir.walk import loads
from tilegen.lab.products import ACTIVATIONS, SLOPE, epsilon, has_values, operands
from tilegen.lab.stored_factors import with_given_factors


@dataclass(frozen=True)
class Convolution:
    """`y[n, k, ...] = activation(sum[c, ...](x[n, c, ...] * f[k, c, ...]) + bias[k])`.

    `stride`, `padding` and `dilation` have one number for each dimension behind the channels. `operands` is the type of
    x and f, `result` that of y. The axes say of each tensor which of its dimensions are the batch (or the filters), the
    channels, and those behind them. Where it is `grouped`, x and y have a dimension of groups ahead of the channels,
    and f one ahead of the filters. `bias` is a tensor's name or "", `activation` a key of ACTIVATIONS.
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
    grouped: bool = False
    bias: str = ""
    activation: str = ""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that it reads."""
        return (self.x, self.f, *([self.bias] if self.bias else []))


def as_convolution(kernel: Kernel) -> Convolution | None:
    """How the kernel is a convolution of one, two or three dimensions, channels first or last; None where it is none.

    First equations may store image and filters in another form, with zeros beyond; a last one may add a bias to the
    sums, apply an activation and round.
    """
    match with_given_factors(kernel):
        case (equation,):
            last = equation
        case (equation, last) if last.reduce is None and not last.conditions:
            pass
        case _:
            return None
    result = last.target
    factors = operands(equation)
    if factors is None or factors[0][1] != factors[1][1] or factors[0][1] not in FLOATS or factors[0][1] in BYTE_FLOATS:
        return None
    read = [load for load, _ in factors]
    tensors = [kernel.tensor(name) for name in (result, *(load.buffer for load in read))]
    if tensors[0].dtype not in FLOATS or not all(map(_is_row_major, tensors)):
        return None
    if kernel.tensor(equation.target).shape != tensors[0].shape:
        return None
    one = next(filter(None, (_match_convolution(equation, *pair) for pair in (read, read[::-1]))), None)
    if one is None or not _has_all_places(kernel, replace(one, y=result)):
        return None
    found = replace(one, y=result, operands=factors[0][1], result=tensors[0].dtype)
    return found if last is equation else _with_epilogue(found, last, equation.target, kernel)


def _has_all_places(kernel: Kernel, found: Convolution) -> bool:
    """True if the result has as many places as a library gives it, at some sizes."""
    x, f, y = (kernel.tensor(name).shape for name in (found.x, found.f, found.y))
    steps = zip(found.stride, found.padding, found.dilation, strict=True)
    for number, (stride, padding, dilation) in enumerate(steps, start=3 if found.grouped else 2):
        filters = f[found.f_axes[number]] if number < len(f) else const(1)
        room = x[found.x_axes[number]] + 2 * padding - (filters - 1) * dilation - 1
        for size in (40, 41, 47):
            values = dict.fromkeys(kernel.sizes, size)
            if room.evaluate(values) // stride + 1 != y[found.y_axes[number]].evaluate(values):
                return False
    return True


def _with_epilogue(found: Convolution, last: Equation, sums: str, kernel: Kernel) -> Convolution | None:
    """`found` with the bias that `last` adds to the sums and what it applies to them; None if no library has that."""
    read = {(load.buffer, load.index) for load in loads(last.value)}
    filters = tuple(last.index[axis] for axis in found.y_axes[1 : 3 if found.grouped else 2])
    added = [(name, index) for name, index in read if (name, index) != (sums, last.index)]
    if len(read) == len(added) or any(load.fallback for load in loads(last.value)):
        return None
    shape = tuple(kernel.tensor(found.y).shape[axis] for axis in found.y_axes[1 : 1 + len(filters)])
    vectors = [kernel.tensor(name) for name, index in added if index == filters]
    if len(vectors) < len(added) or any(each.shape != shape or not _is_row_major(each) for each in vectors):
        return None
    if len(added) > 1:
        return None
    bias = vectors[0].name if vectors else ""
    fitting = (word for word in ACTIVATIONS if has_values(last.value, (sums, bias or None, None), word, inside=False))
    activation = next(fitting, None)
    return None if activation is None else replace(found, bias=bias, activation=activation)


def _is_row_major(tensor: Tensor) -> bool:
    return tensor.order == tuple(range(len(tensor.shape)))


def _match_convolution(equation: Equation, image: Load, filters: Load) -> Convolution | None:
    if filters.fallback is not None and filters.fallback.value != 0:
        return None
    for grouped in (False, True):
        rank = len(image.index)
        if len(equation.index) != rank or not 3 <= rank - grouped <= 5 or len(filters.index) not in (2 + grouped, rank):
            continue
        orders = _orders(rank, grouped), _orders_of_filters(len(filters.index), grouped)
        for x_axes, f_axes in product(*orders):
            x, y = ([index[axis] for axis in x_axes] for index in (image.index, equation.index))
            f = [filters.index[axis] for axis in f_axes]
            if found := _match_places(equation, image, filters, (x, f, y), grouped):
                return replace(found, x_axes=x_axes, f_axes=f_axes, y_axes=x_axes, grouped=grouped)
    return None


def _orders(rank: int, grouped: bool) -> Iterator[tuple[int, ...]]:
    """Axes of images with the channels, or groups and channels, first and last."""
    yield tuple(range(rank))
    if grouped:
        yield (0, rank - 2, rank - 1, *range(1, rank - 2))
    elif rank > 2:
        yield (0, rank - 1, *range(1, rank - 1))


def _orders_of_filters(rank: int, grouped: bool) -> Iterator[tuple[int, ...]]:
    """Axes of filters with the channels behind them, then last, then (without groups) ahead of the filters."""
    yield tuple(range(rank))
    if grouped:
        yield (0, 1, rank - 1, *range(2, rank - 1))
        return
    if rank > 2:
        yield (0, rank - 1, *range(1, rank - 1))
    yield (rank - 1, rank - 2, *range(rank - 2))


def _match_places(
    equation: Equation,
    image: Load,
    filters: Load,
    indices: tuple[list[Affine], list[Affine], list[Affine]],
    grouped: bool,
) -> Convolution | None:
    """The convolution with the indices in the order of the library's: batch, groups, channels, places."""
    x, f, y = indices
    names = [str(i) for i in (*y, *f[2 if grouped else 1 :])]
    loops = [r.name for r in (*equation.loops, *equation.reduced)]
    if sorted(names) != sorted(loops):
        return None
    if grouped:
        if (x[1], f[0]) != (y[1], y[1]):
            return None
        x, f, y = [x[0], *x[2:]], f[1:], [y[0], *y[2:]]
    if (f[0], x[0], x[1]) != (y[1], y[0], f[1]):
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
    """The image and the filters, tensors of torch, with the channels of all groups as dimension 1."""
    x, f = x.permute(found.x_axes), f.permute(found.f_axes)
    if found.grouped:
        x, f = x.flatten(1, 2), f.flatten(0, 1)
    return x, f.reshape(*f.shape, *(1,) * (x.ndim - f.ndim))


def convolution_difference(
    found: Convolution, torch: Any, inputs: Mapping[str, Any], result: Any, *, rounded: bool = False
) -> float:
    """The largest difference of a result from the convolution in f32 or f64, as a share of what rounding can explain.

    Args:
        inputs: the image, the filters and the bias by name; they and `result` are tensors of `torch`.
        result: batch, channels, places, in this order.
        rounded: the result may have been rounded to the type of the factors.
    """
    exact = torch.float64 if found.operands == "f64" else torch.float32
    x, f = as_library_has_them(found, *(inputs[name].to(exact) for name in (found.x, found.f)))
    bias = inputs[found.bias].to(exact).flatten().reshape(-1, *(1,) * (x.ndim - 2)) if found.bias else 0
    apply = getattr(torch.nn.functional, f"conv{x.ndim - 2}d")
    groups = x.shape[1] // f.shape[1]
    given = {"stride": found.stride, "padding": found.padding, "dilation": found.dilation, "groups": groups}
    before, torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.allow_tf32, False
    try:
        sums, size = apply(x, f, **given), apply(x.abs(), f.abs(), **given)
    finally:
        torch.backends.cudnn.allow_tf32 = before
    wanted = ACTIVATIONS[found.activation](torch, sums + bias)
    allowed = 2 * (f.numel() // f.shape[0]) * epsilon("f64" if found.operands == "f64" else "f32") * size * SLOPE
    allowed += 4 * epsilon(found.operands if rounded else found.result) * (sums.abs() + abs(bias)) + 1e-30
    return float(((result.to(exact).reshape(wanted.shape) - wanted).abs() / allowed).max())
