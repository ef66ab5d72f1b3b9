"""Families that `suggest` writes: sizes on two sides of a choice take other members, and all of them are right."""

import warnings
from functools import cache

import numpy as np
import pytest

from tilegen import api
from tilegen.lab.checks.check import cases, check
from tilegen.lab.checks.sizes import GPU_LIMITS, INTERPRETER_LIMITS, power_sizes, sizes_to_check

ROWS = """kernel sums(X: f32[M, N]) -> s: f32[M]:
    s[i] = sum[j](X[i, j])
"""
TOTAL = """kernel total(X: f32[N]) -> s: f32[1]:
    s[o] = sum[j](X[j])
"""
PRODUCT = """kernel product(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])
"""
# What is chosen at sizes on both sides of each choice, and at those that `suggest` takes where none are given.
CHOSEN = {
    "rows": (
        ROWS,
        {
            (4096, 256): "suggested_small_N",
            (4096, 1025): "suggested(WARPS=4)",
            (4096, 4000): "suggested(WARPS=8)",
            (4096, 100000): "suggested",
            (300, 4000000): "suggested",
            (3, 4000000): "suggested_small_M",
        },
    ),
    "total": (TOTAL, {(1000,): "suggested_small_N", (100000,): "suggested"}),
    "product": (
        PRODUCT,
        {
            (200, 300, 200): "suggested(TM=32, TN=64, WI=1, WJ=1)",
            (1000, 300, 1000): "suggested(TM=64, TN=128, WI=2)",
            (3000, 300, 3000): "suggested",
            (40, 16384, 16384): "suggested_small_M",
            (16384, 16384, 40): "suggested_small_N",
        },
    ),
}
KERNELS = [pytest.param(name, marks=[pytest.mark.long] * (name == "product")) for name in CHOSEN]


@cache
def suggested(name):
    return api.from_text(CHOSEN[name][0]).kernel().suggest("h100").kernel()


@pytest.mark.parametrize("name", KERNELS)
def test_sizes_choose_a_member(name):
    kernel = suggested(name)
    chooser = kernel.family("h100")
    for sizes, member in CHOSEN[name][1].items():
        assert chooser.choose(**dict(zip(kernel.ir.sizes, sizes, strict=True))).name == member, sizes
    assert chooser.choose(**power_sizes(kernel.ir, {}, GPU_LIMITS)).name == "suggested"


@pytest.mark.pocl
@pytest.mark.parametrize("name", KERNELS)
def test_members_are_proved_and_right(name):
    from tilegen.backends.devices.devices import engine, program

    kernel = suggested(name)
    for candidate in kernel.family("h100").candidates:
        scheduled = candidate.scheduled()
        assert scheduled.prove().verdict == "proved"
        tried = cases(kernel.ir, sizes_to_check([scheduled.tree], {}, INTERPRETER_LIMITS))
        check(program(scheduled.tree, engine("cpu")), tried)


def test_families_are_read(golden):
    golden("\n".join(suggested(name).file.text for name in ("rows", "total")), "suggest/families.tg")


def test_sizes_that_are_given_have_one_schedule():
    kernel = api.from_text(ROWS).kernel()
    assert kernel.suggest("h100", N=512).kernel().family() is None
    elementwise = api.from_text("kernel twice(x: f32[N]) -> y: f32[N]:\n    y[i] = 2 * x[i]\n").kernel()
    assert elementwise.suggest("h100").kernel().family() is None


@pytest.mark.pocl
def test_a_kernel_without_schedules_takes_the_family():
    kernel = api.from_text(ROWS).kernel()
    with pytest.warns(UserWarning, match="the terms of s come in another order"):
        program = kernel.compile(device="cpu")
    with warnings.catch_warnings(action="error"):
        for shape in ((5, 70), (7, 5000)):
            assert program(np.ones(shape, "f4")).tolist() == [shape[1]] * shape[0]
    assert program.choose(M=5, N=70).name != program.choose(M=7, N=5000).name
    with pytest.warns(UserWarning, match="the terms of s come in another order"):
        assert kernel.compile(device="cpu", deterministic=True).tree.body[0].kind == "block.x"
