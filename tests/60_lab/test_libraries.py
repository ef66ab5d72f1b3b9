"""The calls of a library compute what the kernel says: by torch on the CPU where it is installed, and on a GPU."""

from __future__ import annotations

import pytest

from tilegen.api import load
from tilegen.backends.arrays import empty, shape_of
from tilegen.backends.devices import engine
from tilegen.backends.engine import Engine
from tilegen.backends.host import HostArrays
from tilegen.lab.compare import ComparisonRun
from tilegen.lab.inputs import random
from tilegen.lab.libraries import Library
from tilegen.lab.timing import fastest_rival

SIZES = {"M": 72, "N": 48, "K": 64, "L": 3, "H": 2, "B": 5, "Z": 3, "C": 16, "W": 20, "G": 3, "F": 8}
MORE = """\
def relu(x) = max(x, 0)

kernel col_major(A: bf16[M, K] col_major, B: bf16[K, N], bias: bf16[M]) -> C: bf16[M, N] col_major:
    var P: f32[M, N]
    P[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))
    C[i, j] = bf16(relu(P[i, j] + f32(bias[i])))

kernel by_rows(A: f16[M, K], B: f16[N, K], bias: f32[M], R: f16[N, M]) -> C: f16[M, N]:
    var P: f32[M, N]
    P[i, j] = sum[k](f32(A[i, k]) * f32(B[j, k]))
    C[i, j] = f16(relu(P[i, j] + bias[i] + f32(R[j, i])))

kernel longer(A: bf16[M, K], B: bf16[K, N], bias: bf16[N]) -> C: f32[M, N]:
    var P: f32[M, N]
    P[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))
    C[i, j] = relu(P[i, j] + f32(bias[j]))

kernel shorter(A: f32[M, K], B: f32[K, N]) -> C: bf16[M, N]:
    var P: f32[M, N]
    P[i, j] = sum[k](A[i, k] * B[k, j])
    C[i, j] = bf16(P[i, j])

kernel batch(A: f16[L, M, K], B: f16[L, N, K], bias: f16[N]) -> C: f16[M, L, N]:
    var P: f32[L, M, N]
    P[l, i, j] = sum[k](f32(A[l, i, k]) * f32(B[l, j, k]))
    C[i, l, j] = f16(P[l, i, j] + f32(bias[j]))

kernel heads(A: bf16[B, H, M, K], V: bf16[H, B, N, K], bias: bf16[H, N], R: bf16[B, M, H, N]) -> C: bf16[B, H, M, N]:
    var P: f32[B, H, M, N]
    P[b, h, i, j] = sum[k](f32(A[b, h, i, k]) * f32(V[h, b, j, k]))
    C[b, h, i, j] = bf16(relu(P[b, h, i, j] + f32(bias[h, j])) + f32(R[b, i, h, j]))

kernel conv(X: bf16[N, C, W, W], F: bf16[K, C, 3, 3]) -> Y: bf16[N, K, W, W]:
    var P: f32[N, K, W, W]
    P[n, k, y, x] = sum[c, r, s](f32(X[n, c, y + r - 1, x + s - 1] else 0) * f32(F[k, c, r, s]))
    Y[n, k, y, x] = bf16(P[n, k, y, x])

kernel conv_last(X: bf16[N, W, W, C], F: bf16[3, 3, C, K]) -> Y: bf16[N, W - 2, W - 2, K]:
    var P: f32[N, W - 2, W - 2, K]
    P[n, y, x, k] = sum[r, s, c](f32(X[n, y + r, x + s, c]) * f32(F[r, s, c, k]))
    Y[n, y, x, k] = bf16(P[n, y, x, k])

kernel conv_in_groups(X: bf16[N, L, C, W, W], F: bf16[L, K, C, 3, 3], b: bf16[L, K]) -> Y: bf16[N, L, K, W, W]:
    var P: f32[N, L, K, W, W]
    P[n, g, k, y, x] = sum[c, r, s](f32(X[n, g, c, y + r - 1, x + s - 1] else 0) * f32(F[g, k, c, r, s]))
    Y[n, g, k, y, x] = bf16(relu(P[n, g, k, y, x] + f32(b[g, k])))

kernel conv_longer(X: f16[N, C, W], F: f16[K, C, 3]) -> Y: f32[N, K, W - 2]:
    Y[n, k, x] = sum[c, r](f32(X[n, c, x + r]) * f32(F[k, c, r]))
"""
HGEMM = (
    "hgemm", "hgemm_f16", "hgemm_f32", "hgemm_nt", "hgemm_bias_gelu", "hgemm_residual", "hgemm_i8", "hgemm_tf32",
    "hgemm_tf32_rz", "hgemm_tf32_rz_nt", "hgemm_tf32_stored", "hgemm_e4m3", "hgemm_batched",
)  # fmt: skip
OF_MORE = (
    "col_major", "by_rows", "longer", "shorter", "batch", "heads", "conv", "conv_last", "conv_in_groups", "conv_longer",
)  # fmt: skip
KERNELS = [
    *(("examples/hgemm.tg", name) for name in HGEMM),
    *(("examples/mixed_precision.tg", name) for name in ("gemm_f64", "gemm_f16")),
    ("gemm_bias_gelu", "gemm_bias_gelu"),
    ("gemm_batched", "gemm_batched"),
    ("gemm", "gemm"),
    ("hconv", "hconv_bias_relu"),
    ("hconv", "hconv_grouped"),
    *(("epilogues", name) for name in ("swiglu", "scaled_i8", "scaled_e4m3", "linear_sums")),
    *(("matching_products", name) for name in ("matching_f16", "matching_tf32")),
    ("matching_dot", "matching_dot"),
    *((MORE, name) for name in OF_MORE),
]


class TorchOnCpu(HostArrays):
    """An engine that claims a GPU; without one torch computes on the CPU all the same."""

    on_gpu = True
    name = "torch on a CPU"


def find_fastest(file: str, name: str, on: Engine) -> tuple[str | None, tuple[str, ...]]:
    kernel = load(file).kernel(name).ir
    sizes = {size: SIZES[size] for size in kernel.sizes}
    sets = []
    for seed in range(2):
        arrays = random(on.xp, kernel, sizes, seed)
        outputs = [t for t in kernel.tensors if t.role == "output"]
        sets += [arrays | {t.name: empty(on.xp, t, shape_of(t, sizes)) for t in outputs}]
    found, runs, notes = fastest_rival(Library(kernel, on, sizes), on, sets)
    assert (found is None) == (runs is None)
    return found, notes


@pytest.mark.parametrize(("file", "name"), KERNELS, ids=[name for _, name in KERNELS])
def test_what_torch_computes_on_the_cpu_is_the_kernel(file: str, name: str) -> None:
    pytest.importorskip("torch")
    found, notes = find_fastest(file, name, TorchOnCpu())
    assert found, notes
    # The CPU has no product of 16-bit factors with a result in f32, and may lack others; none may be wrong.
    assert not [note for note in notes if "as far off" in note], notes
    assert notes[0].startswith(f"{found}: ")
    assert "torch 2" in notes[0]


@pytest.mark.gpu
@pytest.mark.parametrize(("file", "name"), KERNELS, ids=[name for _, name in KERNELS])
def test_what_torch_computes_on_a_gpu_is_the_kernel(file: str, name: str) -> None:
    """All calls of the table run: nothing is refused."""
    pytest.importorskip("torch")
    found, notes = find_fastest(file, name, engine("cuda"))
    print("\n".join(notes))
    assert found, notes
    assert not [note for note in notes if note.startswith("not compared")], notes


@pytest.mark.gpu
@pytest.mark.parametrize("name", HGEMM)
def test_a_kernel_is_checked_and_timed_beside_the_library(name: str) -> None:
    pytest.importorskip("torch")
    kernel = load("examples/hgemm.tg").kernel(name)
    sizes = {size: 2 if size == "Z" else 64 for size in kernel.ir.sizes}  # in a single thread
    result = ComparisonRun({"plain": kernel.schedule().tree}, engine("cuda"), sizes).run()
    print("\n".join(result.beside))
    plain, theirs = result.rows
    assert plain.error is None
    assert theirs.name == result.rival
    assert plain.time is not None
    assert theirs.time is not None
