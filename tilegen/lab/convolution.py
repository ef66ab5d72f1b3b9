"""Recognises kernels that are a convolution of the libraries, and calls cuDNN for them, through torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tilegen.ir.affine import Affine, const
from tilegen.ir.nodes import Equation, Kernel, Load, Op, Tensor


@dataclass(frozen=True)
class Convolution:
    """`y[n, k, ...] = sum[c, ...](x[n, c, ...] * f[k, c, ...])`: one number for each dimension behind the channels."""

    x: str
    f: str
    y: str
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]


def as_convolution(kernel: Kernel) -> Convolution | None:
    """How the kernel is a convolution of one, two or three dimensions, channels first; None where it is none."""
    if len(kernel.equations) != 1:
        return None
    equation = kernel.equations[0]
    loads = _factors(equation)
    tensors = [kernel.tensor(name) for name in (equation.target, *(load.buffer for load in loads))]
    if len(loads) != 2 or equation.conditions or len({t.dtype for t in tensors}) != 1:
        return None
    if tensors[0].dtype not in ("f64", "f32", "f16") or not all(map(_is_row_major, tensors)):
        return None
    found = [_match_convolution(equation, *pair) for pair in (loads, loads[::-1])]
    return next((each for each in found if each), None)


def _factors(equation: Equation) -> list[Load]:
    match equation.reduce, equation.value:
        case "sum", Op("*", (Load() as left, Load() as right)):
            return [left, right]
        case _:
            return []


def _is_row_major(tensor: Tensor) -> bool:
    return tensor.order == tuple(range(len(tensor.shape)))


def _match_convolution(equation: Equation, image: Load, filters: Load) -> Convolution | None:
    y, f, x = equation.index, filters.index, image.index
    if not 3 <= len(y) == len(x) <= 5 or len(f) not in (2, len(x)) or filters.fallback:
        return None
    names = [str(i) for i in (*y, *f[1:])]
    loops = [r.name for r in (*equation.loops, *equation.reduced)]
    if sorted(names) != sorted(loops) or (f[0], x[0], x[1]) != (y[1], y[0], f[1]):
        return None
    # Filters of 1 x 1 may have no dimensions for it.
    shifts = f[2:] or (const(0),) * len(x[2:])
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


# -- cuDNN


def cudnn(found: Convolution, arrays: Mapping[str, Any]) -> Callable[[], Any] | None:
    """A function that calls the library on the same arrays; None without torch and a GPU."""
    if find_spec("torch") is None:
        return None
    torch: Any = import_module("torch")
    if not torch.cuda.is_available():
        return None
    # As exact as the kernel, and the fastest of the library's algorithms.
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    x, f = (torch.as_tensor(arrays[name], device="cuda") for name in (found.x, found.f))
    f = f.reshape(*f.shape, *(1,) * (x.ndim - f.ndim))
    word = {1: "conv1d", 2: "conv2d", 3: "conv3d"}[len(found.stride)]
    apply = getattr(torch.nn.functional, word)
    kept = {"stride": found.stride, "padding": found.padding, "dilation": found.dilation}

    def call() -> Any:
        return apply(x, f, **kept)

    return call if tuple(call().shape) == tuple(arrays[found.y].shape) else None


def cudnn_difference(found: Convolution, arrays: Mapping[str, Any]) -> float | None:
    """The largest difference from cuDNN's result, as a share of the rounding errors that both may have."""
    call = cudnn(found, arrays)
    sizes = cudnn(found, {**arrays, found.x: abs(arrays[found.x]), found.f: abs(arrays[found.f])})
    if call is None or sizes is None:
        return None
    torch: Any = import_module("torch")
    y = torch.as_tensor(arrays[found.y], device="cuda")
    terms = arrays[found.f].size // arrays[found.f].shape[0]
    allowed = 2 * terms * torch.finfo(y.dtype).eps * sizes() + torch.finfo(y.dtype).tiny
    return float(((y - call()).abs() / allowed).max())
