"""Random expressions on special values: right kernels pass their check, and wrong ones do not."""

from __future__ import annotations

import pytest

import tilegen
from tests.support.generators import expressions as random_expressions
from tilegen.backends.compiler import nvrtc


@pytest.mark.parametrize("device", ["interpreter", pytest.param("cpu", marks=pytest.mark.pocl)])
def test_right_kernels_pass(device: str) -> None:
    unbounded = [random_expressions.right(seed, device) for seed in range(12)]
    assert max(unbounded) < 0.5
    assert sum(unbounded) / len(unbounded) < 0.2


def test_wrong_kernels_are_caught() -> None:
    """What is not caught computes the same: `min(x, x)`, `x // 1` in place of `x * 1`, and their like."""
    found = [random_expressions.is_caught(seed, "interpreter") for seed in range(40)]
    wrong = [each for each in found if each is not None]
    assert len(wrong) > 30
    assert sum(wrong) > 0.75 * len(wrong)


@pytest.mark.nvrtc
@pytest.mark.parametrize("seed", range(4))
def test_random_kernels_compile(seed: int) -> None:
    text, _ = random_expressions.kernel(seed, count=12)
    nvrtc.compile_text(tilegen.load(text).kernel().schedule().source(unproved=True), "sm_90")


@pytest.mark.gpu
def test_right_kernels_pass_on_the_gpu() -> None:
    for seed in range(100, 130):
        random_expressions.right(seed, "cuda")
