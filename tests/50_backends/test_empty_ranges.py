"""A launch of no blocks: a range that is empty at some sizes is no mistake, and no device is asked to run it."""

import numpy as np
import pytest

from tilegen import load

SHIFTED = "kernel shifted(X: i32[N]) -> out: i32[N]:\n    out[i + 9] = X[N - 1 - i] + 1 for i < N - 9\n"
TWO = (
    "kernel two(X: i32[N]) -> out: i32[N, N]:\n"
    "    out[i + 5, j + 5] = X[i] + X[j] for i < N - 5 and j < N - 5 and i >= 0 and j >= 0\n"
)


def blocks(text, loops):
    """The loops in tiles of four, the tiles along block.x."""
    scheduled = load(text).kernel().schedule()
    for loop in loops:
        scheduled = scheduled.tile(loop, 4, into=(f"b{loop}", f"t{loop}"))
    scheduled = scheduled.order(*(f"b{loop}" for loop in loops), *(f"t{loop}" for loop in loops))
    for loop in loops:
        scheduled = scheduled.bind(f"b{loop}", "block.x")
    return scheduled.compile("cpu")


@pytest.mark.pocl
@pytest.mark.parametrize("n", [1, 5, 9, 10, 23])
def test_an_empty_range_runs_nothing(n):
    x = np.arange(n, dtype=np.int32)
    right = np.zeros(n, np.int32)
    right[9:] = x[::-1][: max(0, n - 9)] + 1
    assert np.array_equal(blocks(SHIFTED, "i")(x), right)


@pytest.mark.pocl
@pytest.mark.parametrize("n", [1, 5, 7])
def test_two_empty_ranges_of_one_axis_are_empty_together(n):
    x = np.arange(n, dtype=np.int32)
    right = np.zeros((n, n), np.int32)
    right[5:, 5:] = (x[:, None] + x)[: max(0, n - 5), : max(0, n - 5)]
    assert np.array_equal(blocks(TWO, "ij")(x), right)
