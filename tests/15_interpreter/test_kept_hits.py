"""Lists: what a kernel means, at the edges too, and that a check knows a right list from a wrong one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.written import built
from tilegen.interpreter import reference, run

KEPT = "kernel kept(X: f32[N], least: f32) -> Y: f32[C], n: i32[1]:\n    Y[n[o]] = {}[i](X[i] if X[i] >= least)\n"


def _kept(word, x, least, capacity):
    """(the interpreter's list and count, the reference's)."""
    tree, x = built(KEPT.format(word)), np.asarray(x, np.float32)
    sizes, arrays = {"N": len(x), "C": capacity}, {"X": x, "least": np.float32(least)}
    return run(tree, sizes, arrays), reference(tree.kernel, sizes, arrays)


@pytest.mark.parametrize("word", ["list", "unordered_list"])
@pytest.mark.parametrize(
    ("x", "least", "capacity", "wanted", "count"),
    [
        ([3, 1, 2, 5], 2, 4, [3, 2, 5], 3),
        ([3, 1, 2, 5], 9, 4, [], 0),  # no hits
        ([3, 1, 2, 5], -9, 4, [3, 1, 2, 5], 4),  # all of them
        ([3, 1, 2, 5], -9, 2, [3, 1], 4),  # more than there is room for: all are counted
        ([3, 1, 2, 5], -9, 1, [3], 4),
        ([np.nan, 1, np.inf, np.nan], 0, 4, [1, np.inf], 2),  # nothing compares with nan
        ([1, 2], np.nan, 2, [], 0),
    ],
)
def test_a_list_keeps_hits_in_the_order_of_the_loops(word, x, least, capacity, wanted, count):
    got, expected = _kept(word, x, least, capacity)
    assert got["n"].tolist() == expected["n"].value.tolist() == [count]
    kept = len(wanted)
    np.testing.assert_array_equal(got["Y"][:kept], np.asarray(wanted, np.float32))
    np.testing.assert_array_equal(expected["Y"].value[:kept], np.asarray(wanted, np.float32))
    assert np.isnan(got["Y"][kept:]).all()  # nothing is written there
    assert expected["Y"].written.tolist() == [True] * kept + [False] * (capacity - kept)


def test_what_is_not_equal_to_itself_is_a_hit():
    tree = built("kernel f(X: f32[N]) -> at: i64[N], n: i64[1]:\n    at[n[o]] = list[i](i if X[i] != X[i])\n")
    x = np.array([0, np.nan, 1, np.nan], np.float32)
    assert run(tree, {"N": 4}, {"X": x})["at"][:2].tolist() == [1, 3]
    assert reference(tree.kernel, {"N": 4}, {"X": x})["at"].value[:2].tolist() == [1, 3]


def test_pairs_and_lists_of_rows():
    text = (
        "kernel f(X: i32[M, N]) -> at: i32[M, C, 2], n: i32[M]:\n"
        "    at[r, n[r]] = list[i]((i, X[r, i]) if X[r, i] > 0 and i > 0) for r > 0\n"
    )
    tree, x = built(text), np.array([[7, 7, 7], [7, 8, 0], [0, 9, 10]], np.int32)
    sizes = {"M": 3, "N": 3, "C": 2}
    got, expected = run(tree, sizes, {"X": x}), reference(tree.kernel, sizes, {"X": x})
    assert got["n"][1:].tolist() == expected["n"].value[1:].tolist() == [1, 2]
    assert not expected["n"].written[0]
    assert got["at"][2].tolist() == expected["at"].value[2].tolist() == [[1, 9], [2, 10]]
    assert expected["at"].written[:, :, 0].tolist() == [[False, False], [True, False], [True, True]]


@pytest.mark.parametrize(
    ("got", "right"),
    [
        ([3, 2, 5], True), ([5, 3, 2], True), ([5, 3, 3], False), ([5, 3, 1], False), ([5, 3, np.nan], False),
    ],
)  # fmt: skip
def test_an_unordered_list_is_right_in_any_order(got, right):
    _, expected = _kept("unordered_list", [3, 1, 2, 5], 2, 3)
    assert (expected["Y"].gap(np.asarray(got, np.float32)).max() == 0) == right
    _, expected = _kept("unordered_list", [3, 3, 2, 5, 5], 2, 3)  # any three of the five
    assert expected["Y"].gap(np.float32([5, 5, 3])).max() == 0
    assert expected["Y"].gap(np.float32([2, 2, 3])).tolist() == [0, np.inf, 0]


def test_places_behind_a_doubtful_hit_are_not_known():
    text = "kernel f(A: f32[N], B: f32[N]) -> at: i32[N], n: i32[1]:\n    at[n[o]] = list[i](i if A[i] * B[i] >= 1)\n"
    third = np.float32(1) / 3
    arrays = {"A": np.float32([2, third, 0, 2]), "B": np.float32([1, 3, 0, 1])}
    expected = reference(built(text).kernel, {"N": 4}, arrays)
    assert expected["n"].bound.tolist() == [1]
    assert expected["at"].value[0] == 0
    assert expected["at"].bound.tolist()[:3] == [0, np.inf, np.inf]


def test_values_that_are_not_exact_are_compared_by_their_order():
    text = "kernel f(X: f32[N]) -> Y: f32[N], n: i32[1]:\n    Y[n[o]] = unordered_list[i](X[i] * X[i] if X[i] > 0)\n"
    x = np.random.default_rng(3).standard_normal(50).astype(np.float32)
    expected = reference(built(text).kernel, {"N": 50}, {"X": x})
    hits = (x * x)[x > 0][::-1]
    got = np.concatenate([hits, np.zeros(50 - len(hits), np.float32)])
    assert expected["Y"].gap(got).max() == 0
    got[3] *= 1.001
    assert expected["Y"].gap(got).max() == np.inf
