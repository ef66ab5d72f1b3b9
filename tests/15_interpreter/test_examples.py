"""Every example kernel: the interpreter and the reference against numpy written by hand, on small odd sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.interpreter import NUMPY, bf16_to_float32, float_to_bf16, reference, run
from tilegen.ir.nodes import FLOATS, Kernel, tree_of

EXAMPLES = Path(__file__).parents[2] / "examples"
Inputs = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A kernel, sizes for it, and a function from inputs (as float64 or int64) to the outputs by name."""

    file: str
    kernel: str
    sizes: dict[str, int]
    expected: Callable[[Inputs], dict[str, Any]]
    attributes: dict[str, int] = field(default_factory=dict)
    positive: bool = False
    tolerance: float = 2e-6

    def __str__(self) -> str:
        return f"{self.kernel}{self.attributes or ''}"


def padded(x: Any, pad: int, axes: tuple[int, ...]) -> Any:
    return np.pad(x, [(pad, pad) if a in axes else (0, 0) for a in range(x.ndim)])


def conv(x: Any, f: Any, stride: int = 1, dilation: int = 1, pad: int = 0) -> Any:
    """x[n, c, ...], f[k, c, ...] of any number of dimensions, tap by tap."""
    spatial = x.ndim - 2
    x = padded(x, pad, tuple(range(2, x.ndim)))
    out = [(x.shape[2 + d] - dilation * (f.shape[2 + d] - 1) - 1) // stride + 1 for d in range(spatial)]
    y = np.zeros((x.shape[0], f.shape[0], *out))
    for tap in np.ndindex(*f.shape[2:]):
        window = [
            slice(t * dilation, t * dilation + stride * (o - 1) + 1, stride) for t, o in zip(tap, out, strict=True)
        ]
        y += np.einsum("nc...,kc->nk...", x[(..., *window)], f[(..., *tap)])
    return y


def grouped(i: Inputs) -> dict[str, Any]:
    groups = [conv(i["X"][:, 2 * g : 2 * g + 2], i["F"][3 * g : 3 * g + 3], pad=1) for g in range(2)]
    return {"Y": np.concatenate(groups, axis=1)}


def depthwise(i: Inputs) -> dict[str, Any]:
    channels = [conv(i["X"][:, c : c + 1], i["F"][c][None, None], pad=1) for c in range(3)]
    return {"Y": np.concatenate(channels, axis=1)}


def nhwc(i: Inputs) -> dict[str, Any]:
    y = conv(i["X"].transpose(0, 3, 1, 2), i["F"].transpose(3, 2, 0, 1), stride=2, pad=1)
    return {"Y": y.transpose(0, 2, 3, 1)}


def softmax(i: Inputs) -> dict[str, Any]:
    e = np.exp(i["X"])
    return {"Y": e / e.sum(axis=1, keepdims=True)}


def layer_norm(i: Inputs) -> dict[str, Any]:
    x = i["X"]
    y = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    return {"Y": y * i["scale"] + i["shift"]}


def gelu_layer(i: Inputs) -> dict[str, Any]:
    x = i["A"] @ i["B"] + i["bias"]
    erf = np.vectorize(lambda v: math.erf(v / math.sqrt(2)))
    return {"C": x / 2 * (1 + erf(x))}


def nbody(i: Inputs) -> dict[str, Any]:
    p, mass = i["P"], i["mass"]
    total = np.zeros_like(p)
    for a in range(len(p)):
        for b in range(len(p)):
            away = p[b] - p[a]
            total[a] += mass[b] * away / (away @ away + 1e-4) ** 1.5
    return {"ax": total[:, 0], "ay": total[:, 1], "az": total[:, 2]}


def matching(i: Inputs) -> dict[str, Any]:
    return {"nearest": [int(np.argmin([np.linalg.norm(a - b) for b in i["B"]])) for a in i["A"]]}


def stencil(i: Inputs) -> dict[str, Any]:
    a = padded(i["A"], 1, (0, 1))
    return {"B": (a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]) / 5}


def dilate(i: Inputs) -> dict[str, Any]:
    a = np.pad(i["A"], 1, constant_values=-np.inf)
    return {"B": np.lib.stride_tricks.sliding_window_view(a, (3, 3)).max(axis=(2, 3))}


def syrk(i: Inputs) -> dict[str, Any]:
    full = i["A"] @ i["A"].T
    return {"C": np.where(np.tri(len(full)) > 0, full, np.nan)}


def ramp(i: Inputs) -> dict[str, Any]:
    return {"y": i["start"] + np.array([n * (-1) ** n for n in range(7)]) / 6}


def product(i: Inputs) -> dict[str, Any]:
    return {"C": i["A"] @ i["B"]}


MNK = {"M": 7, "N": 5, "K": 9}
IMAGE = {"N": 2, "C": 3, "H": 9, "W": 8, "K": 4, "R": 3, "S": 3}
CASES = [
    Case("gemm", "gemm", MNK, product),
    Case("gemm_variants", "gemm_tn", MNK, lambda i: {"C": i["A"].T @ i["B"]}),
    Case("gemm_variants", "gemm_nt", MNK, lambda i: {"C": i["A"] @ i["B"].T}),
    Case("gemm_variants", "gemm_tt", MNK, lambda i: {"C": i["A"].T @ i["B"].T}),
    Case("gemm_variants", "gemm_col_major", MNK, product),
    Case("gemm_variants", "batched_gemm", {"L": 3, **MNK}, product),
    Case("gemm_variants", "matrix_vector", {"M": 7, "K": 9}, lambda i: {"y": i["A"] @ i["x"]}),
    Case("gemm_variants", "outer_product", {"M": 7, "N": 5}, lambda i: {"C": np.outer(i["x"], i["y"])}),
    Case("gemm_variants", "gemm_alpha_beta", MNK, lambda i: {"D": i["alpha"] * (i["A"] @ i["B"]) + i["beta"] * i["C"]}),
    Case("syrk", "syrk", {"M": 7, "K": 5}, syrk),
    Case("syrk", "triangular_gemm", {"M": 7, "N": 5}, lambda i: {"C": np.tril(i["L"]) @ i["B"]}),
    Case("syrk", "upper_gemm", {"M": 7, "N": 5}, lambda i: {"C": np.triu(i["U"]) @ i["B"]}),
    Case("conv", "conv1d", {"N": 2, "C": 3, "W": 11, "K": 4, "R": 3}, lambda i: {"Y": conv(i["X"], i["F"])}),
    Case(
        "conv",
        "conv1d",
        {"N": 2, "C": 3, "W": 11, "K": 4, "R": 3},
        lambda i: {"Y": conv(i["X"], i["F"], 3, 2, 2)},
        {"stride": 3, "dilation": 2, "pad": 2},
    ),
    Case("conv", "conv2d", IMAGE, lambda i: {"Y": conv(i["X"], i["F"], pad=1)}),
    Case(
        "conv",
        "conv2d",
        IMAGE,
        lambda i: {"Y": conv(i["X"], i["F"], 2, 2, 2)},
        {"stride": 2, "dilation": 2, "pad": 2},
    ),
    Case("conv", "conv2d_nhwc", IMAGE, nhwc, {"stride": 2}),
    Case("conv", "conv2d_grouped", {"N": 2, "G": 2, "H": 5, "W": 6, "R": 3, "S": 3}, grouped),
    Case("conv", "conv2d_depthwise", {"N": 2, "C": 3, "H": 5, "W": 6, "R": 3, "S": 3}, depthwise),
    Case(
        "conv",
        "conv3d",
        {"N": 1, "C": 2, "D": 4, "H": 5, "W": 4, "K": 3, "T": 3, "R": 3, "S": 2},
        lambda i: {"Y": conv(i["X"], i["F"], 2, pad=1)},
        {"stride": 2},
    ),
    Case("reductions", "row_sums", {"M": 7, "N": 11}, lambda i: {"s": i["X"].sum(axis=1)}),
    Case("reductions", "row_maxima", {"M": 7, "N": 11}, lambda i: {"m": i["X"].max(axis=1)}),
    Case("reductions", "row_argmax", {"M": 7, "N": 11}, lambda i: {"at": i["X"].argmax(axis=1)}),
    Case("reductions", "row_products", {"M": 7, "N": 11}, lambda i: {"p": i["X"].prod(axis=1)}),
    Case(
        "reductions",
        "column_statistics",
        {"M": 7, "N": 11},
        lambda i: {"mean": i["X"].mean(axis=0), "spread": np.ptp(i["X"], axis=0)},
    ),
    Case("softmax", "softmax", {"M": 5, "N": 11}, softmax),
    Case("layer_norm", "layer_norm", {"M": 5, "N": 11}, layer_norm),
    Case(
        "chain",
        "chain",
        {"N": 33},
        lambda i: {"out": np.sqrt(np.sin(i["a"]) + np.cos(i["b"])) * np.log(i["a"])},
        positive=True,
    ),
    Case("elementwise", "vector_add", {"N": 17}, lambda i: {"c": i["a"] + i["b"]}),
    Case("elementwise", "saxpy", {"N": 17}, lambda i: {"z": i["alpha"] * i["x"] + i["y"]}),
    Case("elementwise", "hard_sigmoid", {"N": 17}, lambda i: {"y": np.clip(i["x"] / 6 + 0.5, 0, 1)}),
    Case(
        "elementwise",
        "split_digits",
        {"N": 17},
        lambda i: {"high": np.floor(i["x"] / 7), "low": i["x"] - 7 * np.floor(i["x"] / 7)},
        {"base": 7},
    ),
    Case("elementwise", "ramp", {"N": 7}, ramp),
    Case("gemm_bias_gelu", "gemm_bias_gelu", MNK, gelu_layer),
    Case("transpose", "transpose", {"M": 7, "N": 5}, lambda i: {"B": i["A"].T}),
    Case("permute", "permute", {"L": 2, "M": 3, "N": 5}, lambda i: {"B": i["A"].transpose(2, 0, 1)}),
    Case("permute", "nchw_to_nhwc", {"N": 2, "C": 3, "H": 4, "W": 5}, lambda i: {"Y": i["X"].transpose(0, 2, 3, 1)}),
    Case("permute", "channels_last", {"N": 2, "C": 3, "H": 4, "W": 5}, lambda i: {"Y": i["X"]}),
    Case("nbody", "nbody", {"N": 9}, nbody, tolerance=1e-4),
    Case("matching", "matching", {"N": 9, "M": 13, "D": 5}, matching),
    Case("stencil", "stencil", {"M": 7, "N": 5}, stencil),
    Case("stencil", "stencil_interior", {"M": 7, "N": 5}, lambda i: {"B": stencil(i)["B"][1:-1, 1:-1]}),
    Case("stencil", "dilate", {"M": 7, "N": 5}, dilate),
    Case("mixed_precision", "gemm_f64", MNK, product, tolerance=1e-14),
    Case("mixed_precision", "gemm_f16", MNK, product),
    Case("mixed_precision", "gemm_bf16", MNK, product),
    Case("mixed_precision", "gemm_f16_out", MNK, product, tolerance=1e-3),
    Case("mixed_precision", "gemm_i8", MNK, product),
    Case(
        "mixed_precision",
        "quantize",
        {"N": 17},
        lambda i: {"Q": np.clip(np.rint(i["X"] / i["scale"]), -127, 127)},
    ),
    Case("mixed_precision", "to_bf16", {"N": 17}, lambda i: {"Y": i["X"]}, tolerance=2**-8),
]


def kernel_of(case: Case) -> Kernel:
    path = EXAMPLES / f"{case.file}.tg"
    module = parse(Source(path.name, path.read_text()))
    return build(module.kernels[case.kernel], case.attributes)


def inputs_of(kernel: Kernel, case: Case) -> dict[str, Any]:
    random = np.random.default_rng(7)
    arrays: dict[str, Any] = {}
    for tensor in kernel.tensors:
        if tensor.role != "input":
            continue
        shape = tuple(extent.evaluate(case.sizes) for extent in tensor.shape)
        if tensor.dtype in FLOATS:
            values = random.standard_normal(shape)
            values = np.abs(values) % 1 + 0.1 if case.positive else values
            bf16 = tensor.dtype == "bf16"
            arrays[tensor.name] = float_to_bf16(values) if bf16 else values.astype(NUMPY[tensor.dtype])
        else:
            arrays[tensor.name] = random.integers(-100, 100, shape).astype(NUMPY[tensor.dtype])
    return arrays


def wide(array: Any, dtype: str) -> Any:
    if dtype == "bf16":
        return bf16_to_float32(array).astype(np.float64)
    return array.astype(np.float64 if dtype in FLOATS else np.int64)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_example(case: Case) -> None:
    kernel = kernel_of(case)
    arrays = inputs_of(kernel, case)
    expected = case.expected({name: wide(a, kernel.tensor(name).dtype) for name, a in arrays.items()})
    results = run(tree_of(kernel), case.sizes, arrays)
    references = reference(kernel, case.sizes, arrays)
    assert results.keys() == references.keys() == expected.keys()
    for name, result in results.items():
        ref, right = references[name], np.asarray(expected[name])
        tolerance = case.tolerance * max(1.0, float(np.nanmax(np.abs(right)))) * 10
        assert ref.value.shape == right.shape
        assert np.array_equal(ref.written, ~np.isnan(right.astype(np.float64)))
        w = ref.written
        computed = wide(result, kernel.tensor(name).dtype)
        np.testing.assert_allclose(ref.value[w], right[w], rtol=0, atol=min(tolerance, 1e-5 if w.all() else tolerance))
        np.testing.assert_allclose(computed[w], right[w], rtol=0, atol=tolerance)
        if ref.accepts is not None:
            assert ref.accepts(result).all()
            continue
        assert (np.abs(computed - ref.value)[w] <= ref.bound[w]).all()
        assert np.isfinite(ref.bound[w]).all()


def test_every_example_kernel_has_a_case() -> None:
    texts = {path.stem: path for path in EXAMPLES.glob("*.tg")}
    kernels = {(stem, k) for stem, path in texts.items() for k in parse(Source(path.name, path.read_text())).kernels}
    assert kernels == {(case.file, case.kernel) for case in CASES}
