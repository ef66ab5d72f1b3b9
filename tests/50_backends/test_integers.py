"""Integers: bit operations, what types do when a result does not fit, numbers that take the type of their place."""

import numpy as np
import pytest

from tests.support.by_hand import agrees, compiles, schedule_text
from tilegen.errors import SourceError

KINDS = {"i32": np.int32, "i64": np.int64, "i8": np.int8, "u8": np.uint8}
BITS = """
kernel bits(x: T[N], y: T[N]) -> a: T[N], o: T[N], e: T[N], n: T[N], l: T[N], r: T[N], c: T[N], d: T[N], m: T[N]:
    a[i] = x[i] & y[i]
    o[i] = x[i] | 5
    e[i] = x[i] ^ y[i] ^ 3
    n[i] = ~x[i] & ~6
    l[i] = x[i] << 3 | x[i] << y[i]
    r[i] = (x[i] >> 2) + (x[i] >> y[i])
    c[i] = (x[i] << 1 >> 1) + (x[i] + x[i] >> 1)
    d[i] = min(x[i] + x[i], 9) + max(-x[i], abs(x[i])) // 3
    m[i] = x[i] % 7 + (x[i] * 3) % 5
"""


def bits(x, y):
    """The same in Python's own integers, brought back to the type after each step that may leave it."""
    info = np.iinfo(x.dtype)
    count = info.bits

    def w(value):
        return (value - int(info.min)) % 2**count + int(info.min)

    def each(function):
        return np.array([function(int(p), int(q)) for p, q in zip(x, y, strict=True)], dtype=x.dtype)

    return {
        "a": each(lambda p, q: p & q),
        "o": each(lambda p, q: p | 5),
        "e": each(lambda p, q: p ^ q ^ 3),
        "n": each(lambda p, q: w(~p) & w(~6)),
        "l": each(lambda p, q: w(p << 3) | w(p << q % count)),
        "r": each(lambda p, q: w((p >> 2) + (p >> q % count))),
        "c": each(lambda p, q: w((w(p << 1) >> 1) + (w(p + p) >> 1))),
        "d": each(lambda p, q: w(min(w(p + p), 9) + max(w(-p), w(abs(p))) // 3)),
        "m": each(lambda p, q: w(p % 7 + w(p * 3) % 5)),
    }


@pytest.mark.pocl
@pytest.mark.parametrize("dtype", KINDS)
def test_bit_operations(dtype):
    rng = np.random.default_rng(1)
    info = np.iinfo(KINDS[dtype])
    # Sums of the long types here stay in them; what leaves them has a test of its own.
    most = 2**28 if info.bits > 8 else info.max
    x = rng.integers(max(info.min, -most), most, 60, endpoint=info.bits == 8).astype(KINDS[dtype])
    y = rng.integers(0 if info.min == 0 else -70, 100, 60).astype(KINDS[dtype])
    agrees(BITS.replace("T[", f"{dtype}["), {"x": x, "y": y}, bits(x, y))


@pytest.mark.nvrtc
@pytest.mark.parametrize("dtype", KINDS)
def test_bit_operations_compile(dtype):
    compiles(BITS.replace("T[", f"{dtype}["))


PLACES = """
def step(v) = 1 if v > 0 else 0
def twice(v) = v + v

kernel places(x: T[N], h: f32[N], A: f32[N, K]) -> a: T[N], b: T[N], c: T[N], d: T[N], e: T[N], f: T[N], g: T[N]:
    a[i] = 1 if h[i] > 0 else 0
    b[i] = x[i] + (1 if h[i] > 0 else 0)
    c[i] = (1 if h[i] > 1 else 2 if h[i] > 0 else 3) * max(2, step(h[i]))
    d[i] = sum[k](1 if A[i, k] > 0 else 0)
    e[i] = twice(step(h[i])) + (1 if 1 < 2 else 0)
    f[i] = 7 if (1 if h[i] > 0 else 0) == 1 else min(3, 4)
    g[i] = twice(step(h[i]) | 4) ** 2
"""


def places(x, h, A):
    step = (h > 0).astype(x.dtype)
    return {
        "a": step,
        "b": x + step,
        "c": np.where(h > 1, 1, np.where(h > 0, 2, 3)).astype(x.dtype) * 2,
        "d": (A > 0).sum(axis=1).astype(x.dtype),
        "e": 2 * step + 1,
        "f": np.where(step == 1, 7, 3).astype(x.dtype),
        "g": (2 * (step.astype(np.int64) | 4)) ** 2,
    }


@pytest.mark.pocl
@pytest.mark.parametrize("dtype", KINDS)
def test_numbers_take_the_type_of_their_place(dtype):
    rng = np.random.default_rng(2)
    arrays = {
        "x": rng.integers(0, 50, 40).astype(KINDS[dtype]),
        "h": rng.normal(size=40).astype(np.float32),
        "A": rng.normal(size=(40, 6)).astype(np.float32),
    }
    agrees(PLACES.replace("T[", f"{dtype}["), arrays, places(**arrays))


def test_numbers_are_floats_where_floats_are_wanted():
    text = "kernel f(x: f32[N]) -> y: f64[N]:\n    "
    text += "y[i] = (1 if x[i] > 0 else 0) / 4 + sqrt(2) + i32(2 if x[i] > 0 else 1.5)\n"
    with pytest.raises(SourceError, match="'\\+' of f64 and i32"):
        schedule_text(text.replace("(1 if x[i] > 0 else 0)", "f64(x[i])"))
    x = np.array([1, -1], np.float32)
    made = text.replace("i32(2 if x[i] > 0 else 1.5)", "f64(i32(2 if x[i] > 0 else 1.5))")
    agrees(made, {"x": x}, {"y": np.array([0.25, 0]) + np.sqrt(2.0) + np.array([2, 1])}, device=False)


INDICES = """
kernel indices(x: i64[N], s: i32[N]) -> a: i64[N], b: i64[N], c: i32[N], d: f64[N], e: i64[N], h: i32[N]:
    a[i] = i * 2000000000
    b[i] = min(x[i], i * i) % (i + 1) + (N - i if i * 3 < N else 2 * i)
    c[i] = s[i] % (i + 1) + i // 2 << i % 3
    d[i] = f64(N * N) + f64(i) + f64(i * 1000000000)
    e[i] = max(i, 3000000000) + i64(i) * i64(s[i])
    h[i] = (1 if i < 3000000000 else 2) + (3 if i * i > 9 else 4)
"""


@pytest.mark.pocl
def test_an_index_takes_the_type_of_its_place():
    rng = np.random.default_rng(3)
    n = 12
    x, s, i = rng.integers(-99, 99, n), rng.integers(-99, 99, n).astype(np.int32), np.arange(n)
    expected = {
        "a": i * 2000000000,
        "b": np.minimum(x, i * i) % (i + 1) + np.where(i * 3 < n, n - i, 2 * i),
        "c": (s % (i + 1) + i // 2) << i % 3,
        "d": n * n + i + i * 1e9,
        "e": 3000000000 + i * s,
        "h": 1 + np.where(i * i > 9, 3, 4),
    }
    agrees(INDICES, {"x": x, "s": s}, expected)


@pytest.mark.nvrtc
@pytest.mark.parametrize("text", [PLACES.replace("T[", "u8["), PLACES.replace("T[", "i64["), INDICES])
def test_places_compile(text):
    compiles(text)


def test_squares_of_sizes_do_not_leave_32_bits():
    """The narrow text computes in 64 bits what its place has them for."""
    from tilegen.backends.text import emit
    from tilegen.lowering import lower

    text = emit(lower(schedule_text(INDICES).tree), "cuda")
    assert "a[i] = (long long)i * 2000000000;" in text
    assert "(double)((long long)N * (long long)N) + (double)i + (double)((long long)i * 1000000000)" in text


A = np.arange(-2, 3, dtype=np.int32)
LEAST, MOST = -(2**31), 2**31 - 1


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("i32", "max(i * 2147483647, 5)", [5, MOST, 5, 2147483645, 5]),
        ("i32", "min(i * 3000000000, A[i])", [-2, -1294967296, 0, 1, -884901888]),
        ("i32", "(A[i] if i > 9 else i * 2147483647) // 2", [0, 1073741823, -1, 1073741822, -2]),
        ("i32", "i * 2147483647 // 3", [0, 715827882, 1431655764, MOST, -1431655767]),
        ("i32", "1 if i * 2147483647 > 5000000000 else 0", [0, 0, 0, 1, 1]),
        ("i32", "A[i] & 1 << 31", [LEAST, LEAST, 0, 0, 0]),
        ("i32", "1 << 31 | 5", [LEAST + 5] * 5),
        ("i8", "1 << 7", [-128] * 5),
        ("i64", "1 << 63", [-(2**63)] * 5),
        ("i64", "max(i64(A[i]), -9223372036854775808)", [-2, -1, 0, 1, 2]),
    ],
)
def test_numbers_and_indices_are_exact_until_they_take_a_type(dtype, value, expected):
    text = f"kernel k(A: i32[N]) -> B: {dtype}[N]:\n    B[i] = {value}\n"
    agrees(text, {"A": A}, {"B": np.array(expected, KINDS[dtype])})


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        ("i32", "1 << 32", "i32 is shifted by 0 to 31, not by 32"),
        ("i32", "A[i] + 2147483648", "2147483648 does not fit i32"),
        ("i64", "9223372036854775808", "too large for any type"),
    ],
)
def test_numbers_that_no_bits_of_the_type_hold(dtype, value, message):
    with pytest.raises(SourceError, match=message):
        schedule_text(f"kernel k(A: i32[N]) -> B: {dtype}[N]:\n    B[i] = {value}\n")
