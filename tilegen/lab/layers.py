"""Which kernels are a layer that a library has in several calls: what they are, and how far a result is from it.

A layer is a kernel's text, in f32, and what torch has for it. A kernel is that layer if it has the same equations,
however it names its tensors, stores them and writes its functions. torch's texts have the tensors' names of the layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.ir.nodes import BYTE_FLOATS, FLOATS, Kernel
from tilegen.lab.patterns import Bound, find_pattern
from tilegen.lab.products import SUMS, as_numbers, epsilon, operands

_MOST_SCORES = 2**25  # computed at a time

# What a result is to be, at each element: (what it is, what it is to be, the same of the magnitudes of all terms).
Expected = Iterator[tuple[Any, Any, Any]]


@dataclass(frozen=True)
class Way:
    """A way to compute a layer by torch.

    Attributes:
        text: the expression. {result} stands for torch's type of the result, {wide} for the option that leaves the sums
            of a product of 16-bit factors in f32.
        note: in what it does something else than the kernel.
        compiled: whether torch.compile has something to fuse in it.
        rounds: its sums are rounded to the type of the factors before they are used.
    """

    text: str
    note: str = ""
    compiled: bool = True
    rounds: bool = False


@dataclass(frozen=True)
class Form:
    """A layer as a kernel in f32; the types of factors for which there are `ways`; and what its results are to be."""

    kernel: str
    factors: tuple[str, ...]
    ways: tuple[Way, ...]
    expected: Callable[[Any, Mapping[str, Any], Mapping[str, Any]], Expected]


@dataclass(frozen=True)
class Layer:
    """A kernel that is a form: its tensors by the form's names, the types of factors, sums and the first result."""

    form: Form
    tensors: Bound
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operands: str
    sums: str
    result: str


def as_layer(kernel: Kernel) -> Layer | None:
    """How the kernel is a layer of FORMS; None where it is anything else."""
    types = _types_of_products(kernel)
    if types is None:
        return None
    for form in FORMS:
        if types[0] in form.factors and (bound := find_pattern(_kernel_of(form), kernel)):
            names = [[t.name for t in _kernel_of(form).tensors if t.role == role] for role in ("input", "output")]
            result = kernel.tensor(bound[names[1][0]].name).dtype
            return Layer(form, bound, tuple(names[0]), tuple(names[1]), *types, result)
    return None


@cache
def _kernel_of(form: Form) -> Kernel:
    (found,) = parse(Source("layer.tg", form.kernel)).kernels.values()
    return build(found)


def _types_of_products(kernel: Kernel) -> tuple[str, str] | None:
    """The types of the factors and the sums of all products of two tensors; None if there are several, or none."""
    found = set()
    for equation in kernel.equations:
        factors = operands(equation)
        if factors and factors[0][0].buffer != factors[1][0].buffer:
            found |= {(dtype, kernel.tensor(equation.target).dtype) for _, dtype in factors}
    (types, *others) = found or {("", "")}
    return types if not others and types[1] in SUMS.get(types[0], ()) else None


def layer_difference(
    found: Layer,
    xp: Any,
    arrays: Mapping[str, Any],
    results: Mapping[str, Any],
    kernel: Kernel,
    sizes: Mapping[str, int],
    *,
    rounded: bool = False,
) -> float:
    """How far results are from the layer in f32 or f64, as a share of what rounding can explain.

    Args:
        arrays: those of the kernel, by its names.
        results: by the names of the kernel, with the dimensions of the form.
        rounded: sums may have been rounded to the type of the factors.
    """
    dtypes = {word: kernel.tensor(each.name).dtype for word, each in found.tensors.items()}
    views = {word: arrays[found.tensors[word].name].transpose(found.tensors[word].axes) for word in found.inputs}
    given = {word: as_numbers(xp, views[word], dtypes[word]) for word in found.inputs}
    got = {word: as_numbers(xp, results[found.tensors[word].name], dtypes[word]) for word in found.outputs}
    sums = [equation for equation in kernel.equations if equation.reduce == "sum"]
    count = sum(r.extent.evaluate(sizes) for equation in sums for r in equation.reduced)
    # As for a product: each factor may be rounded to tf32, and tensor cores keep 13 fraction bits of products of bytes.
    terms = 2 * epsilon("tf32") if found.operands == "tf32" else 2 * 2.0**-13 if found.operands in BYTE_FLOATS else 0.0
    terms += 2 * count * epsilon(found.sums if found.sums in FLOATS else "f32")
    terms += 4 * epsilon(found.operands) if rounded else 0.0
    shares = []
    for word, (result, wanted, size) in zip(found.outputs, found.form.expected(xp, given, got), strict=True):
        last = epsilon(dtypes[word] if dtypes[word] in FLOATS else "f32")
        shares += [float((abs(result - wanted) / (3 * terms * size + 4 * last * abs(wanted) + 1e-30)).max())]
    return max(shares)


# -- the layers


def _expect_gate(xp: Any, given: Mapping[str, Any], got: Mapping[str, Any]) -> Expected:
    a, g, u = given["A"], given["G"], given["U"]
    p = xp.matmul(a, g)
    size = xp.matmul(abs(a), abs(g)) * xp.matmul(abs(a), abs(u))
    yield got["C"], p * (1 + xp.tanh(p / 2)) / 2 * xp.matmul(a, u), size


def _expect_scaled(xp: Any, given: Mapping[str, Any], got: Mapping[str, Any]) -> Expected:
    a, b, scales = given["A"], given["B"], given["row"][:, None] * given["column"]
    yield got["C"], xp.matmul(a, b) * scales, xp.matmul(abs(a), abs(b)) * abs(scales)


def _expect_sums(xp: Any, given: Mapping[str, Any], got: Mapping[str, Any]) -> Expected:
    p, size = xp.matmul(given["A"], given["B"]), xp.matmul(abs(given["A"]), abs(given["B"]))
    yield got["C"], p, size
    yield got["total"], p.sum(axis=1), size.sum(axis=1)
    yield got["squares"], (p * p).sum(axis=1), (size * size).sum(axis=1)


def _expect_nearest(xp: Any, given: Mapping[str, Any], got: Mapping[str, Any]) -> Expected:
    """Of the point that was found it is asked how near it is: rounding decides among those that are as near."""
    b, rows = given["B"], max(1, _MOST_SCORES // len(given["B"]))
    norm, parts = (b * b).sum(axis=1), []
    for start in range(0, len(given["A"]), rows):
        a, places = given["A"][start : start + rows], got["nearest"][start : start + rows].astype("int64")
        scores, size = norm - 2 * xp.matmul(a, b.T), norm + 2 * xp.matmul(abs(a), abs(b).T)
        found = xp.take_along_axis(scores, places.clip(0, len(b) - 1)[:, None], axis=1)[:, 0]
        inside = xp.where((places >= 0) & (places < len(b)), 0.0, xp.inf)
        parts += [(found + inside, scores.min(axis=1), size.max(axis=1))]
    result, wanted, sizes = (xp.concatenate(each) for each in zip(*parts, strict=True))
    yield result, wanted, sizes


_SCALED = """\
kernel scaled(A: f32[M, K], B: f32[K, N], row: f32[M], column: f32[N]) -> C: f32[M, N]:
    var P: f32[M, N]
    P[i, j] = sum[k](A[i, k] * B[k, j])
    C[i, j] = P[i, j] * row[i] * column[j]
"""
_SCALED_BYTES = "torch._scaled_mm(A, B, row[:, None], column[None], out_dtype=torch.{result}"
FORMS = (
    Form(
        """\
def silu(x) = x / (1 + exp(-x))
kernel gate(A: f32[M, K], G: f32[K, N], U: f32[K, N]) -> C: f32[M, N]:
    var P: f32[M, N], Q: f32[M, N]
    P[i, j] = sum[k](A[i, k] * G[k, j])
    Q[i, j] = sum[k](A[i, k] * U[k, j])
    C[i, j] = silu(P[i, j]) * Q[i, j]
""",
        ("f32", "tf32", "bf16", "f16"),
        (Way("(torch.nn.functional.silu(A @ G) * (A @ U)).to(torch.{result})", rounds=True),),
        _expect_gate,
    ),
    Form(
        _SCALED,
        ("i8",),
        (Way("(torch._int_mm(A, B) * row[:, None] * column).to(torch.{result})"),),
        _expect_scaled,
    ),
    Form(
        _SCALED,
        ("e4m3",),
        (
            Way(f"{_SCALED_BYTES})", compiled=False),
            Way(f"{_SCALED_BYTES}, use_fast_accum=True)", "no sums of parts", compiled=False),
        ),
        _expect_scaled,
    ),
    Form(
        """\
kernel sums(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N], total: f32[M], squares: f32[M]:
    var P: f32[M, N]
    P[i, j] = sum[k](A[i, k] * B[k, j])
    C[i, j] = P[i, j]
    total[i] = sum[j](P[i, j])
    squares[i] = sum[j](P[i, j]**2)
""",
        ("f32", "tf32", "bf16", "f16"),
        (
            Way("(lambda P: (P.to(torch.{result}), P.sum(1), P.square().sum(1)))(torch.mm(A, B{wide}))"),
            Way("(lambda P: (P.to(torch.{result}), P.float().sum(1), P.float().square().sum(1)))(A @ B)", rounds=True),
        ),
        _expect_sums,
    ),
    Form(
        """\
kernel nearest(A: f32[N, D], B: f32[M, D]) -> nearest: i32[N]:
    var norm: f32[M], dot: f32[N, M]
    norm[j] = sum[d](B[j, d]**2)
    dot[i, j] = sum[d](A[i, d] * B[j, d])
    nearest[i] = argmin[j](norm[j] - 2 * dot[i, j])
""",
        ("f32", "tf32", "bf16", "f16"),
        (
            Way("(B.float().square().sum(1) - 2 * torch.mm(A, B.T{wide})).argmin(1)"),
            Way("torch.addmm(B.square().sum(1), A, B.T, alpha=-2).argmin(1)", rounds=True),
        ),
        _expect_nearest,
    ),
)  # fmt: skip
