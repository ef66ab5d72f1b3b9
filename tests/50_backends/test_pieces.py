"""Products in pieces: what they make of data of wide range, tiny and infinite numbers, and why sums are promoted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilegen
from tests.support.declared_sums import SIGNIFICAND
from tilegen.frontend.stock import stock_instructions
from tilegen.interpreter import reference
from tilegen.ir.hardware.instructions import Summation

SCHEDULES = {"gemm_bf16x3": "promoted", "gemm_f16x2": "two_f16", "gemm_tf32x2": "two_tf32"}
# The type of the pieces, how many there are, and the instruction that multiplies them.
PIECES = {
    "gemm_bf16x3": ("bf16", 3, "wgmma_m64n128k16_trans_bf16"),
    "gemm_f16x2": ("f16", 2, "wgmma_m64n128k16_trans_f16"),
    "gemm_tf32x2": ("tf32", 2, "wgmma_m64n128k8_tf32"),
}
DEVICES = [pytest.param("cpu", marks=pytest.mark.pocl), pytest.param("cuda", marks=pytest.mark.gpu)]
# The largest number of f32 is rounded to infinity, but in f16, which scales it.
NO_PIECES = [(name, bad) for name in SCHEDULES for bad in (np.inf, -np.inf, np.nan)]
NO_PIECES += [(name, float(np.finfo("f4").max)) for name in ("gemm_bf16x3", "gemm_tf32x2")]
SIZES = {"M": 20, "N": 24, "K": 72}


def multiply(name: str, device: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product by the stock schedule on a GPU; by a plain loop, which rounds alike, on the CPU."""
    kernel = tilegen.load("gemm_pieces").kernel(name)
    program = kernel.schedule(*([SCHEDULES[name]] if device == "cuda" else [])).compile(device)
    result = program(program.xp.asarray(a), program.xp.asarray(b))
    return result.get() if device == "cuda" else result


def assert_within_claim(name: str, a: np.ndarray, b: np.ndarray, got: np.ndarray) -> None:
    kernel = tilegen.load("gemm_pieces").kernel(name).ir
    expected = reference(kernel, {"M": a.shape[0], "N": b.shape[1], "K": b.shape[0]}, {"A": a, "B": b})["C"]
    np.testing.assert_allclose(expected.value, a.astype("f8") @ b.astype("f8"), rtol=1e-9, atol=1e-300)
    assert np.isfinite(expected.bound).all()
    assert (abs(got - expected.value) <= expected.bound).all()


def numbers(seed: int, exponents: tuple[int, int], transposed: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed)
    shape = (SIZES["K"], SIZES["N"]) if transposed else (SIZES["M"], SIZES["K"])
    return np.ldexp(rng.standard_normal(shape), rng.integers(*exponents, shape)).astype("float32")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SCHEDULES)
def test_data_of_wide_range(name: str, device: str) -> None:
    """f16 loses what is small beside the largest element of its row or column; the others lose nothing."""
    a, b = numbers(0, (-50, 50)), numbers(1, (-50, 50), transposed=True)
    got = multiply(name, device, a, b)
    assert_within_claim(name, a, b, got)
    magnitude = abs(a).astype("f8") @ abs(b).astype("f8")
    units = abs(got - a.astype("f8") @ b.astype("f8")) / magnitude * 2.0**24
    assert units.max() > 1000 if name == "gemm_f16x2" else units.max() < 20


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SCHEDULES)
def test_rows_and_columns_of_any_scale(name: str, device: str) -> None:
    """A row, or a column, that is small as a whole is as exact as any other."""
    a, b = numbers(0, (0, 1)), numbers(1, (0, 1), transposed=True)
    a = np.ldexp(a, np.arange(SIZES["M"])[:, None] * 5 - 60).astype("float32")
    b = np.ldexp(b, 60 - np.arange(SIZES["N"]) * 6).astype("float32")
    got = multiply(name, device, a, b)
    assert_within_claim(name, a, b, got)
    exact, magnitude = a.astype("f8") @ b.astype("f8"), abs(a).astype("f8") @ abs(b).astype("f8")
    normal = magnitude > 2.0**-100  # a smaller product may be subnormal
    assert normal.mean() > 0.8
    assert (abs(got - exact) / magnitude * 2.0**24)[normal].max() < 20


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SCHEDULES)
def test_subnormal_numbers(name: str, device: str) -> None:
    a, b = numbers(0, (-149, -100)), numbers(1, (90, 100), transposed=True)
    assert (abs(a)[a != 0] < 2.0**-126).any()
    assert_within_claim(name, a, b, multiply(name, device, a, b))
    assert_within_claim(name, a, np.zeros_like(b), multiply(name, device, a, np.zeros_like(b)))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "bad"), NO_PIECES)
def test_what_has_no_finite_pieces_gives_nan(name: str, device: str, bad: float) -> None:
    """In its row or column, and nowhere else."""
    a, b = numbers(0, (0, 1)), numbers(1, (0, 1), transposed=True)
    a[3, 5], b[7, 2] = bad, bad
    got = multiply(name, device, a, b)
    struck = np.zeros(got.shape, bool)
    struck[3], struck[:, 2] = True, True
    assert np.isnan(got[struck]).all()
    a[3, 5], b[7, 2] = 0, 0
    assert np.array_equal(got[~struck], multiply(name, device, a, b)[~struck])


# -- what tensor cores make of a sum, as instructions.tg declares it


def cut_off(x: np.ndarray, unit: np.ndarray) -> np.ndarray:
    return np.trunc(x / unit) * unit


def exponent(x: np.ndarray) -> np.ndarray:
    return np.where(x != 0, np.frexp(x)[1] - 1, -126)


def add_up(summation: Summation, total: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The sums of rows of products and `total`, exact in f64 but for what the declaration cuts off."""
    assert summation.truncated
    assert summation.bits
    for at in range(0, left.shape[1], summation.terms):
        x, y = left[:, at : at + summation.terms], right[:, at : at + summation.terms]
        unit = np.ldexp(1.0, np.maximum((exponent(x) + exponent(y)).max(1), exponent(total)) - summation.bits)
        sums = cut_off(total, unit) + cut_off(x * y, unit[:, None]).sum(1)
        total = cut_off(sums, np.ldexp(1.0, exponent(sums) - 23))
    return total


def cut_into_pieces(x: np.ndarray, count: int, bits: int) -> list[np.ndarray]:
    """The least first, as the kernels number them."""
    found: list[np.ndarray] = []
    for _ in range(count):
        unit = np.ldexp(1.0, exponent(x) - bits + 1)
        found.insert(0, np.rint(x / unit) * unit)
        x = x - found[0]
    return found


def rms_of(name: str, promote: Callable[[np.ndarray, np.ndarray], np.ndarray] | None) -> float:
    """The error of sums of 2048 products, in units of 2^-24 of their magnitudes."""
    dtype, count, instruction = PIECES[name]
    (summation,) = stock_instructions()[instruction].summations
    tile, rng = 4 * summation.terms, np.random.default_rng(0)
    a, b = (rng.standard_normal((200, 2048)).astype("f4").astype("f8") for _ in range(2))
    left, right = (cut_into_pieces(x, count, SIGNIFICAND[dtype]) for x in (a, b))
    total = np.zeros(200)
    for k in range(0, 2048, tile):
        part = np.zeros(200) if promote else total
        for p in range(count):
            for q in range(count - 1 - p, count):
                part = add_up(summation, part, left[p][:, k : k + tile], right[q][:, k : k + tile])
        total = promote(total, part) if promote else part
    errors = (total - (a * b).sum(1)) / abs(a * b).sum(1) * 2.0**24
    return float(np.sqrt((errors**2).mean()))


@pytest.mark.parametrize("name", PIECES)
def test_sums_that_are_promoted_are_more_exact_than_those_of_f32(name: str) -> None:
    promoted = rms_of(name, lambda total, part: (total.astype("f4") + part.astype("f4")).astype("f8"))
    assert promoted < 0.2
    assert rms_of(name, None) > 10 * promoted
