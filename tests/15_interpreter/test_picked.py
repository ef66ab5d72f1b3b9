"""Sums of what is equal to an index: the reference takes each term in once, and finds what all points give."""

from importlib import import_module

import numpy as np
import pytest

from tests.support.written import tree_from
from tilegen.interpreter import reference

module = import_module("tilegen.interpreter.expected.reference")

KERNELS = {
    "counts": ("h[b] = sum[i, j](1 if x[i, j] == b + 1 else 0)", "i32", "h: i32[B]"),
    "rows": ("h[j, b] = sum[i](1 if b == x[i, j] and i <= j else 0)", "i32", "h: i32[N, B]"),
    "floats": ("h[b] = sum[i, j](w[i, j] * w[i, j] if x[i, j] == b and j != 1 else 0)", "f32", "h: f32[B]"),
    "restricted": ("h[b] = sum[i, j](w[i, j] if x[i, j] == b else 0) for j <= i", "f32", "h: f32[B]"),
}


@pytest.mark.parametrize("name", KERNELS)
def test_as_all_points_give(name, monkeypatch):
    line, dtype, output = KERNELS[name]
    kernel = tree_from(
        f"kernel k(x: i32[M, N], w: f32[M, N]) -> {output}:\n    {line}\n\nschedule s for k():\n    pass\n"
    ).kernel
    rng, sizes = np.random.default_rng(1), {"M": 13, "N": 7, "B": 5}
    w = rng.standard_normal((13, 7)).astype(np.float32)
    w[3, 3], w[4, 0] = np.inf, np.nan
    arrays = {"x": rng.integers(-2, 8, (13, 7)).astype(np.int32), "w": w}
    sizes = {size: sizes[size] for size in kernel.sizes}
    asked = []
    sums = module.picked_sums
    monkeypatch.setattr(module, "picked_sums", lambda *given: asked.append(sums(*given)) or asked[-1])
    mine = reference(kernel, sizes, arrays)["h"]
    assert asked[0] is not None
    monkeypatch.setattr(module, "picked_sums", lambda *given: None)
    wanted = reference(kernel, sizes, arrays)["h"]
    assert np.allclose(mine.value, wanted.value, rtol=1e-14, atol=0, equal_nan=True)
    assert np.allclose(mine.bound, wanted.bound, rtol=1e-12, equal_nan=True)
    assert np.array_equal(mine.written, wanted.written)


def test_places_that_are_not_sure_are_asked_of_all_points(monkeypatch):
    text = "kernel k(x: f32[N]) -> h: i32[4]:\n    h[b] = sum[i](1 if i32(x[i] * 3.7) == b else 0)\n"
    kernel = tree_from(text + "\nschedule s for k():\n    pass\n").kernel
    asked, sums = [], module.picked_sums
    monkeypatch.setattr(module, "picked_sums", lambda *given: asked.append(sums(*given)) or asked[-1])
    found = reference(kernel, {"N": 1}, {"x": np.array([1 / 3.7], np.float32)})["h"]
    assert asked == [None]
    assert np.isinf(found.bound).any()
