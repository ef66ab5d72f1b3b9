"""Several block loops on one axis of the grid: a block's number along it has a digit for each."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.simulator.threads import faults
from tests.support.stock import schedule_stock
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.errors import LimitError
from tilegen.judge import judge
from tilegen.lowering import lower
from tilegen.proof import prove

FOUR = """
kernel copy(X: f32[B, H, M, N]) -> Y: f32[B, H, M, N]:
    Y[b, h, i, j] = X[b, h, i, j]

schedule s for copy():
    tile(j, 4) -> bj, tj
    bind(b, block.x)
    bind(h, block.x)
    bind(i, block.y)
    bind(bj, block.x)
    bind(tj, thread.x)
"""


def test_the_blocks_of_an_axis_are_the_product_of_its_loops():
    (launch,) = lower(tree_from(FOUR))
    sizes = {"B": 3, "H": 5, "M": 2, "N": 9}
    assert [along.evaluate(sizes) for along in launch.grid] == [3 * 5 * 3, 2, 1]
    assert str(launch.grid[0]) == "B*H*((N + 3)/4)"
    assert "grid (B*H*ceil(N/4), M)" in emit([launch])


@pytest.mark.parametrize("language", ["cuda", "opencl"])
def test_a_loop_is_a_digit_of_the_number(language):
    (launch,) = lower(tree_from(FOUR))
    axis = "blockIdx.x" if language == "cuda" else "get_group_id(0)"
    lines = [line.split("  //")[0].strip() for line in emit([launch], language).splitlines() if axis in line]
    assert lines == [
        f"const int b = {axis} / ((N + 3) / 4) / H;",
        f"const int h = {axis} / ((N + 3) / 4) % H;",
        f"const int bj = {axis} % ((N + 3) / 4);",
    ]


def test_a_loop_of_one_thread_has_no_coordinate():
    """Where the tile of one warp is all that there is along an axis, no text names it."""
    steps = """    tile(tj, parts=1) -> wj, tj
    bind(wj, thread.y)
    bind(b,"""
    tree = tree_from(FOUR.replace("    bind(b,", steps))
    launches = lower(tree)
    assert "threadIdx.y" not in emit(launches)
    assert prove(tree.kernel, launches).verdict == "proved"


def test_a_size_that_a_digit_alone_speaks_of_is_a_parameter():
    text = """
kernel column(X: f32[B, H, 8]) -> y: f32[H, B]:
    y[h, b] = X[b, h, 0]

schedule s for column():
    order(b, h)
    bind(b, block.x)
    bind(h, block.x)
"""
    (launch,) = lower(tree_from(text))
    assert launch.sizes == ("B", "H")


@pytest.mark.parametrize("sizes", [{"B": 2, "H": 3, "M": 2, "N": 5}, {"B": 1, "H": 1, "M": 1, "N": 4}])
def test_what_the_threads_do_is_the_kernel(sizes):
    tree = tree_from(FOUR)
    for vector in (True, False):
        launches = lower(tree, vector=vector)
        assert prove(tree.kernel, launches).verdict == "proved"
        assert faults(launches, tree, sizes) is None


def test_digits_in_another_order_are_another_kernel():
    tree = schedule_stock("gemm_batched", "tiled").tree
    (launch,) = lower(tree)
    b, h, *rest = launch.coordinates
    assert [b[:2], h[:2]] == [("b", "block.z"), ("h", "block.z")]
    wrong = replace(launch, coordinates=(h, b, *rest))
    assert prove(tree.kernel, (wrong,)).verdict != "proved"
    short = replace(launch.grid[2], factors=launch.grid[2].factors[:1])
    assert prove(tree.kernel, (replace(launch, grid=(*launch.grid[:2], short)),)).verdict != "proved"


def test_iterations_of_any_of_them_run_at_once():
    text = """
kernel total(X: f32[B, H]) -> y: f32[B]:
    y[b] = sum[h](X[b, h])

schedule s for total():
    reassociate(y)
"""
    tree = tree_from(text)

    def bind_nest(node):
        return replace(node, kind="block.x", body=tuple(map(bind_nest, node.body))) if hasattr(node, "kind") else node

    violation = judge(replace(tree, body=tuple(map(bind_nest, tree.body))))
    assert violation is not None
    assert "'y.init' in the same launch is not in all of them" in violation.sentence


@pytest.mark.pocl
def test_on_the_cpu():
    import tilegen

    batched = tilegen.load("gemm_batched").schedule("tiled", TS=4).compile()
    rng = np.random.default_rng(3)
    a, v = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((2, 3, 5, 6), (2, 3, 6, 7)))
    np.testing.assert_array_equal(np.asarray(batched(a, v)), a @ v)


@pytest.mark.pocl
def test_too_many_blocks_are_told_before_the_run():
    import tilegen

    text = tilegen.load("kernel copy(X: i8[B, H]) -> Y: i8[B, H]:\n    Y[b, h] = X[b, h]\n")
    copy = text.kernel().schedule().bind("b", "block.z").bind("h", "block.z").compile()
    with pytest.raises(LimitError, match="90000 blocks along z"):
        copy(np.zeros((300, 300), np.int8))
