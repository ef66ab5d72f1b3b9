"""What kernels make of nan, infinities and extreme integers: device, interpreter and reference agree."""

from __future__ import annotations

import numpy as np
import pytest

import tilegen
from tests.support.cover import first
from tilegen.interpreter import reference

DEVICES = ["interpreter", pytest.param("cpu", marks=pytest.mark.pocl)]
NAN, INF = np.nan, np.inf

LANES = """
schedule lanes for best:
    tile(j, 64) -> c, r
    tile(r, 2) -> l, v
    rfactor(at, l) -> part
    order(l, c, v)
    fuse(i, at.i) -> i
    rename(l, at.l) -> l
    tile(i, 4) -> b, w
    bind_warps(b, w, l)
    cache_register(part, at=w)
    cache_register(part.best, at=w)
    cache_register(at, at=w)
    cache_register(at.best, at=w)
"""
THROUGH_MEMORY = "\nschedule parts for best:\n    tile(j, 4) -> jo, ji\n    rfactor(at, jo) -> part\n"
PLAIN = "\nschedule plain for best:\n    tile(i, 4) -> b, t\n    bind(b, block.x)\n    bind(t, thread.x)\n"


def first_best(word: str, row: np.ndarray, low: int, high: int) -> int:
    """The first index of [low, high) whose value nothing beats; the first of all where no value beats the start."""
    most = -INF if word == "argmax" else INF
    if row.dtype.kind != "f":
        info = np.iinfo(row.dtype)
        most = info.min if word == "argmax" else info.max
    at = low
    for j in range(low, high):
        if (row[j] > most) if word == "argmax" else (row[j] < most):
            most, at = row[j], j
    return at


ROWS = [
    [-INF] * 9,
    [NAN] * 9,
    [INF] * 9,
    [NAN, 5, NAN, -INF, NAN, 2, NAN, NAN, 2],
    [-INF, NAN, -INF, NAN, -INF, NAN, INF, NAN, -INF],
    [INF, INF, NAN, INF, INF, INF, INF, NAN, -3],
    [1, 1, 1, 1, 1, 1, 1, 1, 1],
    [0, -1, 0.0, -0.0, NAN, -7, -7, 4, 4],
    [NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 3],
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("schedule", [PLAIN, THROUGH_MEMORY, LANES])
@pytest.mark.parametrize("word", ["argmax", "argmin"])
@pytest.mark.parametrize(
    ("low", "text"),
    [(lambda i: 0, "j"), (lambda i: 2, "j in 2..N"), (lambda i: i, "j in i..N"),
     (lambda i: max(0, i - 3), "j >= i - 3"), (lambda i: i // 2, "j >= i // 2")],
)  # fmt: skip
@pytest.mark.parametrize("dtype", first(["f32", "i32"]))
def test_the_index_of_the_best_is_one_of_the_range(device, schedule, word, low, text, dtype) -> None:
    source = f"kernel best(X: {dtype}[M, N]) -> at: i32[M]:\n    at[i] = {word}[{text}](X[i, j])\n" + schedule
    file = tilegen.load(source)
    scheduled = file.schedule(file.schedules[0].name)
    x = np.array(ROWS, np.float32)
    if dtype == "i32":
        least, most = np.iinfo(np.int32).min, np.iinfo(np.int32).max
        x = np.nan_to_num(x, nan=7, posinf=most, neginf=least).clip(least, 2.0**31 - 1).astype(np.int64)
        x = np.where(x >= 2**31 - 1, most, x).astype(np.int32)
    wanted = [first_best(word, row, low(i), len(row)) for i, row in enumerate(x)]
    assert scheduled.compile(device)(x).tolist() == wanted
    ref = reference(scheduled.kernel, {"M": 9, "N": 9}, {"X": x})["at"]
    assert ref.value.tolist() == wanted
    assert ref.gap is not None
    assert (ref.gap(np.array(wanted, np.int32)) <= 1).all()
    assert (ref.gap(np.array(wanted, np.int32) + 9) > 1).all()


@pytest.mark.parametrize("device", DEVICES)
def test_an_empty_range_gives_its_lower_end(device: str) -> None:
    head = "kernel f(X: f32[N]) -> at: i32[N] where N >= 3:\n"
    scheduled = tilegen.load(head + "    at[i] = argmax[j in i..3](X[j])\n").kernel()
    x = np.arange(6, dtype=np.float32)
    assert scheduled.schedule().compile(device)(x).tolist() == [2, 2, 2, 3, 4, 5]
    assert reference(scheduled.ir, {"N": 6}, {"X": x})["at"].value.tolist() == [2, 2, 2, 3, 4, 5]


def test_the_first_index_where_a_multiple_begins() -> None:
    text = "kernel f(X: f32[N]) -> at: i32[N]:\n    at[i] = argmax[j](X[j]) for 3*j >= 2*i\n"
    scheduled = tilegen.load(text).kernel().schedule()
    x = np.full(9, NAN, np.float32)
    wanted = [-(-2 * i // 3) for i in range(9)]
    assert scheduled.compile("interpreter")(x).tolist() == wanted
    assert reference(scheduled.kernel, {"N": 9}, {"X": x})["at"].value.tolist() == wanted


@pytest.mark.parametrize("device", DEVICES)
def test_the_first_index_of_a_range_below_zero(device: str) -> None:
    text = "kernel f(X: f32[N]) -> at: i32[N]:\n    at[i] = argmax[j in i - 2..i + 1](X[j] else -inf)\n"
    scheduled = tilegen.load(text).kernel().schedule()
    x = np.array([NAN, NAN, -INF, 1, NAN, -2, -INF, NAN, NAN], np.float32)
    wanted = [-2, -1, 0, 3, 3, 3, 5, 5, 6]
    assert scheduled.compile(device)(x).tolist() == wanted
    ref = reference(scheduled.kernel, {"N": 9}, {"X": x})["at"]
    assert ref.value.tolist() == wanted
    assert ref.gap is not None
    assert (ref.gap(np.array(wanted, np.int32)) <= 1).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
def test_max_and_min_pass_over_nan(device: str, dtype: str) -> None:
    text = f"kernel f(X: {dtype}[M, N]) -> a: {dtype}[M], b: {dtype}[M], c: {dtype}[M] where M == N:\n"
    text += "    a[i] = max[j](X[i, j])\n    b[i] = min[j](X[i, j])\n    c[i] = min(X[0, i], max(X[i, 0], 1))\n"
    scheduled = tilegen.load(text).kernel().schedule()
    x = np.array(ROWS, {"f32": np.float32, "f64": np.float64, "f16": np.float16}[dtype])
    with np.errstate(all="ignore"):
        wanted = np.fmax.reduce(x, axis=1, initial=-INF), np.fmin.reduce(x, axis=1, initial=INF)
        wanted = (*wanted, np.fmin(x[0], np.fmax(x[:, 0], x.dtype.type(1))))
    refs = reference(scheduled.kernel, {"M": 9, "N": 9}, {"X": x})
    for got, want, ref in zip(scheduled.compile(device)(x), wanted, refs.values(), strict=True):
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(ref.value, want)


# -- integers


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["i64", "i32", "i8", "u8"])
def test_quotients_and_remainders_have_a_value_for_every_divisor(device: str, dtype: str) -> None:
    kind = {"i64": np.int64, "i32": np.int32, "i8": np.int8, "u8": np.uint8}[dtype]
    limits = np.iinfo(kind)
    ends = [limits.min, limits.max, 0, 1, 7, *((-1, -7) if limits.min else ())]
    pairs = [(int(p), int(q)) for p in ends for q in ends]
    x, y = (np.array(each, kind) for each in zip(*pairs, strict=True))
    text = f"kernel f(x: {dtype}[N], y: {dtype}[N]) -> a: {dtype}[N], b: {dtype}[N], c: {dtype}[N], d: {dtype}[N]:\n"
    text += "    a[i] = x[i] // y[i]\n    b[i] = x[i] % y[i]\n    c[i] = abs(x[i]) // 7\n    d[i] = x[i] // 7 % 3\n"
    scheduled = tilegen.load(text).kernel().schedule()

    def wrap(value: int) -> int:
        return (value - int(limits.min)) % 2**limits.bits + int(limits.min)

    wanted = [
        [wrap(p // q) if q else 0 for p, q in pairs],
        [p % q if q else 0 for p, q in pairs],
        [wrap(abs(p)) // 7 for p, _ in pairs],
        [p // 7 % 3 for p, _ in pairs],
    ]
    refs = reference(scheduled.kernel, {"N": len(x)}, {"x": x, "y": y})
    for got, want, ref in zip(scheduled.compile(device)(x, y), wanted, refs.values(), strict=True):
        assert got.tolist() == want
        assert ref.value.tolist() == want
        assert not ref.bound.any()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("source", ["f64", "f32"])
def test_a_float_loses_its_fraction_and_stays_in_the_range_of_the_integers(device: str, source: str) -> None:
    numbers = [0.0, -0.0, 0.9, -0.9, 127.9, 128, -128.9, -129, 255.9, 256, -0.5, 1e30, -1e30, INF, -INF, NAN]
    numbers += [2.0**31, -(2.0**31), 2.0**31 - 128, 2.0**63, -(2.0**63), 2.0**63 - 2.0**39]
    x = np.array(numbers, {"f64": np.float64, "f32": np.float32}[source])
    kinds = {"i64": np.int64, "i32": np.int32, "i8": np.int8, "u8": np.uint8}
    heads = ", ".join(f"y{dtype}: {dtype}[N]" for dtype in kinds)
    lines = "".join(f"    y{dtype}[i] = {dtype}(x[i])\n" for dtype in kinds)
    scheduled = tilegen.load(f"kernel f(x: {source}[N]) -> {heads}:\n{lines}").kernel().schedule()
    refs = reference(scheduled.kernel, {"N": len(x)}, {"x": x})
    for got, kind, ref in zip(scheduled.compile(device)(x), kinds.values(), refs.values(), strict=True):
        limits = np.iinfo(kind)
        low, high = int(limits.min), int(limits.max)
        wanted = [0 if v != v else low if v < low else high if v >= high else int(v) for v in map(float, x)]
        assert got.tolist() == wanted
        assert ref.value.tolist() == wanted
        assert not ref.bound.any()


WRAPS = """
kernel f(a: i32[N], b: i32[N], c: i8[N]) -> p: i64[N], q: i32[N], r: i32[N], s: i64[N], t: i32[N], u: i32[N]:
    p[i] = i64(a[i] * b[i])
    q[i] = 1 if a[i] + 1 > a[i] else 0
    r[i] = (a[i] * 4) // 4
    s[i] = i64(-a[i] - b[i] * 3) + 1
    t[i] = i32(c[i]) * i32(c[i])
    u[i] = sum[k < 3](a[i] << k)
"""


@pytest.mark.parametrize("device", DEVICES)
def test_integers_wrap_before_they_are_used_further(device: str) -> None:
    least, most = -(2**31), 2**31 - 1
    pairs = [(p, q) for p in (least, most, 2**30, -7, 0, 65537) for q in (least, most, 3, -(2**30), 65537)]
    a, b = (np.array(each, np.int32) for each in zip(*pairs, strict=True))
    c = np.resize(np.array([-128, 127, 3], np.int8), len(a))

    def w(value: int) -> int:
        return (value + 2**31) % 2**32 - 2**31

    wanted = [
        [w(p * q) for p, q in pairs],
        [int(p != most) for p, _ in pairs],
        [w(p * 4) // 4 for p, _ in pairs],
        [w(-p - 3 * q) + 1 for p, q in pairs],
        [int(x) ** 2 for x in c.tolist()],
        [w(p * 7) for p, _ in pairs],
    ]
    scheduled = tilegen.load(WRAPS).kernel().schedule()
    refs = reference(scheduled.kernel, {"N": len(a)}, {"a": a, "b": b, "c": c})
    for got, want, ref in zip(scheduled.compile(device)(a, b, c), wanted, refs.values(), strict=True):
        assert got.tolist() == want
        assert ref.value.tolist() == want


def test_c_is_told_that_integers_wrap_where_they_may() -> None:
    # A compiler takes it that signed integers stay in their type: NVRTC made 1 of the second line.
    text = tilegen.load(WRAPS).kernel().schedule().source("cuda")
    assert "p[i] = (long long)((int)((unsigned)a[i] * b[i]));" in text
    assert "q[i] = (int)((unsigned)a[i] + 1) > a[i] ? 1 : 0;" in text
    assert "s[i] = (long long)((int)(-(unsigned)a[i] - (unsigned)b[i] * 3)) + 1LL;" in text
    assert "t[i] = (int)c[i] * (int)c[i];" in text


@pytest.mark.parametrize(
    ("rounding", "added", "kept"),
    [("tf32", 0x1000, 0xFFFFE000), ("tf32_rz", 0, 0xFFFFE000), ("power_of_two", 0, 0xFF800000)],
)
@pytest.mark.parametrize("device", DEVICES)
def test_roundings_of_bits(device: str, rounding: str, added: int, kept: int) -> None:
    """The nearest number of ten fraction bits, ties away from 0, or the next one, or power of two, towards 0.

    What is too large becomes infinite, and nan stays nan, whichever of its bits are set.
    """
    bits = np.random.default_rng(0).integers(0, 2**32, 4000, dtype=np.uint64).astype(np.uint32)
    special = [0x3F800FFF, 0x3F801000, 0xBF801000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FFFFFFF, 0x80000000]
    x = np.concatenate([bits, np.array(special, np.uint32)])
    x = x[(x & 0x7F800000 != 0) | (x & 0x7FFFFF == 0)].view(np.float32)  # a device may take subnormal numbers as 0
    kernel = tilegen.load(f"kernel r(A: f32[N]) -> B: f32[N]:\n    B[i] = {rounding}(A[i])\n").kernel()
    found = np.empty_like(x)
    kernel.schedule().compile(device=device)(A=x, B=found)
    with np.errstate(invalid="ignore"):
        wanted = (x.view(np.uint32) + np.uint32(added) & np.uint32(kept)).view(np.float32)
    wanted = np.where(np.isfinite(x), wanted, x)
    assert np.array_equal(found, wanted, equal_nan=True)
    expected = reference(kernel.ir, {"N": len(x)}, {"A": x})["B"]
    known = np.isfinite(wanted)
    assert np.array_equal(expected.value[known], wanted[known])
    assert not expected.bound[known].any()
