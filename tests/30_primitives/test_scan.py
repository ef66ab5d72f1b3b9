"""Running reductions in one pass, and in tiles: what the kernel says, however they are divided."""

from functools import partial

import numpy as np
import pytest

from tests.support.enumeration.runs import verdict
from tests.support.stored import drawn
from tests.support.written import tree_from
from tilegen import load
from tilegen.errors import StepError
from tilegen.interpreter import reference, run
from tilegen.lowering import lower
from tilegen.proof import prove

STEPS = {
    "as written": "pass",
    "running": "scan(y) -> run",
    "tiles": "split_scan(y, 4) -> total, local, ahead",
    "running tiles": """split_scan(y, 4) -> total, local, ahead
    scan(local, along=total)
    scan(ahead) -> run""",
    "tiles of tiles": """split_scan(y, 3) -> total, local, ahead
    scan(local) -> part
    split_scan(ahead, 2) -> sums, inner, outer
    scan(inner, along=sums)
    scan(outer) -> run""",
}
LINE = "kernel line(x: f32[N]) -> y: f32[N]:\n    y[i] = {}[k {} i](x[k])\n"


def scheduled(text, steps):
    name = text.split("(", 1)[0].removeprefix("kernel ")
    return tree_from(f"{text}\nschedule s for {name}():\n    {steps}\n")


def recurrence(text, steps):
    return load(f"{text}\nschedule s for f():\n    {steps}\n").schedule("s").tree


def check(tree, sizes, inputs):
    expected = reference(tree.kernel, sizes, inputs)
    there = expected["y"].written
    assert np.array_equal(run(tree, sizes, inputs)["y"][there], expected["y"].value[there], equal_nan=True)


@pytest.mark.parametrize("how", sorted(STEPS))
@pytest.mark.parametrize("compare", ["<=", "<", ">=", ">"])
@pytest.mark.parametrize("reduce", ["sum", "prod", "max", "min"])
def test_prefixes_are_those_of_the_kernel(reduce, compare, how):
    tree = scheduled(LINE.format(reduce, compare), STEPS[how])
    for n in (1, 2, 4, 11):
        x = np.random.default_rng(n).integers(-2, 3, n).astype(np.float32)
        check(tree, {"N": n}, {"x": x})
        assert verdict(tree, {"N": n}) is None
    assert prove(tree.kernel, lower(tree)).verdict == "proved"


def test_what_they_are_is_numpy_s():
    x = np.arange(1.0, 7.0, dtype=np.float32)
    for compare, expected in (
        ("<=", np.cumsum(x)),
        ("<", np.cumsum(x) - x),
        (">=", np.cumsum(x[::-1])[::-1]),
        (">", np.cumsum(x[::-1])[::-1] - x),
    ):
        tree = scheduled(LINE.format("sum", compare), STEPS["running tiles"])
        assert np.array_equal(run(tree, {"N": 6}, {"x": x})["y"], expected)


def test_a_prefix_without_terms_is_that_of_an_empty_reduction():
    for reduce, nothing in (("sum", 0), ("prod", 1), ("max", -np.inf), ("min", np.inf)):
        tree = scheduled(LINE.format(reduce, "<"), STEPS["running"])
        assert run(tree, {"N": 1}, {"x": np.ones(1, np.float32)})["y"].tolist() == [nothing]


def test_nan_stays_in_the_prefixes_behind_it():
    x = np.array([1, 2, np.nan, 4, 5, 6], np.float32)
    for how in ("running", "running tiles"):
        tree = scheduled(LINE.format("sum", "<="), STEPS[how])
        check(tree, {"N": 6}, {"x": x})
        assert np.isnan(run(tree, {"N": 6}, {"x": x})["y"]).tolist() == [False] * 2 + [True] * 4


KERNELS = {
    "offsets": "kernel f(x: i32[N]) -> y: i32[N + 1]:\n    y[i] = sum[k < i](x[k])\n",
    "offsets from the end": "kernel f(x: i32[N]) -> y: i32[N + 1]:\n    y[i] = sum[k >= i](x[k])\n",
    "less than the terms": "kernel f(x: i32[N + 2]) -> y: i32[N]:\n    y[i] = max[k >= i](x[k])\n",
    "another axis": "kernel f(x: f32[N, M]) -> y: f32[N, M]:\n    y[i, j] = sum[k <= i](x[k, j])\n",
    "more terms": "kernel f(x: f32[N, M]) -> y: f32[M, N]:\n    y[r, i] = sum[k <= i, j](x[k, j]) for r > 0\n",
    "masked": "kernel f(x: f32[M, N]) -> y: f32[M, N]:\n    y[r, i] = sum[k <= i, k < r + 3](x[r, k]) for i < 9\n",
    "chosen": "kernel f(x: f32[N]) -> y: f32[N]:\n    y[i] = prod[k < i](x[k] if x[k] > 0 else 1)\n",
    "whole tiles": "kernel f(x: f32[N]) -> y: f32[N] where N % 12 == 0:\n    y[i] = sum[k <= i](x[k])\n",
}


@pytest.mark.parametrize("how", ["running", "running tiles", "tiles of tiles"])
@pytest.mark.parametrize("name", sorted(KERNELS))
def test_other_ranges_axes_and_conditions(name, how):
    tree = scheduled(KERNELS[name], STEPS[how])
    for n in (12,) if name == "whole tiles" else (1, 2, 5, 12):
        sizes = {size: n + 2 * (size == "M") for size in tree.kernel.sizes}
        generator = np.random.default_rng(n)
        check(tree, sizes, drawn(tree.kernel, sizes, partial(generator.integers, -2, 3)))
    assert prove(tree.kernel, lower(tree)).verdict == "proved"


PAIRS = "total, local, ahead, factor, factors"
GROUPED = {
    "running": "scan(y) -> run",
    "tiles": f"split_scan(y, 4) -> {PAIRS}",
    "running tiles": f"""split_scan(y, 4) -> {PAIRS}
    scan(local, along=total)
    scan(factors, along=factor)
    scan(ahead) -> run""",
    "tiles of tiles": f"""split_scan(y, 3) -> {PAIRS}
    scan(local) -> part
    split_scan(ahead, 2) -> sums, inner, outer, one, several
    split_scan(factors, 2) -> some, few, before
    scan(inner, along=sums)
    scan(outer) -> run""",
}
RECURRENCES = {
    "a factor and a term": "y[r, i] = a[r, i] * (y[r, i - 1] else 0) + b[r, i]",
    "from the end": "y[r, i] = b[r, i] - (y[r, i + 1] else 0) * a[r, 0]",
    "begun by a choice": "y[r, i] = b[r, 0] if i == 0 else a[r, i] * y[r, i - 1] - b[r, i]",
    "begun by another choice": "y[r, i] = a[0, i] * y[r, i - 1] if i > 0 else 3",
    "a choice of factors": "y[r, i] = -(y[r, i - 1] else 0) if a[r, i] > 0 else 2 * (y[r, i - 1] else 0) + b[r, i]",
    "one of a sum": "y[r, i] = 2 * ((y[r, i - 1] else 0) + b[r, i]) for r > 0",
    "along columns": "y[r, i] = (y[r - 1, i] else 0) * b[r, i] + i",
}


@pytest.mark.parametrize("how", sorted(GROUPED))
@pytest.mark.parametrize("name", sorted(RECURRENCES))
def test_linear_recurrences_are_those_of_the_kernel(name, how):
    head = "kernel f(a: i32[M, N], b: i32[M, N]) -> y: i32[M, N]:\n"
    tree = recurrence(f"{head}    {RECURRENCES[name]}\n", GROUPED[how])
    for n in (1, 2, 5):
        sizes = {"M": 3, "N": n}
        check(tree, sizes, drawn(tree.kernel, sizes, partial(np.random.default_rng(n).integers, -2, 3)))
        assert verdict(tree, sizes) is None
    assert prove(tree.kernel, lower(tree)).verdict == "proved"


@pytest.mark.parametrize("value", [
    "a[i] * (y[i - 2] else 0) + b[i]",
    "a[i] * (y[i - 1] else 1) + b[i]",
    "a[i] * (y[i - 1] else 0) * (y[i - 1] else 0) + b[i]",
    "b[i] if a[i] > 0 else 2 * (y[i - 1] else 0)",  # after an infinite element, 0 times it is nan
    "max(y[i - 1] else 0, b[i])",
])  # fmt: skip
def test_other_recurrences_are_refused(value):
    text = f"kernel f(a: f32[N], b: f32[N]) -> y: f32[N]:\n    y[i] = {value}\n"
    with pytest.raises(StepError, match="is a recurrence that is not linear in the element before"):
        recurrence(text, GROUPED["running"])


def test_tiles_of_a_recurrence_have_factors():
    text = "kernel f(a: f32[N]) -> y: f32[N]:\n    y[i] = {}\n"
    for value, names, kind in (
        ("a[i] * (y[i - 1] else 0)", "t, l, h", "'y' is a linear recurrence, and split_scan makes 5 tensors of it"),
        ("sum[k <= i](a[k])", PAIRS, "'y' is a sum, and split_scan makes 3 tensors of it"),
    ):
        with pytest.raises(StepError, match=kind):
            recurrence(text.format(value), f"split_scan(y, 4) -> {names}")
