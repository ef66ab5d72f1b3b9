"""Advice that is taken: where a message proposes lines, these lines are accepted, and mean what was meant."""

import re

import numpy as np
import pytest

from tilegen import load
from tilegen.errors import SourceError
from tilegen.interpreter import reference

# A kernel with a reduction inside an expression, and what numpy says that it is (A: 4 x 5, B: 5 x 4, x: 5).
NESTED = {
    "of the left index": ("-> C: f32[M]", "C[i] = sqrt(sum[k](A[i, k]**2))", lambda a, b, x: np.sqrt((a**2).sum(1))),
    "with more on the left": (
        "-> C: f32[M, K]",
        "C[i, k] = A[i, k] / (1 + max[l](abs(A[i, l])))",
        lambda a, b, x: a / (1 + np.abs(a).max(1))[:, None],
    ),
    "of no index": ("-> C: f32[K]", "C[k] = x[k] - sum[l](x[l]) / 5", lambda a, b, x: x - x.sum() / 5),
    "inside of a reduction": (
        "-> C: f32[M]",
        "C[i] = sum[k](A[i, k] * max[l](B[k, l]))",
        lambda a, b, x: a @ b.max(1),
    ),
    "of both": (
        "-> C: f32[M]",
        "C[i] = sum[k](x[k] * max[l](B[k, l] * A[i, k]))",
        lambda a, b, x: (x * (b[None] * a[:, :, None]).max(2)).sum(1),
    ),
    "three deep": (
        "-> C: f32[M]",
        "C[i] = sum[k](A[i, k] * sum[l](B[k, l] * max[p](A[l, p])))",
        lambda a, b, x: a @ (b @ a.max(1)),
    ),
    "two of them": (
        "-> C: f32[M]",
        "C[i] = sum[k](A[i, k]) / max[l](A[i, l])",
        lambda a, b, x: a.sum(1) / a.max(1),
    ),
    "of another type": (
        "-> C: i32[M]",
        "C[i] = i32(sum[k](A[i, k]) * 8)",
        lambda a, b, x: (a.sum(1, dtype=np.float32) * 8).astype(np.int32),
    ),
    "an index": ("-> C: f32[M]", "C[i] = f32(argmax[k](A[i, k])) + 0.5", lambda a, b, x: a.argmax(1) + 0.5),
    "at an index that is moved": (
        "-> C: f32[M + 1]",
        "C[i + 1] = 2 * sum[k](A[i, k]) for i < M",
        lambda a, b, x: np.concatenate([[0], 2 * a.sum(1)]),
    ),
    "at some points": (
        "-> C: f32[M]",
        "C[i] = 2 * sum[k](A[i + 1, k]) for i < M - 1",
        lambda a, b, x: np.concatenate([2 * a[1:].sum(1), [0]]),
    ),
    "with a triangle": (
        "-> C: f32[M]",
        "C[i] = 1 + sum[k <= i](A[i, k])",
        lambda a, b, x: 1 + np.array([a[i, : i + 1].sum() for i in range(4)]),
    ),
    "with a range outside": (
        "-> C: f32[M]",
        "C[i] = sum[k in 1..K](A[i, k] * sum[l](B[k, l]))",
        lambda a, b, x: a[:, 1:] @ b[1:].sum(1),
    ),
    "in a choice, with a fallback": (
        "-> C: f32[M]",
        "C[i] = (sum[k]((A[i - 1, k] else 0)) if i % 2 == 1 else x[0]) * 2",
        lambda a, b, x: 2 * np.where(np.arange(4) % 2 == 1, np.roll(a, 1, 0).sum(1), x[0]),
    ),
    "beside names that are taken": (
        "-> t: f32[M]",
        "t[z] = sqrt(sum[u](A[z, u]) + 99)",
        lambda a, b, x: np.sqrt(a.sum(1) + 99),
    ),
    "over two lines": (
        "-> C: f32[M]",
        "C[i] = 2 * (sum[k](A[i, k] *\n        x[k]))",
        lambda a, b, x: 2 * (a @ x),
    ),
}


def head(outputs: str) -> str:
    return f"kernel k(A: f32[M, K], B: f32[K, M], x: f32[K]) {outputs}:\n"


@pytest.mark.parametrize("what", NESTED)
def test_a_reduction_inside_an_expression_has_a_tensor_of_its_own(what) -> None:
    outputs, equation, numpy = NESTED[what]
    kernel = load(head(outputs) + f"    {equation}\n").kernel().ir
    rng = np.random.default_rng(0)
    arrays = {n: rng.integers(1, 9, shape).astype(np.float32) for n, shape in (("A", (4, 5)), ("B", (5, 4)), ("x", 5))}
    (name,) = [t.name for t in kernel.tensors if t.role == "output"]
    found = reference(kernel, {"M": 4, "K": 5}, arrays)[name]
    wanted = numpy(arrays["A"], arrays["B"], arrays["x"])
    assert np.allclose(np.where(found.written, found.value, 0), wanted, rtol=1e-5)
    assert all(t.name.startswith(f"{name}.") for t in kernel.tensors if t.role == "intermediate")


def test_an_index_that_nothing_binds_can_be_reduced_as_proposed() -> None:
    with pytest.raises(SourceError) as caught:
        load(head("-> C: f32[M]") + "    C[i] = A[i, q]\n").kernel()
    (way,) = re.findall(r"write (sum\[q\])\(\.\.\.\)", " ".join(caught.value.notes))
    assert load(head("-> C: f32[M]") + f"    C[i] = {way}(A[i, q])\n").kernel()


@pytest.mark.parametrize(
    ("equation", "change"),
    [
        ("C[i] = f64(A[i, 0])", ("f64(A[i, 0])", "f32(f64(A[i, 0]))")),
        ("C[i] = sum[k](f64(A[i, k]))", ("f64(A[i, k])", "f32(f64(A[i, k]))")),
        ("C[i] = A[i, 0] > 0", ("A[i, 0] > 0", "f32(A[i, 0] > 0)")),
        ("C[i] = A[i, 0] > 0", ("A[i, 0] > 0", "1 if A[i, 0] > 0 else 0")),
    ],
)
def test_a_cast_that_is_proposed(equation, change) -> None:
    with pytest.raises(SourceError) as caught:
        load(head("-> C: f32[M]") + f"    {equation}\n").kernel()
    assert "f32(...)" in " ".join(caught.value.notes)
    assert load(head("-> C: f32[M]") + f"    {equation.replace(*change)}\n").kernel()
