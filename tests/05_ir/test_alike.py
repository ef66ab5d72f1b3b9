"""Two kernels that are one computation, and what tells others apart."""

import pytest

import tilegen
from tilegen.ir.comparison.alike import find_difference

ONE = """\
kernel one(A: f32[M, K], B: f32[K, N], by: f32) -> C: f32[M, N], D: f32[M]:
    C[i, j] = sum[k](A[i, k] * B[k, j])
    D[i] = by * C[i, 0]
"""


def difference(text: str) -> str | None:
    one, other = (tilegen.load(each).kernel().ir for each in (ONE, text))
    return find_difference(one, other)


@pytest.mark.parametrize(
    "text",
    [
        ONE,
        ONE.replace("one(", "two("),
        ONE.replace("[i", "[row").replace("j]", "column]").replace("k]", "z]").replace("[k", "[z"),
    ],
)
def test_names_of_kernels_and_loops_do_not_matter(text) -> None:
    assert difference(text) is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("B: f32[K, N]", "B: f32[K, N] col_major", "an input f32[K, N] in the order 1, 0 in the other"),
        ("K]", "L]", "'A' is an input f32[M, K] in one and an input f32[M, L] in the other"),
        ("by: f32", "by: f64", "'by' is a scalar f32 in one and a scalar f64"),
        ("by", "factor", "one of them has 'by', the other has not"),
        ("D: f32[M]:", "D: f32[M] where M > 3:", "assumes something of its sizes"),
        ("sum[k](", "sum[k](2 * ", "the equations of 'C' are not the same"),
        ("C[i, 0]", "C[i, 0] + 1", "the equations of 'D' are not the same"),
        ("A: f32[M, K], B: f32[K, N]", "B: f32[K, N], A: f32[M, K]", "called with A, B, by, the other with B, A"),
    ],
)  # fmt: skip
def test_all_else_does(old, new, said) -> None:
    text = ONE.replace(old, new)
    if new == "L]":
        text = text.replace("f32[K, N]", "f32[L, N]")
    if "f64" in new:
        text = text.replace("by * C", "f32(by) * C")
    assert said in (difference(text) or "")
