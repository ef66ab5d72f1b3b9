"""Scalar arguments: numbers of each type go by value, and what is none, or does not fit, is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tilegen import load
from tilegen.backends.calls.arrays import number_type
from tilegen.backends.calls.scalars import passed_scalar, stored_scalar
from tilegen.backends.compiler import nvrtc
from tilegen.errors import ArgumentError
from tilegen.ir.nodes import FLOATS, Scalar

DTYPES = ("f64", "f32", "f16", "bf16", "i64", "i32", "i8", "u8")
AXPY = "kernel axpy(alpha: {0}, x: {0}[N], beta: {0}, y: {0}[N]) -> z: {0}[N]:\n    z[i] = alpha * x[i] - beta * y[i]\n"
CHOICE = """
def leaky(x, slope) = x if x > 0 else slope * x

kernel choose(n: i32, slope: f32, x: f32[N], y: f32[N]) -> z: f32[N]:
    z[i] = leaky(x[i], slope) if n > 0 else max(slope, y[i])
"""


def schedule_text(text):
    return load(text).kernel().schedule().tile("i", 4, into=("b", "t")).bind("b", "block.x").bind("t", "thread.x")


@pytest.mark.parametrize("device", ["interpreter", pytest.param("cpu", marks=pytest.mark.pocl)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_goes_by_value(dtype, device):
    program = schedule_text(AXPY.format(dtype)).compile(device)
    numpy = number_type(dtype)
    x, y = np.arange(1, 8), np.arange(7, 0, -1) % 3
    two = -2 if dtype != "u8" else 2
    halves = 1.5 if dtype in FLOATS else 3
    wanted = two * x - halves * y
    z = program(two, x.astype(numpy), halves, y.astype(numpy))
    assert z.dtype == numpy
    assert np.array_equal(z, wanted.astype(numpy))
    assert np.array_equal(program(numpy.type(two), x.astype(numpy), numpy.type(halves), y.astype(numpy)), z)


@pytest.mark.pocl
def test_a_scalar_decides_a_choice_and_goes_through_a_function():
    program = schedule_text(CHOICE).compile("cpu")
    x, y = np.float32([-2, 3, -4, 5, 0]), np.float32([1, -1, 1, -1, 1])
    assert np.array_equal(program(1, 0.5, x, y), np.float32([-1, 3, -2, 5, 0]))
    assert np.array_equal(program(x=x, y=y, n=np.int8(0), slope=np.float64(0.5)), np.float32([1, 0.5, 1, 0.5, 1]))


def test_signature_has_tensors_then_scalars_then_sizes():
    text = schedule_text(CHOICE).source()
    assert "float* __restrict__ z,\n       int n, float slope, int N)\n" in text
    # A 16-bit float goes as the f32 of the same value.
    assert "float alpha, float beta" in schedule_text(AXPY.format("bf16")).source()


def test_a_launch_takes_the_scalars_that_it_uses():
    text = "kernel two(a: f32, b: f32, x: f32[N]) -> y: f32[N], z: f32[N]:\n    y[i] = a * x[i]\n    z[i] = b + x[i]\n"
    source = load(text).kernel().schedule().source()
    assert "two_y(const float* __restrict__ x, float* __restrict__ y, float a, int N)" in source
    assert "two_z(const float* __restrict__ x, float* __restrict__ z, float b, int N)" in source


@pytest.mark.nvrtc
@pytest.mark.parametrize("dtype", DTYPES)
def test_text_compiles(dtype):
    nvrtc.compile_text(schedule_text(AXPY.format(dtype)).source(), "sm_90")


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        ("i32", 2.5, "alpha is 2.5, and the kernel takes an integer, i32"),
        ("i32", 2.0, "alpha is 2.0, and the kernel takes an integer, i32"),
        ("i32", 2**31, "alpha is 2147483648, and i32 goes from -2147483648 to 2147483647"),
        ("u8", -1, "alpha is -1, and u8 goes from 0 to 255"),
        ("i8", 128, "alpha is 128, and i8 goes from -128 to 127"),
        ("e4m3", 449, "alpha is 449, and e4m3 goes from -448 to 448"),
        ("e5m2", float("-inf"), "alpha is -inf, and e5m2 goes from -57344 to 57344"),
        ("f16", 65520, "alpha is 65520, which is too large for f16"),
        ("f32", 1e39, "alpha is 1e+39, which is too large for f32"),
        ("f64", 10**400, "which is too large for f64"),
        ("f32", True, "alpha is a bool, and the kernel takes a number, f32"),
        ("f32", "2", "alpha is a str, and the kernel takes a number, f32"),
        ("f32", 1j, "alpha is a complex, and the kernel takes a number, f32"),
        ("f32", None, "alpha is a NoneType, and the kernel takes a number, f32"),
        ("f32", np.array(2.0), "alpha is a ndarray, and the kernel takes a number, f32"),
        ("f32", np.array([2.0]), "alpha is a ndarray, and the kernel takes a number, f32"),
    ],
)
def test_refused(dtype, value, message):
    with pytest.raises(ArgumentError) as caught:
        stored_scalar(Scalar("alpha", dtype), value)
    assert message in caught.value.message


def test_rounded_as_in_an_array():
    assert stored_scalar(Scalar("a", "f32"), 0.1) == np.float32(0.1)
    assert stored_scalar(Scalar("a", "f32"), 2**24 + 1) == np.float32(2**24)
    assert np.isinf(stored_scalar(Scalar("a", "f16"), float("inf")))
    assert np.isnan(stored_scalar(Scalar("a", "f32"), float("nan")))
    half = Scalar("a", "bf16")
    assert passed_scalar(half, stored_scalar(half, 1.00390625)) == 1.0  # a tie, to even
    assert passed_scalar(Scalar("a", "e4m3"), stored_scalar(Scalar("a", "e4m3"), 17)) == 16
    assert stored_scalar(Scalar("a", "i64"), np.int64(-(2**63))) == -(2**63)


def test_a_call_without_a_scalar_and_with_too_many():
    program = schedule_text(AXPY.format("f32")).compile("interpreter")
    x = np.ones(5, np.float32)
    with pytest.raises(ArgumentError, match="needs the number alpha"):
        program(x=x, beta=1, y=x)
    with pytest.raises(ArgumentError, match="takes 4 arguments, and 5 are given"):
        program(1, x, 1, x, x)
    with pytest.raises(ArgumentError, match="x is a int, not an array"):
        program(1, 1, 1, x)
