"""What the kernels of examples/ and schedules/ mean, in plain numpy: written by hand, from the mathematics.

Nothing here reads a kernel's text. Inputs come as float64 or int64 by name, attributes by theirs; a function
returns the outputs by name, nan where the kernel leaves an element as it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tests.support.meaning.convolutions import (
    channels_last,
    conv,
    depthwise,
    grouped,
    groups_last,
    pad_zeros,
    transposed_3x5,
)
from tests.support.meaning.lists import compaction, keypoints
from tests.support.meaning.scaled import block_scaled, product_and_sums, scaled, scaled_by_groups
from tests.support.meaning.sparse import (
    attention,
    bags,
    block_product,
    group_products,
    panel_product,
    rows,
    softmax_of_rows,
    sparse_product,
)

Inputs = dict[str, Any]
Sizes = dict[str, int]


@dataclass(frozen=True)
class Case:
    """A kernel of a file, the sizes to try, and a function from its inputs to its outputs."""

    file: str
    kernel: str
    sizes: tuple[Sizes, ...]
    expected: Callable[[Inputs], dict[str, Any]]
    attributes: dict[str, int] = field(default_factory=dict)
    positive: bool = False  # inputs for a logarithm or a root
    tolerance: float = 2e-6

    def __str__(self) -> str:
        return f"{self.file}.{self.kernel}{self.attributes or ''}"


def sizes(names: str, *rows: tuple[int, ...]) -> tuple[Sizes, ...]:
    """The sizes `names`, one row of values at a time."""
    return tuple(dict(zip(names.split(), row, strict=True)) for row in rows)


# -- products


def product(i: Inputs) -> dict[str, Any]:
    return {"C": i["A"] @ i["B"]}


def alpha_beta(i: Inputs) -> dict[str, Any]:
    return {"C": i["alpha"] * (i["A"] @ i["B"]) + i["beta"] * i["C"]}


def syrk(i: Inputs) -> dict[str, Any]:
    full = i["A"] @ i["A"].T
    return {"C": np.where(np.tri(len(full)) > 0, full, np.nan)}


def to_tf32(values):
    """f32 with ten bits after the leading one: half of the last kept bit is added, and what is below it cut off."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x1000) & 0xFFFFE000).astype(np.uint32).view(np.float32).astype(np.float64)


def cut_to_tf32(values):
    """f32 with ten bits after the leading one, those below cut off."""
    bits = values.astype(np.float32).view(np.uint32)
    return (bits & 0xFFFFE000).astype(np.uint32).view(np.float32).astype(np.float64)


def gelu_layer(i: Inputs) -> dict[str, Any]:
    x = i["A"] @ i["B"] + i["bias"]
    erf = np.vectorize(lambda v: math.erf(v / math.sqrt(2)))
    return {"C": x / 2 * (1 + erf(x))}


def gelu_by_tanh(i: Inputs) -> dict[str, Any]:
    x = i["A"] @ i["B"] + i["bias"]
    return {"C": x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))}


def swiglu(i: Inputs) -> dict[str, Any]:
    gate = i["A"] @ i["G"]
    return {"C": gate / (1 + np.exp(-gate)) * (i["A"] @ i["U"])}


# -- convolutions


def nhwc(i: Inputs) -> dict[str, Any]:
    y = conv(i["X"].transpose(0, 3, 1, 2), i["F"].transpose(3, 2, 0, 1), stride=2, pad=1)
    return {"Y": y.transpose(0, 2, 3, 1)}


# -- rows


def softmax(i: Inputs) -> dict[str, Any]:
    e = np.exp(i["X"])
    return {"Y": e / e.sum(axis=1, keepdims=True)}


def layer_norm(i: Inputs) -> dict[str, Any]:
    x = i["X"]
    y = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    return {"Y": y * i["scale"] + i["shift"]}


def column_statistics(i: Inputs) -> dict[str, Any]:
    return {"mean": i["X"].mean(axis=0), "spread": np.ptp(i["X"], axis=0)}


def topk(i: Inputs, k: int) -> dict[str, Any]:
    order = np.argsort(-i["X"], axis=1, kind="stable")[:, :k]
    return {"best": np.take_along_axis(i["X"], order, 1), "at": order}


def recurrence(i: Inputs) -> dict[str, Any]:
    y = np.zeros_like(i["X"])
    for j in range(y.shape[-1]):
        y[..., j] = i["A"][..., j] * (y[..., j - 1] if j else 0) + i["X"][..., j]
    return {"y": y}


def row_argmax(i: Inputs) -> dict[str, Any]:
    return {"at": i["X"].argmax(axis=1)}


# -- points


def histogram(i: Inputs) -> dict[str, Any]:
    return {"h": [np.sum(i["x"] == b) for b in range(60)]}


def nbody(i: Inputs) -> dict[str, Any]:
    total = forces(i["P"], i["mass"], 1e-4)
    return {"ax": total[:, 0], "ay": total[:, 1], "az": total[:, 2]}


def forces(p: Any, mass: Any, softening: float) -> Any:
    total = np.zeros_like(p)
    for a in range(len(p)):
        for b in range(len(p)):
            away = p[b] - p[a]
            total[a] += mass[b] * away / (away @ away + softening) ** 1.5
    return total


def matching(i: Inputs) -> dict[str, Any]:
    return {"nearest": [int(np.argmin([np.linalg.norm(a - b) for b in i["B"]])) for a in i["A"]]}


# -- element by element, and neighbours


def chain(i: Inputs) -> dict[str, Any]:
    return {"out": np.sqrt(np.sin(i["a"]) + np.cos(i["b"])) * np.log(i["a"])}


def split_digits(i: Inputs) -> dict[str, Any]:
    return {"high": np.floor(i["x"] / 7), "low": i["x"] - 7 * np.floor(i["x"] / 7)}


def ramp(i: Inputs, points: int) -> dict[str, Any]:
    return {"y": i["start"] + np.array([n * (-1) ** n for n in range(points)]) / (points - 1)}


def stencil(i: Inputs) -> dict[str, Any]:
    a = pad_zeros(i["A"], 1, (0, 1))
    return {"B": (a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]) / 5}


def dilate(i: Inputs) -> dict[str, Any]:
    a = np.pad(i["A"], 1, constant_values=-np.inf)
    return {"B": np.lib.stride_tricks.sliding_window_view(a, (3, 3)).max(axis=(2, 3))}


def box_blur(i: Inputs) -> dict[str, Any]:
    return {"out": np.lib.stride_tricks.sliding_window_view(i["X"], (3, 3)).mean(axis=(2, 3))}


def quantize(i: Inputs) -> dict[str, Any]:
    return {"Q": np.clip(np.rint(i["X"] / i["scale"]), -127, 127)}


MNK = sizes("M N K", (7, 5, 9), (1, 1, 1), (1, 13, 2), (17, 1, 3), (3, 11, 1))
MN = sizes("M N", (7, 5), (1, 1), (1, 9), (13, 1), (3, 17))
ROWS = sizes("M N", (7, 11), (1, 1), (5, 1), (1, 33))
VECTOR = sizes("N", (17,), (1,), (2,), (33,))
LINE = sizes("N C W K R", (2, 3, 11, 4, 3), (1, 1, 5, 1, 1), (1, 2, 7, 3, 2), (3, 1, 9, 1, 3))
IMAGE = sizes(
    "N C H W K R S", (2, 3, 9, 8, 4, 3, 3), (1, 1, 1, 1, 1, 1, 1), (1, 2, 7, 5, 3, 2, 1), (1, 1, 5, 9, 2, 1, 3)
)
STRIDED = IMAGE[:1] + sizes("N C H W K R S", (1, 1, 5, 7, 1, 3, 2), (3, 2, 7, 5, 1, 1, 3))
ONE_FILTER = sizes("N C H W R S", (2, 3, 5, 6, 3, 3), (1, 1, 1, 1, 1, 1), (1, 4, 7, 3, 2, 1))
GROUPS = sizes("N G H W R S", (2, 2, 5, 6, 3, 3), (1, 1, 1, 1, 1, 1), (1, 3, 3, 5, 2, 1))
VOLUME = sizes(
    "N C D H W K T R S", (1, 2, 4, 5, 4, 3, 3, 3, 2), (1, 1, 1, 1, 1, 1, 1, 1, 1), (2, 1, 3, 5, 7, 1, 2, 1, 3)
)
BATCH = sizes("N C H W", (2, 3, 4, 5), (1, 1, 1, 1), (3, 1, 7, 2))
STRIDE_2 = {"stride": 2, "dilation": 2, "pad": 2}

HISTOGRAMS = ("histogram", "histogram_bytes")

CASES = [
    Case("examples/gemm", "gemm", MNK, product),
    Case("schedules/gemm_transposed", "gemm_nn", MNK, product),
    Case("schedules/gemm_transposed", "gemm_tn", MNK, lambda i: {"C": i["A"].T @ i["B"]}),
    Case("schedules/gemm_transposed", "gemm_nt", MNK, lambda i: {"C": i["A"] @ i["B"].T}),
    Case("schedules/gemm_transposed", "gemm_tt", MNK, lambda i: {"C": i["A"].T @ i["B"].T}),
    Case("examples/gemm_variants", "gemm_col_major", MNK, product),
    Case("examples/gemm_variants", "batched_gemm", sizes("L M N K", (3, 7, 5, 9), (1, 1, 1, 1), (5, 1, 3, 2)), product),
    Case("examples/gemm_variants", "matrix_vector", sizes("M K", (7, 9), (1, 1), (1, 5), (11, 1)),
         lambda i: {"y": i["A"] @ i["x"]}),
    Case("examples/gemm_variants", "outer_product", MN, lambda i: {"C": np.outer(i["x"], i["y"])}),
    Case("examples/gemm_variants", "gemm_alpha_beta", MNK, alpha_beta),
    Case("examples/syrk", "syrk", sizes("M K", (7, 5), (1, 1), (9, 1), (1, 3)), syrk),
    Case("examples/syrk", "triangular_gemm", MN, lambda i: {"C": np.tril(i["L"]) @ i["B"]}),
    Case("examples/syrk", "upper_gemm", MN, lambda i: {"C": np.triu(i["U"]) @ i["B"]}),
    Case("examples/conv", "conv1d", LINE, lambda i: {"Y": conv(i["X"], i["F"])}),
    Case("examples/conv", "conv1d", LINE, lambda i: {"Y": conv(i["X"], i["F"], 3, 2, 2)},
         {"stride": 3, "dilation": 2, "pad": 2}),
    Case("examples/conv", "conv2d", IMAGE, lambda i: {"Y": conv(i["X"], i["F"], pad=1)}),
    Case("examples/conv", "conv2d", STRIDED, lambda i: {"Y": conv(i["X"], i["F"], 2, 2, 2)}, STRIDE_2),
    Case("examples/conv", "conv2d_nhwc", IMAGE, nhwc, {"stride": 2}),
    Case("examples/conv", "conv2d_grouped", GROUPS, grouped),
    Case("examples/conv", "conv2d_depthwise", ONE_FILTER, depthwise),
    Case("examples/conv", "conv3d", VOLUME, lambda i: {"Y": conv(i["X"], i["F"], 2, pad=1)}, {"stride": 2}),
    Case("examples/reductions", "row_sums", ROWS, lambda i: {"s": i["X"].sum(axis=1)}),
    Case("examples/reductions", "row_maxima", ROWS, lambda i: {"m": i["X"].max(axis=1)}),
    Case("examples/reductions", "row_argmax", ROWS, row_argmax),
    Case("examples/reductions", "row_products", ROWS, lambda i: {"p": i["X"].prod(axis=1)}),
    Case("examples/reductions", "column_statistics", ROWS, column_statistics),
    Case("examples/softmax", "softmax", ROWS, softmax),
    Case("examples/layer_norm", "layer_norm", ROWS, layer_norm, tolerance=1e-5),
    Case("examples/chain", "chain", VECTOR, chain, positive=True),
    Case("examples/elementwise", "vector_add", VECTOR, lambda i: {"c": i["a"] + i["b"]}),
    Case("examples/elementwise", "saxpy", VECTOR, lambda i: {"z": i["alpha"] * i["x"] + i["y"]}),
    Case("examples/elementwise", "hard_sigmoid", VECTOR, lambda i: {"y": np.clip(i["x"] / 6 + 0.5, 0, 1)}),
    Case("examples/elementwise", "split_digits", VECTOR, split_digits, {"base": 7}),
    *(Case("examples/elementwise", "ramp", sizes("N", (n,)), lambda i, n=n: ramp(i, n)) for n in (2, 7, 33)),
    Case("examples/gemm_bias_gelu", "gemm_bias_gelu", MNK, gelu_layer),
    Case("examples/transpose", "transpose", MN, lambda i: {"B": i["A"].T}),
    Case("examples/permute", "permute", sizes("L M N", (2, 3, 5), (1, 1, 1), (7, 1, 3)),
         lambda i: {"B": i["A"].transpose(2, 0, 1)}),
    Case("examples/permute", "nchw_to_nhwc", BATCH, lambda i: {"Y": i["X"].transpose(0, 2, 3, 1)}),
    Case("examples/permute", "channels_last", BATCH, lambda i: {"Y": i["X"]}),
    Case("examples/nbody", "nbody", sizes("N", (9,), (1,), (2,)), nbody, tolerance=1e-4),
    Case("examples/matching", "matching", sizes("N M D", (9, 13, 5), (1, 1, 1), (3, 1, 2), (1, 7, 1)), matching),
    Case("examples/stencil", "stencil", MN, stencil),
    Case("examples/stencil", "stencil_interior", sizes("M N", (7, 5), (3, 3), (3, 9)),
         lambda i: {"B": stencil(i)["B"][1:-1, 1:-1]}),
    Case("examples/stencil", "dilate", MN, dilate),
    Case("examples/hgemm", "hgemm", MNK, product, tolerance=2**-8),
    Case("examples/hgemm", "hgemm_batched", sizes("Z M K N", (2, 5, 7, 4), (1, 1, 1, 1)), product, tolerance=2**-8),
    Case("examples/hgemm", "hgemm_f16", MNK, product, tolerance=2**-11),
    Case("examples/hgemm", "hgemm_f32", MNK, product),
    Case("examples/hgemm", "hgemm_i8", MNK, lambda i: {"C": i["A"] @ i["B"].T}),
    Case("examples/hgemm", "hgemm_e4m3", MNK, lambda i: {"C": i["A"] @ i["B"].T}, tolerance=2**-8),
    Case("examples/hgemm", "hgemm_tf32", MNK, lambda i: {"C": to_tf32(i["A"]) @ to_tf32(i["B"])}),
    Case("examples/hgemm", "hgemm_tf32_rz", MNK, lambda i: {"C": cut_to_tf32(i["A"]) @ cut_to_tf32(i["B"])}),
    Case("examples/hgemm", "hgemm_tf32_rz_nt", MNK, lambda i: {"C": cut_to_tf32(i["A"]) @ cut_to_tf32(i["B"]).T}),
    Case("examples/hgemm", "hgemm_tf32_stored", MNK, lambda i: {"C": to_tf32(i["A"]) @ to_tf32(i["B"])}),
    Case("examples/hgemm", "hgemm_nt", MNK, lambda i: {"C": i["A"] @ i["B"].T}, tolerance=2**-8),
    Case("examples/hgemm", "hgemm_bias_gelu", MNK, gelu_layer, tolerance=2**-8),
    Case("examples/hgemm", "hgemm_residual", MNK, lambda i: {"C": gelu_layer(i)["C"] + i["R"]}, tolerance=2**-8),
    Case("examples/mixed_precision", "gemm_f64", MNK, product, tolerance=1e-14),
    Case("examples/mixed_precision", "gemm_f16", MNK, product),
    Case("examples/mixed_precision", "gemm_bf16", MNK, product),
    Case("examples/mixed_precision", "gemm_f16_out", MNK, product, tolerance=1e-3),
    Case("examples/mixed_precision", "gemm_i8", MNK, product),
    Case("examples/mixed_precision", "quantize", VECTOR, quantize),
    Case("examples/mixed_precision", "to_bf16", VECTOR, lambda i: {"Y": i["X"]}, tolerance=2**-8),
    Case("examples/mixed_precision", "to_e4m3", VECTOR, lambda i: {"Y": i["X"] * i["scale"]}, tolerance=2**-4),
    Case("examples/mixed_precision", "gemm_fp8", MNK, product),
    Case("schedules/blur", "blur", MN, box_blur),
    Case("schedules/chain", "chain", VECTOR, chain, positive=True),
    Case("schedules/conv1d", "conv1d", VECTOR, lambda i: {"Y": np.convolve(i["X"], np.ones(3) / 3, "valid")}),
    Case("schedules/conv1x1", "conv1x1", sizes("B C P F", (2, 3, 7, 5), (1, 1, 1, 1), (1, 5, 9, 2)),
         lambda i: {"Y": np.einsum("fc,ncp->nfp", i["K"], i["X"])}),
    Case("schedules/conv2d", "conv2d", sizes("B C H W F", (2, 3, 9, 8, 4), (1, 1, 1, 1, 1), (1, 2, 5, 7, 3)),
         lambda i: {"Y": conv(i["X"], i["K"], pad=1)}),
    Case("schedules/conv2d", "conv2d", sizes("B C H W F", (2, 3, 9, 8, 4), (1, 1, 1, 1, 1), (1, 2, 5, 7, 3)),
         lambda i: {"Y": conv(i["X"], i["K"], 2, pad=2)}, {"R": 5, "stride": 2, "pad": 2}),
    *(Case("schedules/conv2d_winograd", "conv2d_winograd", sizes("B C F", (1, 2, 3), (2, 1, 1)),
           lambda i: {"Y": conv(i["X"], i["K"], pad=1)}, {"H": h, "W": w, "TH": -(-h // 4), "TW": -(-w // 4)},
           tolerance=2e-5) for h, w in ((7, 5), (1, 1), (4, 9))),
    *(Case("schedules/transposed_winograd", "transposed_winograd", sizes("B C F", (1, 2, 3), (2, 1, 1)), transposed_3x5,
           {"H": h, "W": w, "TH": -(-h // 4), "TW": -(-w // 4)}, tolerance=2e-5) for h, w in ((7, 6), (3, 5), (4, 9))),
    Case("schedules/epilogues", "linear_gelu", MNK, gelu_by_tanh, tolerance=2**-10),
    Case("schedules/epilogues", "linear_residual", MNK, lambda i: {"C": gelu_layer(i)["C"] + i["R"]}, tolerance=2**-10),
    Case("schedules/epilogues", "linear_sums", MNK, product_and_sums, tolerance=2**-8),
    Case("schedules/epilogues", "swiglu", MNK, swiglu, tolerance=2**-8),
    Case("schedules/epilogues", "scaled_i8", MNK, scaled, tolerance=2**-8),
    Case("schedules/epilogues", "scaled_e4m3", MNK, scaled, tolerance=2**-8),
    Case("schedules/block_scaled", "block_scaled", sizes("M N K", (3, 5, 256), (1, 129, 128)), block_scaled,
         tolerance=2**-8),
    Case("schedules/gemm", "gemm", MNK, product),
    Case("schedules/grouped", "grouped", sizes("M N K G", (7, 5, 6, 4), (1, 1, 1, 1)), group_products, tolerance=2**-8),
    Case("schedules/grouped", "grouped_scaled", sizes("M N K G", (7, 5, 256, 4), (1, 129, 128, 1)), scaled_by_groups,
         tolerance=2**-8),
    Case("schedules/gemm_batched", "gemm_batched", sizes("B H M K N", (2, 3, 5, 7, 4), (1, 1, 1, 1, 1)),
         lambda i: {"C": i["A"] @ i["V"]}),
    Case("schedules/gemm_bias_gelu", "gemm_bias_gelu", MNK, gelu_layer),
    *(Case("schedules/gemm_pieces", name, MNK, product) for name in ("gemm_bf16x3", "gemm_f16x2", "gemm_tf32x2")),
    Case("schedules/gemm_split", "gemm_split", MNK, product),
    Case("schedules/conv_pieces", "conv_bf16x2", sizes("B H W C F", (2, 9, 8, 3, 4), (1, 1, 1, 1, 1)), channels_last,
         tolerance=2**-15),
    Case("schedules/conv_pieces", "conv_bf16x2", sizes("B H W C F", (2, 9, 7, 3, 4)),
         lambda i: channels_last(i, 2, 1, 2), {"R": 5, "stride": 2, "pad": 2}, tolerance=2**-15),
    Case("schedules/conv_pieces", "conv_f16x2", sizes("B H W C F", (2, 9, 8, 3, 4), (1, 1, 1, 1, 1)), channels_last,
         tolerance=2**-18),
    Case("schedules/conv_pieces", "conv_f16x2", sizes("B H W C F", (2, 9, 7, 3, 4)),
         lambda i: channels_last(i, 2, 1, 2), {"R": 5, "stride": 2, "pad": 2}, tolerance=2**-18),
    *(Case("schedules/conv_pieces_first", "conv_first_f16x2", sizes("B C H W F", (2, 3, 9, 8, 4), (1, 1, 1, 1, 1)),
           lambda i, s=stride, p=pad: {"Y": conv(i["X"], i["K"], s, pad=p)}, {"R": r, "stride": stride, "pad": pad},
           tolerance=2**-18) for r, stride, pad in ((3, 1, 1), (5, 2, 2))),
    Case("schedules/hconv", "hconv", sizes("B H W C F", (2, 9, 8, 3, 4), (1, 1, 1, 1, 1)), channels_last,
         tolerance=2**-10),
    Case("schedules/hconv", "hconv", sizes("B H W C F", (1, 9, 7, 2, 3)), lambda i: channels_last(i, 2, 2, 3),
         {"R": 5, "stride": 2, "dilation": 2, "pad": 3}, tolerance=2**-10),
    Case("schedules/hconv", "hconv_bf16", sizes("B H W C F", (2, 5, 4, 3, 4)), channels_last, tolerance=2**-7),
    Case("schedules/hconv", "hconv_bias_relu", sizes("B H W C F", (2, 5, 4, 3, 4)),
         lambda i: {"Y": np.maximum(channels_last(i)["Y"] + i["bias"], 0)}, tolerance=2**-10),
    Case("schedules/hconv", "hconv_grouped", sizes("B H W G C F", (2, 5, 4, 3, 2, 4)), groups_last, tolerance=2**-10),
    Case("schedules/hconv", "hconv_1x1", sizes("B H W C F", (2, 5, 4, 3, 4)),
         lambda i: {"Y": i["X"] @ i["K"].T}, tolerance=2**-10),
    *(Case("schedules/hconv_first", "hconv_first", sizes("B C H W F", (2, 3, 9, 8, 4), (1, 1, 1, 1, 1)),
           lambda i, s=stride, d=dilation, p=pad: {"Y": conv(i["X"], i["K"], s, d, p)},
           {"R": r, "stride": stride, "dilation": dilation, "pad": pad}, tolerance=2**-10)
      for r, stride, dilation, pad in ((3, 1, 1, 1), (5, 2, 1, 2), (3, 2, 2, 2))),
    Case("schedules/hconv_first", "hconv_first_bf16", sizes("B C H W F", (2, 3, 5, 4, 4)),
         lambda i: {"Y": conv(i["X"], i["K"], pad=1)}, tolerance=2**-7),
    Case("schedules/hconv_first", "hconv_first_bias_relu", sizes("B C H W F", (2, 3, 5, 4, 4)),
         lambda i: {"Y": np.maximum(conv(i["X"], i["K"], pad=1) + i["bias"][:, None, None], 0)}, tolerance=2**-10),
    *(Case("schedules/hconv", "hconv_input", sizes("B H W F", (2, 9, 8, 4), (1, 1, 1, 1)),
           lambda i, s=stride, r=r: channels_last(i, s, pad=r // 2), {"C": c, "R": r, "stride": stride, "pad": r // 2},
           tolerance=2**-10) for c, r, stride in ((3, 7, 2), (1, 3, 1), (4, 8, 4))),
    *(Case("schedules/layer_norm", "layer_norm", sizes("M", (1,), (5,)), layer_norm, {"N": n}, tolerance=1e-5)
      for n in (1, 11)),
    Case("schedules/matching", "matching", sizes("N M D", (9, 13, 5), (1, 1, 1), (3, 1, 2), (1, 7, 1)), matching),
    Case("schedules/matching_dot", "matching_dot", sizes("N M", (5, 7), (1, 1), (1, 9), (3, 1)), matching),
    *(Case("schedules/matching_products", f"matching_{t}", sizes("N M", (5, 7), (1, 1), (1, 9)), matching)
      for t in ("f16", "tf32")),
    Case("schedules/nbody", "nbody", sizes("N", (9,), (1,), (2,)), lambda i: {"F": forces(i["P"], i["m"], 0.01)}),
    Case("schedules/permute", "permute", sizes("A B C D", (2, 3, 4, 5), (1, 1, 1, 1), (3, 1, 7, 2)),
         lambda i: {"Y": i["X"].transpose(3, 1, 0, 2)}),
    *(Case("schedules/row_argmax", "row_argmax", sizes("M", (1,), (5,)), row_argmax, {"N": n}) for n in (1, 11)),
    *(Case("schedules/row_sum", "row_sum", sizes("M", (1,), (5,)), lambda i: {"y": i["X"].sum(axis=1)}, {"N": n})
      for n in (1, 11)),
    *(Case(f"schedules/{name}", name, VECTOR, compaction) for name in ("compaction", "compaction_ordered")),
    *(Case(f"schedules/{name}", name, sizes("H W CAP", (1, 1, 6), (9, 11, 6), (30, 20, 6)), keypoints)
      for name in ("keypoints", "keypoints_ordered")),
    Case("schedules/prefix", "prefix", VECTOR, lambda i: {"y": i["x"].cumsum()}),
    Case("schedules/recurrence", "recurrence", MN, recurrence),
    Case("schedules/recurrence_long", "recurrence_long", VECTOR, recurrence),
    Case("schedules/columns", "sum_columns", MN, lambda i: {"y": i["X"].sum(axis=0)}),
    Case("schedules/rows", "sum_rows", MN, lambda i: {"y": i["X"].sum(axis=1)}),
    Case("schedules/rows", "softmax_rows", MN, softmax),
    Case("schedules/rows", "layer_norm_rows", MN, layer_norm, tolerance=1e-5),
    Case("schedules/rows", "argmax_rows", MN, row_argmax),
    Case("schedules/scan", "scan", MN, lambda i: {"y": i["X"].cumsum(axis=1)}),
    *(Case("schedules/softmax", "softmax", sizes("M", (1,), (5,)), softmax, {"N": n}) for n in (1, 11)),
    Case("schedules/sequences", "sequences", sizes("N H B", (7, 2, 3), (1, 1, 1)), lambda i: attention(i, 0.25),
         {"D": 4, "scale": 0.25}, tolerance=1e-5),
    Case("schedules/sparse", "segment_sums", sizes("M N", (5, 11), (1, 1), (7, 2)), lambda i: {"y": rows(i, i["x"])}),
    Case("schedules/sparse", "segment_softmax", sizes("M N", (5, 11), (1, 1), (7, 2)), softmax_of_rows),
    Case("schedules/sparse", "embedding_bag", sizes("K D N B", (4, 3, 11, 5), (1, 1, 1, 1)), bags),
    Case("schedules/sparse", "csr", sizes("N M K F", (11, 5, 4, 3), (1, 1, 1, 1)), sparse_product),
    Case("schedules/sparse", "csr_blocks", sizes("N M K F", (5, 3, 4, 2), (1, 1, 1, 1)), block_product),
    Case("schedules/sparse", "csr_blocks_bf16", sizes("N M K F", (5, 3, 4, 2), (1, 1, 1, 1)), block_product),
    Case("schedules/sparse", "csr_panels", sizes("N M F", (5, 3, 2), (1, 1, 1)),
         partial(panel_product, panels=2, each=3), {"P": 2, "B": 3}),
    Case("schedules/stencils", "stencils", MN, lambda i: {"C": stencil({"A": stencil(i)["B"]})["B"]}),
    Case("schedules/syrk", "syrk", sizes("M K", (7, 5), (1, 1), (9, 1), (1, 3)), syrk),
    *(Case(f"schedules/{name}", name, VECTOR, histogram, attributes={"B": 60}) for name in HISTOGRAMS),
    *(Case("schedules/topk", "topk", sizes("M", (1,), (5,)), partial(topk, k=k), {"N": n, "K": k})
      for n, k in ((1, 1), (5, 5), (11, 3))),
    Case("schedules/total", "total", VECTOR, lambda i: {"y": [i["x"].sum()]}),
    Case("schedules/transpose", "transpose", MN, lambda i: {"Y": i["X"].T}),
    Case("schedules/vector_add", "vector_add", VECTOR, lambda i: {"C": i["A"] + i["B"]}),
]  # fmt: skip
