"""What the rounding of products changes of a nearest neighbour: as much as schedules/matching_products.tg says."""

import numpy as np
import pytest

import tilegen
from tilegen.interpreter import reference
from tilegen.lab.checks.check import cases, check

# The largest error of a product's factors together, as a share of the product.
LOST = {"f16": 0.0, "tf32": 2.0**-9}


def crowd(word):
    """Points of which some have many neighbours at almost the same distance."""
    rng = np.random.default_rng(11)
    a = rng.standard_normal((40, 128)).astype(np.float32)
    near = rng.integers(0, 40, 300)
    b = (a[near] + 1e-3 * rng.standard_normal((300, 128))).astype(np.float32)
    return (a.astype(np.float16), b.astype(np.float16)) if word == "f16" else (a, b)


@pytest.mark.parametrize("word", ["f16", "tf32"])
def test_a_point_that_rounding_prefers_is_not_much_farther_away(word):
    a, b = crowd(word)
    kernel = tilegen.load("matching_products").kernel(f"matching_{word}").ir
    found = reference(kernel, {"N": 40, "M": 300}, {"A": a, "B": b})["nearest"].value
    a, b = a.astype(np.float64), b.astype(np.float64)
    apart = ((a[:, None] - b) ** 2).sum(axis=2)
    rows = np.arange(40)
    farther = apart[rows, found] - apart.min(axis=1)
    products = (abs(a[:, None]) * abs(b)).sum(axis=2).max(axis=1)
    # The norms are rounded, too: 128 terms in f32.
    allowed = 4 * LOST[word] * products + 4 * 130 * 2.0**-24 * ((b**2).sum(axis=1).max() + 2 * products)
    assert (farther <= allowed).all()
    assert (found != apart.argmin(axis=1)).any() == (word == "tf32")


@pytest.mark.gpu
@pytest.mark.parametrize(("word", "rung"), [("f16", "fused"), ("tf32", "cut_off")])
def test_matching_on_a_gpu(word, rung):
    """Sizes that the tiles divide and others; another index than the first of the least is one that sums explain."""
    from tilegen.backends.devices.devices import engine, program
    from tilegen.ir.comparison.tolerance import tolerance_of

    tree = tilegen.load("matching_products").kernel(f"matching_{word}").schedule(rung).tree
    sizes = [{"N": 1024, "M": 2048}, {"N": 1001, "M": 1999}]
    trials = check(program(tree, engine("cuda")), cases(tree.kernel, sizes, tolerance_of(tree)))
    assert all(trial.error <= 1 for trial in trials)
