"""How far off a linear recurrence may be whose steps are taken together: any grouping is within it, and no fault is."""

from fractions import Fraction

import numpy as np
import pytest

from tilegen import load
from tilegen.interpreter import reference, run
from tilegen.ir.comparison.tolerance import Tolerance, tolerance_of

TEXT = """
kernel f(a: {0}[N], b: {0}[N]) -> y: {0}[N]:
    y[i] = a[i] * (y[i - 1] else 0) + b[i]

schedule running for f():
    scan(y) -> run

schedule tiles for f():
    split_scan(y, 4) -> total, local, ahead, factor, factors
    split_scan(ahead, 2) -> sums, inner, outer, one, several
"""
KERNEL = load(TEXT.format("f32")).kernel().ir
GROUPED = Tolerance(regrouped=("y",))


def bounds(a, b, tolerance=GROUPED):
    arrays = {name: np.array(values, np.float32) for name, values in (("a", a), ("b", b))}
    found = reference(KERNEL, {"N": len(a)}, arrays, tolerance)["y"]
    return found.value, found.bound


def test_trees_say_which_recurrences_they_regroup():
    module = load(TEXT.format("f32"))
    assert [tolerance_of(module.schedule(name).tree) for name in ("running", "tiles")] == [GROUPED, GROUPED]
    assert tolerance_of(module.kernel().schedule().tree) == Tolerance()


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16"])
@pytest.mark.parametrize("size", [0.5, 1.0, 1.5])
def test_groups_are_within_it_and_the_exact_result_is(dtype, size):
    module, kinds = load(TEXT.format(dtype)), {"f64": np.float64, "f32": np.float32, "f16": np.float16}
    rng = np.random.default_rng(0)
    for _ in range(4):
        arrays = {name: (size * rng.standard_normal(23)).astype(kinds[dtype]) for name in "ab"}
        found = reference(module.kernel().ir, {"N": 23}, arrays, GROUPED)["y"]
        assert np.isfinite(found.bound).all() or dtype == "f16"
        for name in ("running", "tiles"):
            result = run(module.schedule(name).tree, {"N": 23}, arrays)["y"].astype(np.float64)
            assert (np.abs(result - found.value) <= found.bound).all()
        exact = Fraction(0)
        for i, (a, b) in enumerate(zip(*arrays.values(), strict=True)):
            exact = Fraction(float(a)) * exact + Fraction(float(b))
            assert abs(float(exact) - found.value[i]) <= max(found.bound[i], 0)


def test_a_step_left_out_is_not_within_it():
    a, b = np.full(40, 0.9), np.linspace(1, 2, 40)
    value, bound = bounds(a, b)
    less = bounds(np.where(np.arange(40) == 20, 1.0, a), b)[0]
    assert (np.abs(less - value)[20:] > bound[20:]).all()


def test_integers_are_exact_as_far_as_the_type_has_them():
    assert bounds([2] * 20, [1] * 20)[1].tolist() == [0] * 20
    assert bounds([2] * 30, [1] * 30)[1][-1] > 0


def test_nothing_is_known_where_a_group_may_be_too_large():
    """The factors alone are, and 0 times what they come to is nan."""
    value, bound = bounds([0, 1e30, 1e30, 0, 1], [0, 0, 0, 1, 1])
    assert value.tolist() == [0, 0, 0, 1, 2]
    assert np.isinf(bound).tolist() == [False, False, True, True, True]
    value, bound = bounds([1, 1, 0, 1], [1, np.inf, 1, 1])
    assert np.isinf(bound).tolist() == [False, True, True, True]
    assert np.isfinite(bounds([1e30, 1e30, 1], [0, 0, 1], Tolerance())[1]).all()


def test_nan_stays_in_all_that_come_after_it():
    for place in ("a", "b"):
        arrays = {"a": [0.5] * 6, "b": [1.0] * 6}
        arrays[place][2] = np.nan
        value, bound = bounds(arrays["a"], arrays["b"])
        assert np.isnan(value).tolist() == [False] * 2 + [True] * 4
        assert (bound[2:] == 0).all()
