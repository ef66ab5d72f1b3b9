"""Conversions round once: f64 and integers to f16, bf16 and f32, at every number half-way between two and beside it."""

from __future__ import annotations

import sys
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest

import tilegen
from tilegen.backends.calls.arrays import number_type
from tilegen.backends.calls.host import HostArrays
from tilegen.backends.compiler import nvrtc
from tilegen.errors import ArgumentError
from tilegen.interpreter.dtypes import bf16_to_float32, from_values, to_values
from tilegen.interpreter.scalar import to_bf16, to_f16, to_f32

# type -> the bits of inf
INFINITY = {"f16": 0x7C00, "bf16": 0x7F80}


def numbers(dtype: str) -> np.ndarray:
    """All finite numbers of a 16-bit type that are not negative, and what would be the next one."""
    bits = np.arange(INFINITY[dtype], dtype=np.uint16)
    values = bits.view(np.float16) if dtype == "f16" else bf16_to_float32(bits)
    values = values.astype(np.float64)
    return np.append(values, 2 * values[-1] - values[-2])


def halves(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """(numbers half-way between two of the type and next to these in f64, what they have to become), of both signs."""
    all_ = numbers(dtype)
    low, high = all_[:-1], np.append(all_[1:-1], np.inf)
    middle = (low + all_[1:]) / 2  # exact: one more bit
    even = np.where(np.arange(len(low)) % 2 == 0, low, high)
    values = np.concatenate([np.nextafter(middle, 0), middle, np.nextafter(middle, np.inf), low])
    wanted = np.concatenate([low, even, high, low])
    return np.concatenate([values, -values]), np.concatenate([wanted, -wanted])


def whole_halves(bits: int) -> tuple[list[int], list[int]]:
    """The same of integers up to 2^63 and numbers of so many significant bits."""
    values, wanted = [], []
    for exponent in range(bits + 1, 63):
        unit = 1 << (exponent - bits + 1)
        for leading in (1 << (bits - 1), (1 << (bits - 1)) + 1, (1 << bits) - 2, (1 << bits) - 1):
            low = leading * unit
            for offset, up in ((0, False), (-1, False), (1, True)):
                if unit > 2 or offset == 0:
                    values.append(low + unit // 2 + offset)
                    wanted.append(low + unit * (up or (offset == 0 and leading % 2)))
    return [*values, *(-v for v in values)], [*wanted, *(-w for w in wanted)]


def cast(old: str, new: str, device: str, values: np.ndarray) -> np.ndarray:
    text = f"kernel k(x: {old}[N]) -> y: {new}[N]:\n    y[i] = {new}(x[i])\n"
    return to_values(tilegen.load(text).kernel().schedule().compile(device)(values), new)


@pytest.mark.parametrize("dtype", INFINITY)
def test_f64_to_16_bits(dtype: str) -> None:
    values, wanted = halves(dtype)
    np.testing.assert_array_equal(to_values(from_values(values, dtype), dtype), wanted)
    one = {"f16": to_f16, "bf16": to_bf16}[dtype]
    assert [one(float(x)) for x in values[::97]] == wanted[::97].tolist()


@pytest.mark.pocl
@pytest.mark.parametrize("dtype", INFINITY)
def test_f64_to_16_bits_in_the_text(dtype: str) -> None:
    values, wanted = halves(dtype)
    values, wanted = np.append(values, [np.inf, -np.inf, np.nan]), np.append(wanted, [np.inf, -np.inf, np.nan])
    np.testing.assert_array_equal(cast("f64", dtype, "cpu", values), wanted)
    # A value computed in f64 goes the same way as one that is stored.
    text = f"kernel k(x: f64[N]) -> y: f64[N]:\n    y[i] = f64({dtype}(x[i] * 2))\n"
    result = tilegen.load(text).kernel().schedule().compile("cpu")(values / 2)
    exact = np.abs(values / 2) * 2 == np.abs(values)
    np.testing.assert_array_equal(result[exact], wanted[exact])


def test_the_number_below_the_least_that_overflows_f16() -> None:
    assert to_f16(65519.99999999) == 65504
    assert from_values(np.array([65519.99999999, 65520]), "f16").tolist() == [65504, np.inf]


@pytest.mark.parametrize(("bits", "dtype"), [(8, "bf16"), (24, "f32")])
def test_integers_round_once(bits: int, dtype: str) -> None:
    values, wanted = whole_halves(bits)
    one = {"f32": to_f32, "bf16": to_bf16}[dtype]
    assert [one(x) for x in values] == [float(x) for x in wanted]


@pytest.mark.pocl
@pytest.mark.parametrize(("bits", "dtype"), [(8, "bf16"), (24, "f32")])
def test_integers_round_once_in_the_text(bits: int, dtype: str) -> None:
    values, wanted = whole_halves(bits)
    assert cast("i64", dtype, "cpu", np.array(values)).tolist() == [float(x) for x in wanted]
    short = [n for n, x in enumerate(values) if abs(x) < 2**31]
    found = cast("i32", dtype, "cpu", np.array([values[n] for n in short], np.int32))
    assert found.tolist() == [float(wanted[n]) for n in short]


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("f64", "f16", "__double2half(x[i])"),
        ("f64", "bf16", "__double2bfloat16(x[i])"),
        ("i64", "bf16", "__ll2bfloat16_rn(x[i])"),
        ("i32", "bf16", "__ll2bfloat16_rn(x[i])"),
        ("f32", "bf16", "__float2bfloat16(x[i])"),
    ],
)
def test_cuda_has_words_that_round_once(old: str, new: str, word: str) -> None:
    for result in (new, "f32"):
        value = f"{new}(x[i])" if result == new else f"f32({new}(x[i]))"
        text = f"kernel k(x: {old}[N]) -> y: {result}[N]:\n    y[i] = {value}\n"
        source = tilegen.load(text).kernel().schedule().source()
        assert word in source
        nvrtc.compile_text(source, "sm_90")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", INFINITY)
def test_f64_to_16_bits_on_the_gpu(dtype: str) -> None:
    import cupy

    values, wanted = halves(dtype)
    text = f"kernel k(x: f64[N]) -> y: {dtype}[N]:\n    y[i] = {dtype}(x[i])\n"
    found = tilegen.load(text).kernel().schedule().compile("cuda")(cupy.asarray(values))
    found, tiny = to_values(found.get(), dtype), (np.abs(values) < 2.0**-125) & (dtype == "bf16")
    # Subnormal numbers of the range of f32 may count as 0.
    np.testing.assert_array_equal(found[~tiny], wanted[~tiny])


# -- literals


@pytest.mark.parametrize(
    ("dtype", "number", "literal"),
    [
        ("f32", "0.1", "0.1f"),
        ("f32", "1e39", "INFINITY"),
        ("f32", "1.00000005960464477539062500", "1.0f"),  # half-way
        ("f32", "1.0000000596046448", "1.0f"),  # its digits are above what is half-way, Python's double is not
        ("f16", "0.1", "0.0999755859375f"),
        ("f16", "65519.9", "65504.0f"),
        ("f16", "-65520", "-INFINITY"),
        ("bf16", "0.1", "0.10009765625f"),
        ("f64", "0.1", "0.1"),
    ],
)
def test_literals_have_the_value_of_their_type(dtype: str, number: str, literal: str) -> None:
    text = f"kernel k(x: {dtype}[N]) -> y: {dtype}[N]:\n    y[i] = x[i] + {number}\n"
    line = next(each for each in tilegen.load(text).kernel().schedule().source().splitlines() if "y[i] = " in each)
    assert literal in line.replace("- 6", "-6")


# -- arrays


KERNEL = "kernel k(x: bf16[N]) -> y: bf16[N]:\n    y[i] = x[i] + x[i]\n"


NUMPY_DEVICES = ["interpreter", pytest.param("cpu", marks=pytest.mark.pocl)]


@pytest.mark.parametrize("device", NUMPY_DEVICES)
def test_bf16_arrays_are_of_ml_dtypes_both_ways(device) -> None:
    twice = tilegen.load(KERNEL).kernel().schedule().compile(device)
    x = np.array([1.0, -2.5], ml_dtypes.bfloat16)
    result = twice(x)
    assert result.dtype == ml_dtypes.bfloat16
    assert result.astype(np.float32).tolist() == [2, -5]
    given = np.zeros(2, ml_dtypes.bfloat16)
    assert twice(x, y=given) is given
    assert given.astype(np.float32).tolist() == [2, -5]
    with pytest.raises(ArgumentError, match="x is float32, and the kernel takes bf16"):
        twice(np.ones(2, np.float32))


@pytest.mark.parametrize("device", NUMPY_DEVICES)
def test_a_fresh_result_is_of_ml_dtypes_where_no_input_is(device) -> None:
    text = "kernel k(x: f32[N]) -> y: bf16[N], z: e5m2[N]:\n    y[i] = bf16(x[i])\n    z[i] = e5m2(x[i])\n"
    y, z = tilegen.load(text).kernel().schedule().compile(device)(np.float32([1, -2.5, 1e9]))
    assert (y.dtype, z.dtype) == (ml_dtypes.bfloat16, ml_dtypes.float8_e5m2)
    assert z.astype(np.float32).tolist() == [1, -2.5, 57344]


@pytest.mark.parametrize("device", NUMPY_DEVICES)
@pytest.mark.parametrize("bits", [np.int16, np.uint16])
def test_integers_are_not_taken_for_the_bits_of_bf16(bits, device) -> None:
    twice = tilegen.load(KERNEL).kernel().schedule().compile(device)
    x = np.array([1.0, -2.5], ml_dtypes.bfloat16).view(bits)
    with pytest.raises(ArgumentError, match=f"x is {bits.__name__}, and the kernel takes bf16") as caught:
        twice(x)
    assert caught.value.notes == (
        "its numbers are torch.bfloat16 or ml_dtypes.bfloat16",
        "x.view(ml_dtypes.bfloat16) takes integers for their bits",
    )
    assert twice(x.view(ml_dtypes.bfloat16)).astype(np.float32).tolist() == [2, -5]


@pytest.mark.pocl
@pytest.mark.parametrize("dtype", ["e4m3", "e5m2"])
def test_arrays_of_byte_floats(dtype: str) -> None:
    text = f"kernel k(x: {dtype}[N]) -> y: {dtype}[N]:\n    y[i] = {dtype}(f32(x[i]) * 2)\n"
    twice = tilegen.load(text).kernel().schedule().compile("cpu")
    word = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}[dtype]
    result = twice(np.array([1.0, -2.5], getattr(ml_dtypes, word)))
    assert (result.dtype, result.astype(np.float32).tolist()) == (getattr(ml_dtypes, word), [2, -5])
    for bits in (np.int8, np.uint8):
        with pytest.raises(ArgumentError, match=f"x is {bits.__name__}, and the kernel takes {dtype}") as caught:
            twice(np.ones(2, bits))
        assert f"x.view(ml_dtypes.{word}) takes integers for their bits" in caught.value.notes
        assert "cupy has no type of them, and takes their bits in uint8" in caught.value.notes


@pytest.mark.pocl
def test_arrays_of_byte_floats_of_ml_dtypes_come_back_as_such() -> None:
    text = "kernel k(x: e4m3[N]) -> y: e4m3[N], z: f32[N]:\n    y[i] = x[i]\n    z[i] = f32(x[i])\n"
    program = tilegen.load(text).kernel().schedule().compile("cpu")
    y, z = program(np.array([1.0, -2.5], ml_dtypes.float8_e4m3fn))
    assert (y.dtype, y.astype(np.float32).tolist(), z.tolist()) == (ml_dtypes.float8_e4m3fn, [1, -2.5], [1, -2.5])
    with pytest.raises(ArgumentError, match="x is float8_e5m2, and the kernel takes e4m3"):
        program(np.array([1.0, -2.5], ml_dtypes.float8_e5m2))


@pytest.mark.pocl
@pytest.mark.parametrize("dtype", ["e4m3", "e5m2"])
def test_byte_floats_in_the_text(dtype: str) -> None:
    """All bytes, all numbers half-way between two and beside it, and what is beyond."""
    head = f"kernel k(x: f32[N], z: f64[N], n: i64[N], b: {dtype}[N]) -> "
    text = f"{head}p: {dtype}[N], q: {dtype}[N], r: {dtype}[N], s: f32[N]:\n    p[i] = {dtype}(x[i])\n"
    text += f"    q[i] = {dtype}(z[i])\n    r[i] = {dtype}(n[i])\n    s[i] = f32(b[i])\n"
    bits = np.arange(256, dtype=np.uint8)
    values = to_values(bits, dtype)
    middle = (values[:127] + values[1:128]) / 2
    near = np.concatenate([np.nextafter(middle, 0), middle, np.nextafter(middle, np.inf), values])
    z = np.concatenate([near, -near, [1e9, 1e300, 1e-300, -1e-300, np.inf, np.nan, -0.0]])
    x, n = np.clip(z, -3e38, 3e38).astype(np.float32), (np.arange(len(z)) - len(z) // 2) * 131
    p, q, r, s = (
        tilegen.load(text).kernel().schedule().compile("cpu")(x, z, n, np.resize(bits, len(z)).view(number_type(dtype)))
    )
    for got, given in ((p, x), (q, z), (r, n)):
        np.testing.assert_array_equal(to_values(got, dtype), to_values(from_values(given, dtype), dtype))
    np.testing.assert_array_equal(s, np.resize(values, len(z)))


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_cuda_has_types_of_byte_floats(arch: str) -> None:
    """sm_80 without the instructions that convert them, sm_90 with them."""
    head = "kernel k(x: f32[N], n: i64[N], z: f64[N], b: e5m2[N]) -> y: e4m3[N], u: e5m2[N], v: e4m3[N], w: e4m3[N]:\n"
    text = f"{head}    y[i] = e4m3(x[i])\n    u[i] = e5m2(z[i])\n    v[i] = e4m3(n[i])\n    w[i] = e4m3(b[i])\n"
    source = tilegen.load(text).kernel().schedule().source()
    for word in ("#include <cuda_fp8.h>", "__nv_fp8_e4m3(x[i])", "__nv_fp8_e5m2(z[i])", "__nv_fp8_e4m3(float(b[i]))"):
        assert word in source
    nvrtc.compile_text(source, arch)


@pytest.mark.pocl
def test_byte_floats_move_16_at_a_time() -> None:
    text = "kernel k(x: e4m3[N]) -> y: e4m3[N] where N % 16 == 0:\n    y[i] = x[i]\n"
    made = tilegen.load(text).kernel().schedule().tile("i", 16, into=("b", "v")).vectorize("v")
    assert "*reinterpret_cast<uint4*>(&y[b * 16]) = *reinterpret_cast<const uint4*>(&x[b * 16]);" in made.source()
    x = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn)
    np.testing.assert_array_equal(made.compile("cpu")(x).view(np.uint8), x.view(np.uint8))


def test_a_torch_tensor_with_a_gradient_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tensor:
        """As much of a torch tensor as is asked for it."""

        dtype = "torch.float32"

        def __init__(self, requires_grad: bool) -> None:
            self.requires_grad = requires_grad

        def detach(self) -> Tensor:
            return self

        def numpy(self) -> np.ndarray:
            return np.ones(3, np.float32)

    torch = ModuleType("torch")
    monkeypatch.setattr(torch, "Tensor", Tensor, raising=False)
    monkeypatch.setattr(torch, "is_grad_enabled", lambda: recording[0], raising=False)
    recording = [True]
    monkeypatch.setitem(sys.modules, "torch", torch)
    tensor = tilegen.load("vector_add").kernel().ir.tensors[0]
    assert HostArrays().adopt(Tensor(False), tensor).tolist() == [1, 1, 1]
    with pytest.raises(ArgumentError, match=f"{tensor.name} requires a gradient") as caught:
        HostArrays().adopt(Tensor(True), tensor)
    assert f"{tensor.name}.detach()" in caught.value.render()
    assert "tilegen.torch.op(..., backward=...)" in caught.value.render()
    recording[0] = False
    assert HostArrays().adopt(Tensor(True), tensor).tolist() == [1, 1, 1]
