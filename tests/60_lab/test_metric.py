"""Operations, bytes and units; and which kernels are a matrix product."""

import pytest

import tilegen
from tilegen.ir.nodes import Kernel
from tilegen.lab.checks.product import as_product
from tilegen.lab.counts.metric import moved_bytes, operations, rate, unit


def kernel(text: str) -> Kernel:
    return tilegen.load(text + "\n").kernel().ir


GEMM = "kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:\n    C[i, j] = sum[k](A[i, k] * B[k, j])"


def test_a_gemm_has_two_operations_a_point() -> None:
    sizes = {"M": 4096, "K": 4096, "N": 4096}
    assert operations(kernel(GEMM), sizes) == 2 * 4096**3
    assert moved_bytes(kernel(GEMM), sizes) == 3 * 4 * 4096**2
    assert unit(kernel(GEMM), sizes) == "TFLOP/s"
    assert unit(kernel(GEMM), sizes, on_gpu=False) == "GFLOP/s"
    assert rate(kernel(GEMM), sizes, 2.75, "TFLOP/s") == pytest.approx(49.98, abs=0.01)


def test_a_term_of_a_running_sum_counts_once() -> None:
    text = "kernel run(X: f32[M, N]) -> y: f32[M, N]:\n    y[i, j] = sum[k <= j](X[i, k])"
    sizes = {"M": 64, "N": 8192}
    assert operations(kernel(text), sizes) == 64 * 8192
    assert unit(kernel(text), sizes) == "GB/s"


@pytest.mark.parametrize(
    ("file", "name", "count"),
    [
        ("grouped", "grouped", 2 * 640 * 32 * 16),
        ("sparse", "segment_sums", 640),
        ("sparse", "csr", 2 * 640 * 16),
        ("sparse", "segment_softmax", (1 + 3 + 3) * 640),
        ("sparse", "csr_blocks", 2 * 640 * 16 * 16 * 16),
    ],
)
def test_an_element_counts_in_its_row_alone(file: str, name: str, count: int) -> None:
    sizes = {"M": 640, "K": 32, "G": 8, "N": 16}
    if file == "sparse":
        sizes = {"M": 8, "N": 640, "K": 32, "F": 16}
    assert operations(tilegen.load(file).kernel(name).ir, sizes) == count


@pytest.mark.parametrize("rounding", ["tf32", "tf32_rz"])
def test_a_rounding_is_no_operation(rounding: str) -> None:
    text = GEMM.replace("A[i, k] * B[k, j]", f"{rounding}(A[i, k]) * {rounding}(B[k, j])")
    assert operations(kernel(text), {"M": 64, "K": 32, "N": 16}) == 2 * 64 * 32 * 16


def test_what_only_moves_is_measured_in_bytes() -> None:
    chain = tilegen.load("chain").kernel().ir
    assert moved_bytes(chain, {"N": 1000}) == 12000
    assert unit(chain, {"N": 2**20}) == "GB/s"
    assert rate(chain, {"N": 2**20}, 0.003, "GB/s") == pytest.approx(4194.3, abs=0.1)


def test_a_gemm_is_a_product_whatever_its_transpositions() -> None:
    plain = as_product(kernel(GEMM))
    assert plain is not None
    assert (plain.a, plain.b, plain.a_axes, plain.b_axes, plain.c_axes) == ("A", "B", (0, 1), (0, 1), (0, 1))
    text = GEMM.replace("A: f32[M, K]", "A: f32[K, M]").replace("A[i, k] * B[k, j]", "B[k, j] * A[k, i]")
    swapped = as_product(kernel(text))
    assert swapped is not None
    # B comes first in the text: its columns are the rows of the product, and those of C the second of its dimensions.
    assert (swapped.a, swapped.a_axes, swapped.b_axes, swapped.c_axes) == ("B", (1, 0), (0, 1), (1, 0))


@pytest.mark.parametrize(
    "text",
    [
        "kernel k(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:\n    C[i, j] = sum[k](A[i, k] + B[k, j])",
        "kernel k(A: f32[M, K], B: f32[K]) -> C: f32[M]:\n    C[i] = sum[k](A[i, k] * B[k])",
        "kernel k(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:\n    C[i, j] = max[k](A[i, k] * B[k, j])",
    ],
)
def test_kernels_that_are_no_product(text: str) -> None:
    assert as_product(kernel(text)) is None
