"""What a kernel is measured against on a GPU: cuBLAS for a matrix product, cuDNN for a convolution, a copy for one
that only moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tilegen.backends.engine import Engine
from tilegen.ir.affine import Affine
from tilegen.ir.nodes import Cast, Equation, Expr, Kernel, Load, Op
from tilegen.lab.convolution import as_convolution, cudnn, cudnn_difference
from tilegen.lab.metric import is_compute_bound, moved_bytes

_COPY = """\
extern "C" __global__ void copy(const float4* __restrict__ from, float4* __restrict__ to, long long count)
{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < count) to[i] = from[i];
}
"""


@dataclass(frozen=True)
class MatrixProduct:
    """`c[...] = sum[k](a[...] * b[...])`: for each operand, which of its dimensions is batch, row and column."""

    a: str
    b: str
    c: str
    a_axes: tuple[int, ...]
    b_axes: tuple[int, ...]
    c_axes: tuple[int, ...]


def rival(
    kernel: Kernel, engine: Engine, sizes: Mapping[str, int], arrays: Mapping[str, Any]
) -> tuple[str, Callable[[], None]] | None:
    """(name, call) of what the kernel's time is compared with, on the same arrays; None where nothing fits."""
    if not engine.on_gpu:
        return None
    product = as_product(kernel)
    if product is not None:
        return "cuBLAS", _matmul_call(engine.xp, product, arrays)
    convolution = as_convolution(kernel)
    library = cudnn(convolution, arrays) if convolution else None
    if library is not None:
        return "cuDNN", library
    if not is_compute_bound(kernel, sizes):
        return "copy", _copy_call(engine.xp, moved_bytes(kernel, sizes))
    return None


def relative_difference(
    kernel: Kernel, engine: Engine, sizes: Mapping[str, int], arrays: Mapping[str, Any]
) -> float | None:
    """How far a product's or a convolution's result is from the library's, as a share of what rounding can explain.

    Both are within gamma_K (|A| |B|) of the exact product. None for other kernels, and without a GPU.
    """
    convolution = as_convolution(kernel) if engine.on_gpu else None
    if convolution is not None:
        return cudnn_difference(convolution, arrays)
    product = as_product(kernel) if engine.on_gpu else None
    if product is None:
        return None
    xp = engine.xp
    a, b = arrays[product.a].transpose(product.a_axes), arrays[product.b].transpose(product.b_axes)
    c = arrays[product.c].transpose(product.c_axes)
    allowed = 2 * a.shape[-1] * float(xp.finfo(c.dtype).eps) * xp.matmul(abs(a), abs(b))
    return float((abs(c - xp.matmul(a, b)) / (allowed + float(xp.finfo(c.dtype).tiny))).max())


def as_product(kernel: Kernel) -> MatrixProduct | None:
    """How the kernel is one matrix product, batched or not; None where it is anything else."""
    if len(kernel.equations) != 1:
        return None
    equation = kernel.equations[0]
    names = _factors(equation)
    if names is None or equation.conditions or len({kernel.tensor(n.buffer).dtype for n in names}) != 1:
        return None
    if kernel.tensor(equation.target).dtype != kernel.tensor(names[0].buffer).dtype:
        return None
    if kernel.tensor(equation.target).dtype not in ("f64", "f32", "f16"):
        return None
    a, b, c = (_loop_names(index) for index in (names[0].index, names[1].index, equation.index))
    if a is None or b is None or c is None:
        return None
    k = equation.reduced[0].name
    batch = [w for w in c if w in a and w in b]
    rows, columns = [w for w in c if w in a and w not in b], [w for w in c if w in b and w not in a]
    if len(rows) != 1 or len(columns) != 1 or sorted(a) != sorted([*batch, *rows, k]):
        return None
    if sorted(b) != sorted([*batch, *columns, k]) or sorted(c) != sorted([*batch, *rows, *columns]):
        return None

    def axes(words: list[str], wanted: list[str]) -> tuple[int, ...]:
        return tuple(words.index(w) for w in wanted)

    return MatrixProduct(
        names[0].buffer,
        names[1].buffer,
        equation.target,
        axes(a, [*batch, *rows, k]),
        axes(b, [*batch, k, *columns]),
        axes(c, [*batch, *rows, *columns]),
    )


def _factors(equation: Equation) -> tuple[Load, Load] | None:
    value = _without_casts(equation.value)
    if equation.reduce != "sum" or len(equation.reduced) != 1:
        return None
    if not isinstance(value, Op) or value.name != "*":
        return None
    left, right = (_without_casts(arg) for arg in value.args)
    if not isinstance(left, Load) or not isinstance(right, Load) or left.fallback or right.fallback:
        return None
    return left, right


def _without_casts(expr: Expr) -> Expr:
    return _without_casts(expr.arg) if isinstance(expr, Cast) else expr


def _loop_names(index: tuple[Affine, ...]) -> list[str] | None:
    """The loop names of an index that is nothing but different loop names."""
    words = [str(i) for i in index if len(i.terms) == 1 and i.const == 0 and str(i).replace(".", "").isidentifier()]
    return words if len(words) == len(index) == len(set(words)) else None


def _matmul_call(xp: Any, product: MatrixProduct, arrays: Mapping[str, Any]) -> Callable[[], None]:
    a = arrays[product.a].transpose(product.a_axes)
    b = arrays[product.b].transpose(product.b_axes)
    c = arrays[product.c].transpose(product.c_axes)

    def call() -> None:
        xp.matmul(a, b, out=c)

    return call


def _copy_call(xp: Any, moved: int) -> Callable[[], None]:
    """Half of the bytes read, half of them written."""
    count = max(1, moved // 2 // 16)
    source, target = xp.zeros(count * 4, dtype="float32"), xp.empty(count * 4, dtype="float32")
    kernel = xp.RawKernel(_COPY, "copy")

    def call() -> None:
        kernel(((count + 255) // 256,), (256,), (source, target, xp.int64(count)))

    return call
