"""skew: diagonals of two loops, which run every pair once, and what it takes."""

import numpy as np
import pytest

from tests.support.written import tree_from
from tilegen.errors import StepError
from tilegen.interpreter import run
from tilegen.ir.walk import loops
from tilegen.lowering import lower
from tilegen.proof import prove

COPY = """
kernel copy(X: f32[M, N]) -> Y: f32[M, N]:
    Y[i, j] = X[i, j]

schedule diagonals for copy():
    skew(i, j) -> d
    bind(d, block.x)
    bind(j, block.y)

schedule tiles for copy():
    tile(i, 4) -> bi, ti
    order(bi, j, ti)
    skew(bi, j) -> d
    bind(d, block.x)
    bind(ti, thread.x)
"""
SUMS = """
kernel sums(X: f32[M, N]) -> y: f32[M]:
    y[i] = sum[j](X[i, j])

schedule s for sums():
"""


@pytest.mark.parametrize(("name", "extent"), [("diagonals", "M + N - 1"), ("tiles", "N + (M + 3)/4 - 1")])
def test_every_pair_runs_once(name, extent):
    tree = tree_from(COPY, name)
    assert str(next(loop.extent for loop in loops(tree.body) if loop.name == "d")) == extent
    assert prove(tree.kernel, lower(tree)).verdict == "proved"
    for rows, columns in ((1, 1), (3, 5), (9, 2)):
        x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
        assert np.array_equal(run(tree, {"M": rows, "N": columns}, {"X": x})["Y"], x)


def test_both_loops_are_around_all_that_runs():
    with pytest.raises(StepError, match=r"'y.init' is in 'i', and in no 'j' inside of it"):
        tree_from(SUMS + "    skew(i, j) -> d\n")
