"""Several copies of one buffer, each with a name of its own."""

import numpy as np
import pytest

from tests.support.stock import schedule_stock
from tests.support.written import tree_from
from tilegen.interpreter import reference, run
from tilegen.lowering import lower
from tilegen.proof import prove

TWO = """
kernel products(A: f32[M, K]) -> C: f32[M, M]:
    C[i, j] = sum[k](A[i, k] * A[j, k])

schedule s for products():
    tile(i, 8) -> bi, ti
    tile(j, 4) -> bj, tj
    tile(k, 4) -> ko, ki
    order(bi, bj, ko, ti, tj, ki)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(ti, thread.y)
    bind(tj, thread.x)
    cache_register(C, at=bj) -> sums
"""
SHARED = """
    cache_shared(A, at=ko, using=[ti]) -> rows
    cache_shared(A, at=ko, using=[tj]) -> columns
    pad(columns, 1)
"""
REGISTERS = """
    cache_register(A, at=tj, using=[ti]) -> row
    cache_register(A, at=tj, using=[tj]) -> column
"""
BOTH = """
    cache_shared(A, at=ko, using=[ti], vector=2)
    cache_shared(A, at=ko, using=[tj], layout=[k, i], vector=2) -> columns
    cache_register(A.shared, at=ki)
    cache_register(columns, at=ki) -> column
    pipeline(ko, 2)
"""


def _matrix(kernel, sizes):
    rng = np.random.default_rng(7)
    return {"A": rng.integers(-4, 5, [e.evaluate(sizes) for e in kernel.tensor("A").shape]).astype(np.float32)}


@pytest.mark.parametrize(
    ("steps", "copies"),
    [
        (SHARED, {"sums", "rows", "columns"}),
        (REGISTERS, {"sums", "row", "column"}),
        (BOTH, {"sums", "A.shared", "columns", "A.shared.reg", "column"}),
    ],
)
def test_two_copies_of_one_tensor(steps, copies):
    tree = tree_from(TWO + steps)
    assert {b.name for b in tree.buffers if b.role == "copy"} == copies
    for sizes in ({"M": 9, "K": 5}, {"M": 8, "K": 8}, {"M": 1, "K": 1}):
        arrays = _matrix(tree.kernel, sizes)
        np.testing.assert_array_equal(run(tree, sizes, arrays)["C"], arrays["A"] @ arrays["A"].T)
    for vector in (True, False):
        assert prove(tree.kernel, lower(tree, vector=vector), tree.reassociated).verdict == "proved"


def test_each_operand_of_syrk_is_read_from_a_copy_of_its_own():
    tree = schedule_stock("syrk", "registers").tree
    assert {b.name for b in tree.buffers if b.space == "shared"} == {"Ai", "Aj"}
    assert {b.copy_of for b in tree.buffers if b.space == "shared"} == {"A"}
    sizes = {"M": 17, "K": 9}
    arrays = _matrix(tree.kernel, sizes)
    want = reference(tree.kernel, sizes, arrays)["C"]
    lower_part = np.tril(np.ones((17, 17), bool))
    np.testing.assert_array_equal(want.written, lower_part)
    np.testing.assert_array_equal(run(tree, sizes, arrays)["C"][lower_part], want.value[lower_part])


def test_a_second_launch_copies_the_first_copy_under_another_name():
    text = TWO + "    cache_global(A, layout=[k, i]) -> columns\n    cache_global(A, layout=[i, k]) -> again\n"
    tree = tree_from(text)
    sizes = {"M": 5, "K": 3}
    arrays = _matrix(tree.kernel, sizes)
    np.testing.assert_array_equal(run(tree, sizes, arrays)["C"], arrays["A"] @ arrays["A"].T)


@pytest.mark.parametrize(
    ("layout", "order"),
    [("[d, b]", (0, 3, 2, 1)), ("[d, c, b, a]", (3, 2, 1, 0)), ("[b, c]", (0, 1, 2, 3)), ("[d, a, c]", (3, 1, 0, 2))],
)
def test_a_layout_names_the_dimensions_that_change_places(layout, order):
    text = "kernel t(X: f32[2, 3, 4, 5]) -> Y: f32[2, 3, 4, 5]:\n    Y[a, b, c, d] = X[a, b, c, d]\n"
    for step, name in (
        (f"cache_global(X, layout={layout})", "global"),
        (f"cache_shared(X, at=a, layout={layout})", "shared"),
    ):
        tree = tree_from(f"{text}schedule s for t:\n    {step}\n")
        assert tree.buffer(f"X.{name}").order == order
