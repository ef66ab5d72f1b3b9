"""Which kernels are a layer that torch has in several calls, and what is a right result of one; without torch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilegen.api import load
from tilegen.backends.arrays import empty, shape_of
from tilegen.backends.host import HostArrays
from tilegen.interpreter import reference
from tilegen.lab import layers
from tilegen.lab.inputs import random
from tilegen.lab.layers import FORMS, as_layer
from tilegen.lab.libraries import Call, Library
from tilegen.lab.rivals import rivals_of_layer

SIZES = {"M": 72, "N": 48, "K": 64}
STOCK = [
    ("epilogues", "swiglu"),
    ("epilogues", "scaled_i8"),
    ("epilogues", "scaled_e4m3"),
    ("epilogues", "linear_sums"),
    ("matching_products", "matching_f16"),
    ("matching_products", "matching_tf32"),
    ("matching_dot", "matching_dot"),
]
GATE = """\
def sigmoid(x) = 1 / (1 + exp(-x))
kernel k(W: f16[N, K], X: f16[K, M], V: f16[N, K]) -> Y: f16[N, M]:
    var Q: f32[M, N], P: f32[M, N]
    Q[j, i] = sum[c](f32(V[i, c]) * f32(X[c, j]))
    P[j, i] = sum[c](f32(X[c, j]) * f32(W[i, c]))
    Y[i, j] = f16(Q[j, i] * P[j, i] * sigmoid(P[j, i]))
"""
SCALED = """\
kernel k(A: {0}[M, K], B: {0}[N, K], row: f32[M], column: f32[N]) -> C: bf16[M, N]:
    var P: {1}[M, N]
    P[i, j] = sum[k]({1}(A[i, k]) * {1}(B[j, k]))
    C[i, j] = bf16({2})
"""
NEAREST = """\
kernel k(A: f32[N, 8], B: f32[M, 8]) -> nearest: i32[N]:
    var norm: f32[M], dot: f32[N, M]
    norm[j] = sum[d](B[j, d]**2)
    dot[i, j] = sum[d]({})
    nearest[i] = {}
"""


def texts(text: str) -> list[tuple[str, str, bool]]:
    found = as_layer(load(text).kernel().ir)
    assert found is not None
    return [(each.name, each.text, each.rounded) for each in rivals_of_layer(found)]


class NumpyOnGpu(HostArrays):
    """An engine that claims a GPU."""

    on_gpu = True


def test_a_gate_however_it_is_written_and_stored() -> None:
    """The product is seen as it is in the layer: here the kernel has all of it the other way round."""
    found = as_layer(load(GATE).kernel().ir)
    assert found is not None
    names = {word: (each.name, each.axes) for word, each in found.tensors.items()}
    assert {word: names[word] for word in "AGUC"} == {
        "A": ("X", (1, 0)), "G": ("W", (1, 0)), "U": ("V", (1, 0)), "C": ("Y", (1, 0)),
    }  # fmt: skip
    text = "(torch.nn.functional.silu(A @ G) * (A @ U)).to(torch.float16)"
    assert texts(GATE) == [("torch", text, True), ("torch.compile", text, True)]


def test_scales_of_rows_and_columns() -> None:
    integers = texts(SCALED.format("i8", "i32", "row[i] * (column[j] * f32(P[i, j]))"))
    text = "(torch._int_mm(A, B) * row[:, None] * column).to(torch.bfloat16)"
    assert integers == [("torch", text, False), ("torch.compile", text, False)]
    call = "torch._scaled_mm(A, B, row[:, None], column[None], out_dtype=torch.bfloat16"
    floats = texts(SCALED.format("e4m3", "f32", "P[i, j] * row[i] * column[j]"))
    assert floats == [("torch", f"{call})", False), ("torch", f"{call}, use_fast_accum=True)", False)]


@pytest.mark.parametrize(
    ("text", "others"),
    [
        (SCALED.format("i8", "i32", "f32(P[i, j]) * row[i]"), "one scale"),
        (SCALED.format("i8", "i32", "f32(P[i, j]) * row[i] / column[j]"), "a quotient"),
        (SCALED.format("i8", "i32", "f32(P[i, j] // 2) * row[i] * column[j]"), "integers divided"),
        (SCALED.format("i8", "f32", "P[i, j] * row[i] * column[j]"), "sums that no library has"),
        (SCALED.format("e5m2", "f32", "P[i, j] * row[i] * column[j]"), "factors that no library has"),
        (GATE.replace("-x", "x"), "another activation"),
        (GATE.replace("f32(X[c, j]) * f32(W", "f32(V[i, c]) * f32(W"), "no factor in common"),
        (GATE.replace("sum[c](f32(V", "sum[c < K - 1](f32(V"), "a part of a sum"),
        (NEAREST.format("A[i, d] * B[j, d]", "argmax[j](norm[j] - 2 * dot[i, j])"), "the farthest"),
        (NEAREST.format("A[i, d] * B[j, d]", "argmin[j](norm[j] - dot[i, j])"), "another distance"),
        (NEAREST.format("tf32(A[i, d]) * B[j, d]", "argmin[j](norm[j] - 2 * dot[i, j])"), "one factor rounded"),
    ],
)
def test_kernels_that_are_none_of_the_layers(text: str, others: str) -> None:
    assert as_layer(load(text).kernel().ir) is None, others


def test_sums_that_torch_rounds_compete_with_exact_ones() -> None:
    found = rivals_of_layer(layer("epilogues", "linear_sums"))
    assert [(each.rounded, each.stands_in) for each in found] == [(False, False)] * 2 + [(True, False)] * 2
    assert "out_dtype=torch.float32" in found[0].text
    assert str(found[3]).startswith("torch.compile of (lambda P: ")
    assert str(found[3]).endswith("rounded to bf16 first")
    exact = rivals_of_layer(layer("matching_dot", "matching_dot"))
    assert not any(each.rounded or "out_dtype" in each.text for each in exact)


def layer(file: str, name: str) -> Any:
    found = as_layer(load(file).kernel(name).ir)
    assert found is not None
    return found


def test_each_form_has_a_stock_kernel() -> None:
    assert {layer(file, name).form for file, name in STOCK} == set(FORMS)


@pytest.mark.parametrize(("file", "name"), STOCK, ids=[name for _, name in STOCK])
def test_a_right_result_is_told_from_a_wrong_one(file: str, name: str) -> None:
    kernel = load(file).kernel(name).ir
    sizes = {size: SIZES[size] for size in kernel.sizes}
    library = Library(kernel, NumpyOnGpu(), sizes)
    assert library.missing == "torch, which has this in calls, is not installed" or library.rivals
    arrays = random(np, kernel, sizes, 0)
    right = reference(kernel, sizes, arrays)
    for tensor in kernel.tensors:
        if tensor.role == "output":
            arrays[tensor.name] = empty(np, tensor, shape_of(tensor, sizes))
            arrays[tensor.name][...] = stored(right[tensor.name].value, tensor.dtype)
    assert (library.difference(arrays) or 0) <= 1
    for output in layer(file, name).outputs:
        array = arrays[layer(file, name).tensors[output].name]
        before, array[...] = array.copy(), wrong(array)
        assert (library.difference(arrays) or 0) > 1
        array[...] = before
    library.clear(arrays)
    assert (library.difference(arrays) or 0) > 1


def test_scores_are_computed_a_few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "_MOST_SCORES", 1000)
    test_a_right_result_is_told_from_a_wrong_one("matching_dot", "matching_dot")


def test_what_is_compiled_is_compiled_once_for_all_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    library, compiled = Library(load("matching_dot").kernel().ir, HostArrays(), SIZES), []
    monkeypatch.setattr(library, "_torch", SimpleNamespace(compile=lambda made: compiled.append(made) or made))
    calls = [Call(*library._compile("A - B", {"A": number, "B": 2, "torch": None}), None, {}) for number in (5, 7)]
    for call in calls:
        call()
    assert ([call.result for call in calls], len(compiled)) == ([3, 5], 1)


def stored(values: Any, dtype: str) -> Any:
    """Numbers as an array of numpy has them: those of bf16 by their upper half."""
    if dtype != "bf16":
        return values
    bits = values.astype(np.float32).view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16)


def wrong(array: Any) -> Any:
    """The same but for one element, which is that of another place."""
    changed = array.copy()
    changed.flat[5] = next(each for each in changed.flat[6:] if each != changed.flat[5])
    return changed
