"""Recurrences: the loops along which they go, and that steps keep what they read defined."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.enumeration.runs import verdict
from tilegen import load
from tilegen.errors import StepError, TilegenError
from tilegen.interpreter import reference, run
from tilegen.ir.affine import var
from tilegen.ir.nodes import Load
from tilegen.ir.printing.show import show
from tilegen.ir.written import tree_of
from tilegen.judge import judge
from tilegen.judge.kernel.recurrences import check_defined_before
from tilegen.lowering import lower
from tilegen.poly.verdict import Refused
from tilegen.proof import prove

SOLVE = """
kernel solve(L: f32[N, N], b: f32[N, R]) -> x: f32[N, R]:
    x[i, r] = b[i, r] - sum[j < i](L[i, j] * x[j, r])
"""


def kernel(text):
    return load(text).kernel().ir


def body(text):
    return show(tree_of(kernel(text))).split("\n\n")[1].strip()


@pytest.mark.parametrize(
    ("head", "equation", "loops"),
    [
        ("y: f32[N]", "y[i] = x[0, i] + (y[i - 1] else 0)", ["i"]),
        ("y: f32[M, N]", "y[i, j] = x[i, j] + (y[i, j - 1] else 0)", ["j", "i"]),
        ("y: f32[M, N]", "y[i, j] = x[i, j] + (y[i - 1, j + 1] else 0)", ["i", "j"]),
        # Neither index alone carries all of it.
        ("y: f32[M, N]", "y[i, j] = x[i, j] + (y[i - 1, j + 5] else 0) + (y[i, j - 1] else 0)", ["i", "j"]),
        ("y: f32[M, N]", "y[j, i] = x[j, i] + (y[j + 5, i - 1] else 0) + (y[j - 1, i] else 0)", ["i", "j"]),
        ("y: f32[N]", "y[i] = sum[j < i](x[0, j] * y[j])", ["i", "j"]),
    ],
)
def test_the_loops_that_carry_are_outermost(head, equation, loops):
    tree = body(f"kernel f(x: f32[M, N]) -> {head}:\n    {equation}\n")
    assert [line.split()[1] for line in tree.splitlines() if line.strip().startswith("for ")] == loops


def test_a_loop_goes_down_where_what_is_read_comes_from_a_higher_index():
    text = "kernel f(x: f32[N]) -> y: f32[N]:\n    y[i] = x[i] + 2 * (y[i + 1] else 0)\n"
    assert body(text) == "for i < N\n  y[N - i - 1] = x[N - i - 1] + 2.0 * (y[N - i] else 0.0)"
    (loop,) = kernel(text).equations[0].loops
    assert loop.value({"N": 5, "i": 0}) == 4  # what messages call i


def test_equations_that_read_each_other_share_a_loop():
    assert body(SOLVE).splitlines() == [
        "for i < N",
        "  for x.sum.r < R",
        "    x.sum[i, x.sum.r] = 0",
        "    for j < N",
        "      x.sum[i, x.sum.r] += L[i, j] * x[j, x.sum.r]  if j < i",
        "  for x.r < R",
        "    x[i, x.r] = b[i, x.r] - x.sum[i, x.r]",
    ]


def test_a_kernel_that_reads_what_is_not_defined_yet_is_refused():
    """A step could put one equation of a recurrence out of it, or read a later element."""
    made = kernel(SOLVE)
    check_defined_before(made)
    sums, x = made.equations
    apart = replace(made, equations=(replace(sums, carried=0), x))
    swapped = replace(made, equations=(x, sums))
    later = replace(x, value=Load("x.sum", (var("i") + 1, var("x.r")), "f32"))
    for wrong in (apart, swapped, replace(made, equations=(sums, later))):
        with pytest.raises(Refused, match="not defined before"):
            check_defined_before(wrong)


@pytest.mark.parametrize("step", ["rfactor(x.sum, j) -> part", "scan(x.sum) -> run", "split_scan(x.sum, 4) -> a, c, d"])
def test_steps_that_change_a_recurrence_are_refused_in_words(step):
    text = f"{SOLVE}schedule s for solve():\n    {step}\n"
    with pytest.raises(TilegenError) as caught:
        load(text).schedule("s").tree  # noqa: B018
    assert isinstance(caught.value, StepError) or "recurrence" in str(caught.value)


@pytest.mark.parametrize("step", ["bind(i, thread.x)", "cache_shared(x, at=i)\n    order(i, j)"])
def test_an_element_is_not_read_before_it_is_made(step):
    """The loop of the recurrence runs in sequence, and a copy that is made before it would hold old values."""
    kernel_text = "kernel f(L: f32[N, N]) -> x: f32[N]:\n    x[i] = sum[j < i](L[i, j] * x[j])\n"
    with pytest.raises(TilegenError):
        load(f"{kernel_text}schedule s for f():\n    {step}\n").schedule("s").tree  # noqa: B018


def test_each_element_may_be_handed_on_to_all_later_ones_at_once():
    """Column by column: as soon as x[j] is complete, all others take it in, side by side."""
    kernel_text = "kernel f(L: f32[N, N]) -> x: f32[N]:\n    x[i] = sum[j < i](L[i, j] * x[j])\n"
    steps = "order(j, i)\n    tile(i, 32) -> c, t\n    bind(t, thread.x)\n"
    assert load(f"{kernel_text}schedule s for f():\n    {steps}").schedule("s").tree


@pytest.mark.parametrize("steps", [
    "tile(j, 4) -> c, l\n    rfactor(x.sum, l, at=i) -> part",
    "order(i, j, x.sum.r)\n    tile(j, 3) -> c, l\n    rfactor(x.sum, c, at=i) -> part",
])  # fmt: skip
def test_a_reduction_in_a_recurrence_may_be_in_parts(steps):
    """Parts and what combines them are in the loop of the recurrence, beside what reads the result."""
    tree = load(f"{SOLVE.replace('f32', 'i32')}schedule s for solve():\n    {steps}\n").schedule("s").tree
    assert {e.target: e.carried for e in tree.kernel.equations} == {"part": 1, "x.sum": 1, "x": 1}
    for n in (1, 4, 7):
        sizes, rng = {"N": n, "R": 2}, np.random.default_rng(n)
        arrays = {"L": rng.integers(-2, 3, (n, n)).astype(np.int32), "b": rng.integers(-2, 3, (n, 2)).astype(np.int32)}
        expected = reference(tree.kernel, sizes, arrays)["x"].value
        assert np.array_equal(run(tree, sizes, arrays)["x"], expected)
        assert verdict(tree, {"N": n, "R": 1}) is None
    assert prove(tree.kernel, lower(tree)).verdict == "proved"


def test_parts_stay_in_the_loop_of_the_recurrence():
    with pytest.raises(TilegenError, match="in the launch that reduces it|not defined before|before"):
        load(f"{SOLVE}schedule s for solve():\n    tile(j, 4) -> c, l\n    rfactor(x.sum, l) -> part\n").schedule("s")


GROUPS = """
kernel f(a: i32[M, N], b: i32[M, N]) -> y: i32[M, N]:
    y[r, i] = a[r, i] * (y[r, i - 1] else 0) + b[r, i]

schedule s for f():
    split_scan(y, 2) -> total, local, ahead, factor, factors
"""


@pytest.mark.parametrize(("tensor", "loop"), [("total", "ahead.ko"), ("local", "y.io"), ("ahead", "y.ii")])
def test_what_is_computed_again_has_the_factors_of_its_own_place(tensor, loop):
    tree = load(f"{GROUPS}    compute_at({tensor}, at={loop})\n").schedule("s").tree
    sizes, rng = {"M": 3, "N": 7}, np.random.default_rng(7)
    arrays = {name: rng.integers(-2, 3, (3, 7)).astype(np.int32) for name in ("a", "b")}
    assert np.array_equal(run(tree, sizes, arrays)["y"], reference(tree.kernel, sizes, arrays)["y"].value)
    assert verdict(tree, {"M": 2, "N": 5}) is None
    assert prove(tree.kernel, lower(tree), tree.reassociated).verdict == "proved"
    there = next(e for e in tree.kernel.origin.equations if e.target == tensor)
    wrong = tuple(replace(e, arg=there.arg) if e.target == tensor else e for e in tree.kernel.equations)
    assert wrong != tree.kernel.equations
    found = judge(tree_of(replace(tree.kernel, equations=wrong)))
    assert found.sentence == f"'{tensor}' is not computed as in the kernel that this one was derived from"
