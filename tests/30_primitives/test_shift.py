"""shift and anchor: tiles from the first iteration of a row on, and what these steps take."""

import numpy as np
import pytest

from tests.support.written import tree_from
from tilegen.errors import IllegalStep, StepError
from tilegen.interpreter import run
from tilegen.lowering import lower
from tilegen.proof import prove

UPPER = """
kernel behind(X: f32[N]) -> y: f32[N]:
    y[i] = sum[j >= i](X[j])

schedule s for behind():
    bind(i, block.x)
    shift(j, i) -> d
    tile(d, 4) -> b, t
"""
ROWS = """
kernel scaled(X: f32[N], w: f32[G], start: i32[G + 1]) -> Y: f32[N] where rising(start, N):
    Y[i] = X[i] * w[g] for i in start[g]..start[g + 1]

schedule s for scaled():
    anchor(Y) -> s
    order(g, s, i)
    shift(i, s) -> r
    tile(r, 4) -> b, t
    bind(g, block.y)
    bind(t, thread.x)
"""
SUMS = """
kernel sums(x: f32[N], start: i32[G + 1]) -> y: f32[G] where rising(start, N):
    y[g] = sum[i in start[g]..start[g + 1]](x[i])

schedule s for sums():
    anchor(y) -> s
    order(g, s, i)
    shift(i, s) -> r
    bind(g, block.x)
"""


def test_a_triangle_is_counted_from_its_first_iteration():
    tree = tree_from(UPPER)
    assert prove(tree.kernel, lower(tree)).verdict == "proved"
    for n in (1, 3, 9):
        x = np.arange(n, dtype=np.float32)
        assert np.array_equal(run(tree, {"N": n}, {"X": x})["y"], x[::-1].cumsum()[::-1])


@pytest.mark.parametrize("starts", [[0, 7], [0, 0, 0, 7, 7], [0, 1, 4, 6, 7]])
def test_rows_are_counted_from_their_start(starts):
    x, groups, start = np.arange(1, 8, dtype=np.float32), len(starts) - 1, np.array(starts, np.int32)
    for text in (ROWS, SUMS):
        tree = tree_from(text)
        assert prove(tree.kernel, lower(tree), tree.reassociated).verdict == "proved"
        w = np.arange(2, 2 + groups, dtype=np.float32)
        given = {"x": x, "start": start} if text is SUMS else {"X": x, "w": w, "start": start}
        found = run(tree, {"N": 7, "G": groups}, given)
        if text is SUMS:
            assert np.array_equal(found["y"], [x[a:b].sum() for a, b in zip(starts, starts[1:], strict=False)])
        else:
            assert np.array_equal(found["Y"], x * w.repeat(np.diff(starts)))


def test_no_iteration_is_left_out():
    with pytest.raises(IllegalStep, match="an instance of 'y' never runs"):
        tree_from(UPPER.replace("j >= i", "j"))


def test_the_other_loop_is_around_it():
    with pytest.raises(StepError, match=r"'y.init' is in 'i', and in no 'j' around it"):
        tree_from(UPPER.replace("shift(j, i)", "shift(i, j)").replace("    bind(i, block.x)\n", ""))


def test_a_row_has_a_start():
    with pytest.raises(StepError, match="is no reduction"):
        tree_from(ROWS.replace("X[i] * w[g] for i in start[g]..start[g + 1]", "X[i]"))
    with pytest.raises(StepError, match="begin at no row's start"):
        tree_from(UPPER.replace("    bind(i, block.x)\n    shift(j, i) -> d", "    anchor(y) -> d"))


def test_what_lives_in_an_iteration_goes_along():
    text = UPPER.replace("    tile(d, 4) -> b, t\n", "").replace(
        "    shift(j, i) -> d\n", "    cache_register(X, at=j) -> kept\n    shift(j, i) -> d\n"
    )
    tree = tree_from(text)
    assert tree.buffer("kept").scope == "d"
    assert prove(tree.kernel, lower(tree)).verdict == "proved"
