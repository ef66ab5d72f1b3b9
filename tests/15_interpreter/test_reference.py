"""The reference: exact for integers, and a bound that right programs keep and wrong ones break."""

from __future__ import annotations

import numpy as np
import pytest

from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.interpreter import InterpreterError, bf16_to_float32, reference, run
from tilegen.interpreter.expected.rounding import gamma
from tilegen.ir.nodes import Kernel
from tilegen.ir.written import tree_of


def kernel(text: str) -> Kernel:
    (decl,) = parse(Source("test.tg", text)).kernels.values()
    return build(decl)


GEMM = kernel("kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:\n    C[i, j] = sum[k](A[i, k] * B[k, j])\n")
random = np.random.default_rng(3)


def test_the_bound_of_a_gemm_is_gamma_times_the_product_of_magnitudes() -> None:
    a = random.standard_normal((30, 200)).astype(np.float32)
    b = random.standard_normal((200, 20)).astype(np.float32)
    ref = reference(GEMM, {"M": 30, "N": 20, "K": 200}, {"A": a, "B": b})["C"]
    exact = a.astype(np.float64) @ b.astype(np.float64)
    magnitudes = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    np.testing.assert_allclose(ref.value, exact, rtol=1e-12)
    assert (ref.bound >= gamma(200, "f32") * magnitudes).all()
    assert (ref.bound <= 1.01 * gamma(201, "f32") * magnitudes + 1e-30).all()


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_summation_keeps_the_bound(seed: int) -> None:
    k = kernel("kernel f(A: f32[M, N]) -> s: f32[M]:\n    s[i] = sum[j](A[i, j] * A[i, j] - 1)\n")
    order = np.random.default_rng(seed)
    a = order.standard_normal((4, 300)).astype(np.float32)
    ref = reference(k, {"M": 4, "N": 300}, {"A": a})["s"]
    terms = (a * a - np.float32(1))[:, order.permutation(300)]
    total = np.zeros(4, np.float32)
    for n in range(300):
        total += terms[:, n]
    assert (np.abs(total - ref.value) <= ref.bound).all()
    assert (ref.bound < 1e-1).all()


def test_a_wrong_element_breaks_the_bound() -> None:
    a, b = (random.standard_normal((40, 40)).astype(np.float32) for _ in range(2))
    ref = reference(GEMM, {"M": 40, "N": 40, "K": 40}, {"A": a, "B": b})["C"]
    forgotten = a[:, :39] @ b[:39]
    assert (np.abs(forgotten - ref.value) > ref.bound).mean() > 0.95


FUNCTIONS = [
    "sqrt",
    "rsqrt",
    "exp",
    "exp2",
    "expm1",
    "log1p",
    "log",
    "log2",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sinh",
    "cosh",
    "asin",
    "acos",
    "atan",
    "erf",
    "floor",
    "ceil",
    "round",
    "tf32",
    "tf32_rz",
    "power_of_two",
    "abs",
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_uncertain_arguments(name: str) -> None:
    k = kernel(f"kernel f(A: f32[N]) -> B: f32[N]:\n    B[i] = {name}(A[i] / 3 * 1.7)\n")
    a = random.uniform(0.1, 1.7, 200).astype(np.float32)
    ref = reference(k, {"N": 200}, {"A": a})["B"]
    result = run(tree_of(k), {"N": 200}, {"A": a})["B"]
    assert (np.abs(result - ref.value) <= ref.bound).all()
    assert (ref.bound <= 1e-4 * np.maximum(1, np.abs(ref.value))).mean() > 0.98


def test_two_arguments() -> None:
    text = "kernel f(A: f32[N], B: f32[N]) -> C: f32[N], D: f32[N], E: f32[N]:\n"
    body = "    C[i] = pow(A[i], B[i])\n"
    body += "    D[i] = atan2(A[i] - 1, B[i] - 1)\n    E[i] = fma(A[i], B[i], A[i]) / (B[i] + 2)\n"
    k = kernel(text + body)
    arrays = {n: random.uniform(0.1, 2, 200).astype(np.float32) for n in "AB"}
    refs, results = reference(k, {"N": 200}, arrays), run(tree_of(k), {"N": 200}, arrays)
    for name in "CDE":
        assert (np.abs(results[name] - refs[name].value) <= refs[name].bound).all()
        assert np.median(refs[name].bound) < 1e-5


def test_a_choice_that_rounding_can_turn_allows_both_sides() -> None:
    k = kernel("kernel f(A: f32[N]) -> B: f32[N]:\n    B[i] = 10 if A[i] / 3 * 3 > 1 else 20\n")
    ref = reference(k, {"N": 3}, {"A": np.array([0.5, 1, 2], np.float32)})["B"]
    assert (ref.bound == [0, 10, 0]).all()


def test_integers_are_exact_and_wrap() -> None:
    text = "kernel f(a: i8[M, K], b: i8[K, M]) -> c: i32[M, M], d: i8[M, M]:\n"
    body = "    c[i, j] = sum[k](i32(a[i, k]) * i32(b[k, j]))\n    d[i, j] = sum[k](a[i, k] * b[k, j])\n"
    k = kernel(text + body)
    a, b = random.integers(-128, 128, (5, 9), np.int8), random.integers(-128, 128, (9, 5), np.int8)
    refs = reference(k, {"M": 5, "K": 9}, {"a": a, "b": b})
    exact = a.astype(np.int64) @ b.astype(np.int64)
    assert (refs["c"].value == exact).all()
    assert (refs["d"].value == exact.astype(np.int8)).all()
    assert not refs["c"].bound.any()


def test_half_precision() -> None:
    text = "kernel f(A: f16[M, K], B: f16[K, M]) -> C: f16[M, M], D: bf16[M, M]:\n"
    body = "    C[i, j] = sum[k](A[i, k] * B[k, j])\n    D[i, j] = sum[k](bf16(A[i, k]) * bf16(B[k, j]))\n"
    k = kernel(text + body)
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((6, 20), (20, 6)))
    refs, results = (
        reference(k, {"M": 6, "K": 20}, {"A": a, "B": b}),
        run(tree_of(k), {"M": 6, "K": 20}, {"A": a, "B": b}),
    )
    assert (np.abs(results["C"] - refs["C"].value) <= refs["C"].bound).all()
    assert (np.abs(bf16_to_float32(results["D"]) - refs["D"].value) <= refs["D"].bound).all()
    assert refs["C"].bound.max() < 0.5


def test_overflow_says_nothing() -> None:
    k = kernel("kernel f(A: f16[N]) -> B: f16[N]:\n    B[i] = A[i] * A[i]\n")
    ref = reference(k, {"N": 2}, {"A": np.array([2, 300], np.float16)})["B"]
    assert np.isfinite(ref.bound[0])
    assert np.isinf(ref.bound[1])


def test_argmax_accepts_any_index_that_rounding_may_prefer() -> None:
    k = kernel("kernel f(A: f32[M, N]) -> at: i32[M]:\n    at[i] = argmax[k](A[i, k] / 3)\n")
    a = np.array([[1, 2, 3, 0], [5, np.nextafter(np.float32(5), np.float32(6)), 4, 3]], np.float32)
    ref = reference(k, {"M": 2, "N": 4}, {"A": a})["at"]
    assert (ref.value == [2, 1]).all()
    assert (ref.bound == [0, np.inf]).all()
    assert ref.gap is not None
    for found, right in (([2, 1], [1, 1]), ([2, 0], [1, 1]), ([1, 2], [0, 0]), ([4, -1], [0, 0])):
        assert ((ref.gap(np.array(found, np.int32)) <= 1) == np.array(right, bool)).all()


def test_how_far_a_value_is_from_the_best_is_a_share_of_what_rounding_explains() -> None:
    """Sums of three products: the first two are too close to be told apart, the last is not."""
    k = kernel(
        "kernel f(A: f32[M, K], B: f32[N, K]) -> at: i32[N]:\n    var d: f32[N, M]\n"
        "    d[i, j] = sum[k](A[j, k] * B[i, k])\n    at[i] = argmin[j](d[i, j])\n"
    )
    a = np.array([[1, 1, 1], [1, 1, np.nextafter(np.float32(1), np.float32(2))], [1, 1, 1.1]], np.float32)
    ref = reference(k, {"M": 3, "K": 3, "N": 1}, {"A": a, "B": np.array([[1, 1, 0.3]], np.float32)})["at"]
    assert ref.value == [0]
    assert ref.gap is not None
    first, second, last = (float(ref.gap(np.array([j], np.int32))[0]) for j in range(3))
    assert first == 0
    assert 0 < second < 1
    assert last > 1000


def test_parts_of_a_large_box_agree_with_the_whole() -> None:
    k = kernel(
        "kernel f(A: f32[M, N]) -> s: f32[M], m: f32[M]:\n    s[i] = sum[j](A[i, j] + 1)\n    m[i] = max[j](A[i, j])\n"
    )
    a = random.standard_normal((3, 1_500_000)).astype(np.float32)
    refs = reference(k, {"M": 3, "N": 1_500_000}, {"A": a})
    np.testing.assert_allclose(refs["s"].value, (a.astype(np.float64) + 1).sum(axis=1), rtol=1e-12)
    assert (refs["m"].value == a.max(axis=1)).all()


def test_what_no_equation_writes() -> None:
    k = kernel("kernel f(A: f32[N]) -> B: f32[N]:\n    B[i] = A[i] for i >= 2\n")
    ref = reference(k, {"N": 4}, {"A": np.ones(4, np.float32)})["B"]
    assert (ref.written == [False, False, True, True]).all()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    B[i] = A[i + 1]\n", r"A\[4\], which is outside the tensor"),
        ("    var t: f32[N]\n    t[i] = A[i] for i >= 1\n    B[i] = t[i]\n", r"t\[0\], which has no value"),
    ],
)
def test_bad_reads_are_found(body: str, message: str) -> None:
    k = kernel("kernel f(A: f32[N]) -> B: f32[N]:\n" + body)
    with pytest.raises(InterpreterError, match=message):
        reference(k, {"N": 4}, {"A": np.ones(4, np.float32)})
    with pytest.raises(InterpreterError):
        run(tree_of(k), {"N": 4}, {"A": np.ones(4, np.float32)})


def test_products_cut_into_parts_agree_with_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (random.standard_normal(s).astype(np.float32) for s in ((3, 17, 30), (3, 30, 23)))
    text = "kernel f(A: f32[L, M, K], B: f32[L, K, N]) -> C: f32[L, M, N]:\n"
    k = kernel(text + "    C[l, i, j] = sum[k](A[l, i, k] * B[l, k, j])\n")
    sizes = {"L": 3, "M": 17, "N": 23, "K": 30}
    whole = reference(k, sizes, {"A": a, "B": b})["C"]
    monkeypatch.setattr("tilegen.interpreter.expected.products._LARGEST_FACTOR", 200)
    parts = reference(k, sizes, {"A": a, "B": b})["C"]
    np.testing.assert_allclose(parts.value, whole.value, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(parts.bound, whole.bound, rtol=1e-12)
    assert parts.written.all()
