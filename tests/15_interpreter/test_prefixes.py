"""Running reductions of the reference, computed from each term once: values and bounds are those of sums anew."""

import sys

import numpy as np
import pytest

from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.interpreter import reference
from tilegen.ir.reductions.running import running_of

KERNELS = {
    "sum up to": "y[i, j] = sum[k <= j](x[i, k])",
    "sum ahead": "y[i, j] = sum[k < j](x[i, k] * x[i, k])",
    "sum from": "y[i, j] = sum[k >= j](x[i, k]) for j > 1",
    "product behind": "y[i, j] = prod[k > j](x[i, k])",
    "largest up to": "y[j, i] = max[k <= j, l < 3](x[k, i] + x[l, i])",
    "least of some": "y[i, j] = min[k >= j, k < i + 5](x[i, k])",
}


def kernel(text):
    return build(parse(Source("k.tg", f"kernel k(x: f32[N, N]) -> y: f32[N, N]:\n    {text}\n")).kernels["k"])


@pytest.mark.parametrize("name", KERNELS)
def test_values_and_bounds_are_those_of_sums_anew(name, monkeypatch):
    made = kernel(KERNELS[name])
    assert running_of(made.equations[0])
    for n in (3, 8, 33):
        x = np.random.default_rng(n).normal(size=(n, n)).astype(np.float32)
        x[1, 2], x[2, 1] = np.inf, np.nan
        fast = reference(made, {"N": n}, {"x": x})["y"]
        with monkeypatch.context() as patch:
            patch.setattr(sys.modules[reference.__module__], "prefixes", lambda *_: None)
            slow = reference(made, {"N": n}, {"x": x})["y"]
        assert np.array_equal(fast.written, slow.written)
        assert np.allclose(fast.value, slow.value, rtol=1e-12, equal_nan=True)
        assert np.allclose(fast.bound, slow.bound, rtol=1e-9, equal_nan=True)


def test_what_is_no_prefix_is_none():
    for text in (
        "y[i, j] = sum[k](x[i, k])",
        "y[i, j] = sum[k <= j](x[j, k])",
        "y[i, j] = sum[k <= j, k > j - 3](x[i, k])",
    ):
        assert running_of(kernel(text).equations[0]) is None


def test_a_long_row_takes_no_longer_than_it_is_long():
    """As sums anew, these would be 3 * 10^10 terms."""
    n = 2**18
    made = build(
        parse(Source("k.tg", "kernel k(x: i32[N]) -> y: i32[N]:\n    y[i] = sum[k <= i](x[k])\n")).kernels["k"]
    )
    x = np.arange(n, dtype=np.int32) % 7
    assert np.array_equal(reference(made, {"N": n}, {"x": x})["y"].value, np.cumsum(x))


def test_an_empty_row_has_no_sums():
    text = "kernel k(x: f32[N]) -> y: f32[N]:\n    y[i] = min[k < i, k < N - 1](x[k]) for i > 0\n"
    made = build(parse(Source("k.tg", text)).kernels["k"])
    assert reference(made, {"N": 1}, {"x": np.ones(1, np.float32)})["y"].written.sum() == 0
