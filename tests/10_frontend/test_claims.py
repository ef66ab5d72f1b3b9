"""What a kernel says that it approximates: the kernels that its results are held against."""

import tilegen
from tilegen.ir.comparison.alike import find_difference
from tilegen.ir.comparison.tolerance import tolerance_of
from tilegen.lab.checks.check import cases

ROUNDED = """
kernel product(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N], D: f32[M, N]:
    var R: bf16[M, K], most: f32[M]
    R[r, c] = bf16(A[r, c])
    most[i] = max[k](abs(A[i, k]))
    C[i, j] = sum[k](f32(R[i, k]) * B[k, j])
    D[i, j] = C[i, j] + most[i]
    C[i, j] approximates sum[k](A[i, k] * B[k, j]) within sum[k](most[i] * abs(B[k, j]) * 2**-8)
"""
EXACT = """
kernel exact(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N], D: f32[M, N]:
    var most: f32[M]
    most[i] = max[k](abs(A[i, k]))
    C[i, j] = sum[k](A[i, k] * B[k, j])
    D[i, j] = C[i, j] + most[i]
"""


def kernel(text):
    return tilegen.load(text).kernel().ir


def test_what_is_meant_has_the_equations_of_the_claims_and_what_they_need() -> None:
    written = kernel(ROUNDED)
    assert find_difference(written.meant_kernel, kernel(EXACT)) is None
    assert [e.target for e in written.equations] == ["R", "most", "C", "D"]


def test_the_slack_has_the_outputs_that_have_some() -> None:
    slack = kernel(ROUNDED).slack
    assert slack is not None
    assert [t.name for t in slack.tensors] == ["A", "B", "C", "most"]
    assert [e.target for e in slack.equations] == ["most", "C"]


def test_a_kernel_without_claims_means_itself() -> None:
    written = kernel(EXACT)
    assert written.meant_kernel is written
    assert written.slack is None


def test_a_kernel_that_steps_have_derived_means_what_the_one_as_written_does() -> None:
    derived = (
        tilegen.load(ROUNDED).kernel().schedule().tile("C.k", 8, into=("ko", "ki")).rfactor("C", "ko", into="part")
    )
    assert derived.kernel.meant_kernel == kernel(ROUNDED).meant
    assert tolerance_of(derived.tree).claimed == kernel(ROUNDED)


def test_integers_are_tried_where_both_kernels_keep_them() -> None:
    text = "kernel f(A: f32[N]) -> B: f32[N]:\n    B[i] = {}\n    B[i] approximates A[i] within abs(A[i]) * 2**-20\n"
    for value, kinds in (("A[i] + 0", ["integers", "random"]), ("A[i] * 3 / 3", ["random"])):
        tree = tilegen.load(text.format(value)).kernel().schedule().tree
        assert [case.data for case in cases(tree.kernel, [{"N": 5}], tolerance_of(tree))] == kinds
