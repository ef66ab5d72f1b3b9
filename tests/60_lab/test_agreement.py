"""Results at the sizes that are timed: which part of a problem is a problem of its own, and what is noticed."""

from __future__ import annotations

import numpy as np
import pytest

import tilegen
from tilegen.backends.calls.host import HostArrays
from tilegen.interpreter import reference
from tilegen.interpreter.dtypes import from_values, to_values
from tilegen.ir.nodes import Kernel
from tilegen.lab.checks import agreement
from tilegen.lab.checks.agreement import Agreement, sample_of
from tilegen.lab.checks.inputs import random
from tilegen.lab.measure.beside import Library
from tilegen.lab.measure.timing import hold_library

LARGE = {"M": 5000, "N": 6000, "K": 300, "B": 64, "F": 128, "C": 32, "H": 20, "W": 20, "D": 300}


def kernel_of(file: str, name: str | None = None) -> Kernel:
    return tilegen.load(file).kernel(name).ir


def sizes_of(kernel: Kernel) -> dict[str, int]:
    return {name: LARGE[name] for name in kernel.sizes}


@pytest.mark.parametrize(
    ("file", "name", "free"),
    [
        ("gemm", "gemm", {"M", "N"}),
        ("gemm_transposed", "gemm_tt", {"M", "N"}),
        ("conv2d", "conv2d", {"B", "F"}),
        ("conv2d_winograd", "conv2d_winograd", {"F"}),
        ("conv_pieces", "conv_f16x2", {"B", "F"}),
        ("matching", "matching", {"N"}),
        ("softmax", "softmax", {"M"}),
        ("layer_norm", "layer_norm", {"M"}),
        ("syrk", "syrk", set()),
        ("transpose", "transpose", {"M", "N"}),
        ("total", "total", set()),
        ("blur", "blur", set()),
    ],
)
def test_sizes_whose_places_have_nothing_to_do_with_one_another(file: str, name: str, free: set[str]) -> None:
    kernel = kernel_of(file, name)
    kernels = [each for each in (kernel.meant, kernel.slack) if each] or [kernel]
    assert {size for size in kernel.sizes if all(agreement._is_free(size, each) for each in kernels)} == free


@pytest.mark.parametrize(
    "equation",
    [
        "y[i] = x[i] + f32(i)",
        "y[i] = x[i + 1] else 0",
        "y[i] = x[N - 1 - i]",
        "y[i] = x[i] for i < N - 1",
        "y[i] = sum[j in 0..i](x[j])",
        "y[i] = x[p[i]] else 0",
        "y[i] = x[0] + x[i]",
    ],
)
def test_a_size_that_matters(equation: str) -> None:
    kernel = tilegen.load(f"kernel k(x: f32[N], p: i32[N]) -> y: f32[N]:\n    {equation}\n").kernel().ir
    assert not agreement._is_free("N", kernel)


@pytest.mark.parametrize(
    ("name", "points"), [("gemm", 2**12), ("conv2d", 2**18), ("softmax", 2**12), ("matching_dot", 2**14)]
)
def test_the_sample_is_what_the_kernel_computes_there(name: str, points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "_POINTS", points)
    kernel = kernel_of(name)
    sizes = {size: min(value, 40) for size, value in sizes_of(kernel).items()}
    sample = sample_of(kernel, sizes)
    assert sample
    assert any(sample.sizes[size] < sizes[size] for size in sample.chosen)
    arrays = random(np, kernel, sizes, 0)
    whole = reference(kernel, sizes, arrays)
    given = {t.name: sample.of(np, t, arrays[t.name]) for t in kernel.tensors if t.role == "input"}
    for name, part in reference(kernel, sample.sizes, given).items():
        assert np.allclose(part.value, sample.of(np, kernel.tensor(name), np.asarray(whole[name].value)), 0, 1e-12)
    for size, places in sample.chosen.items():
        assert places[-1] == sizes[size] - 1
        assert len(set(places)) == len(places) == sample.sizes[size]


def result_of(kernel: Kernel, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    arrays = random(np, kernel.meant_kernel, sizes, 0)
    right = reference(kernel, sizes, arrays)
    return arrays | {n: from_values(np.asarray(each.value), kernel.tensor(n).dtype) for n, each in right.items()}


@pytest.mark.parametrize(
    ("file", "name"),
    [("gemm", "gemm"), ("hgemm", "hgemm"), ("mixed_precision", "gemm_i8"), ("epilogues", "linear_sums")]
    + [("matching_dot", "matching_dot"), ("conv_pieces", "conv_f16x2"), ("softmax", "softmax")],
)
def test_a_right_result_is_told_from_a_wrong_one(file: str, name: str) -> None:
    kernel = kernel_of(file, name)
    sizes = {size: 16 for size in kernel.sizes}
    arrays = result_of(kernel, sizes)
    held = Agreement(kernel, np, sizes, [arrays])
    assert held.difference(0, arrays) <= 1
    for tensor in kernel.tensors:
        if tensor.role == "output":
            array = arrays[tensor.name]
            before, array.flat[-1] = array.copy(), next(each for each in array.flat if each != array.flat[-1])
            assert held.difference(0, arrays) > 1
            array[...] = before


def outside(held: Agreement, sizes: str) -> tuple[int, ...]:
    """A place that is not in the sample."""
    assert held._sample
    return tuple(next(n for n in range(300) if n not in set(held._sample.chosen[size])) for size in sizes)


def large_product(monkeypatch: pytest.MonkeyPatch, file: str = "gemm") -> tuple[Kernel, dict[str, int], Agreement]:
    monkeypatch.setattr(agreement, "_POINTS", 2**14)
    kernel, sizes = kernel_of(file, file), {"M": 300, "N": 310, "K": 64}
    return kernel, sizes, Agreement(kernel, np, sizes, [result_of(kernel, sizes)])


@pytest.mark.parametrize(("file", "least"), [("gemm", 1e-2), ("hgemm", 0.5)])
def test_an_element_outside_of_the_sample_is_held_against_the_library(
    file: str, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, sizes, held = large_product(monkeypatch, file)
    (arrays,), at = held.sets, outside(held, "MN")
    right = arrays["C"].copy()
    value = float(to_values(right[at][None], kernel.tensor("C").dtype)[0])
    for wrong in (value + least, np.nan):
        arrays["C"][at] = from_values(np.array(wrong), kernel.tensor("C").dtype)
        held.hold([])
        assert held.difference(0, arrays) <= 1
        held.hold([{"C": right}])
        assert held.difference(0, arrays) > 1
    arrays["C"][...] = right
    assert held.difference(0, arrays) <= 1


def test_where_the_library_is_far_off_the_reference_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, held = large_product(monkeypatch)
    (arrays,), at = held.sets, outside(held, "MN")
    theirs = arrays["C"].copy()
    theirs[at] += 20
    held.hold([{"C": theirs}])
    assert held.difference(0, arrays) <= 1


def test_numpy_computes_what_is_held_against_a_result_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, sizes, held = large_product(monkeypatch)
    (arrays,) = held.sets
    hold_library(Library(kernel, HostArrays(), sizes), held)
    assert held.difference(0, arrays) <= 1
    arrays["C"][outside(held, "MN")] += 1e-2
    assert held.difference(0, arrays) > 1


def test_what_is_updated_in_place_has_no_sample() -> None:
    kernel = tilegen.load("kernel k(y: f32[N]) -> y: f32[N]:\n    y[i] = 2 * y[i]\n").kernel().ir
    assert sample_of(kernel, {"N": 100}) is None
