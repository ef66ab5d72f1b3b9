"""e4m3 and e5m2: all of their bytes, and all numbers half-way between two of them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilegen
from tilegen.interpreter import reference, run
from tilegen.interpreter.byte_floats import BYTE_FORMATS, float_to_bytes
from tilegen.interpreter.dtypes import from_values, to_values
from tilegen.interpreter.scalar import converter

DTYPES = tuple(BYTE_FORMATS)
BYTES = np.arange(256, dtype=np.uint8)
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}


def finite(dtype: str) -> np.ndarray:
    """All finite numbers of the type from 0 on, in their order."""
    values = to_values(BYTES[:128], dtype)
    return values[np.isfinite(values)]


def halves(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """(numbers half-way between two of the type and next to these in f64, what they have to become), of both signs."""
    low, high = finite(dtype)[:-1], finite(dtype)[1:]
    middle, even = (low + high) / 2, np.where(np.arange(len(low)) % 2 == 0, low, high)
    values = np.concatenate([np.nextafter(middle, 0), middle, np.nextafter(middle, np.inf), low])
    wanted = np.concatenate([low, even, high, low])
    return np.concatenate([values, -values]), np.concatenate([wanted, -wanted])


def test_the_bytes_of_the_specification() -> None:
    e4m3 = {0x00: 0.0, 0x01: 2.0**-9, 0x07: 7 * 2.0**-9, 0x08: 2.0**-6, 0x38: 1.0, 0x7E: 448.0, 0xBC: -1.5}
    e5m2 = {0x00: 0.0, 0x01: 2.0**-16, 0x03: 3 * 2.0**-16, 0x04: 2.0**-14, 0x3C: 1.0, 0x7B: 57344.0, 0xBE: -1.5}
    for dtype, known in (("e4m3", e4m3), ("e5m2", e5m2)):
        assert to_values(np.array(list(known), np.uint8), dtype).tolist() == list(known.values())
    assert np.flatnonzero(np.isnan(to_values(BYTES, "e4m3"))).tolist() == [0x7F, 0xFF]
    assert np.flatnonzero(np.isinf(to_values(BYTES, "e5m2"))).tolist() == [0x7C, 0xFC]
    assert np.isnan(to_values(BYTES, "e5m2")).sum() == 6


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_number_has_its_byte(dtype: str) -> None:
    values = to_values(BYTES, dtype)
    kept = np.isfinite(values)
    np.testing.assert_array_equal(from_values(values, dtype)[kept], BYTES[kept])
    assert [converter(dtype)(float(x)) for x in values[kept]] == values[kept].tolist()
    assert np.signbit(converter(dtype)(-0.0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_it_rounds_to_the_nearest_with_ties_to_even(dtype: str) -> None:
    values, wanted = halves(dtype)
    np.testing.assert_array_equal(to_values(from_values(values, dtype), dtype), wanted)
    assert [converter(dtype)(float(x)) for x in values] == wanted.tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_too_large_becomes_the_largest(dtype: str) -> None:
    largest = LARGEST[dtype]
    beyond = [np.nextafter(largest, np.inf), largest * 1.5, 1e300, np.inf]
    found = to_values(from_values(np.array(beyond + [-x for x in beyond]), dtype), dtype)
    assert found.tolist() == [largest] * 4 + [-largest] * 4
    assert [converter(dtype)(x) for x in (*beyond, 2**63 - 1)] == [largest] * 5
    assert np.isnan(to_values(from_values(np.array([np.nan]), dtype), dtype)).all()
    assert np.isnan(converter(dtype)(float("nan")))


@pytest.mark.parametrize("dtype", DTYPES)
def test_it_is_what_ml_dtypes_has(dtype: str) -> None:
    theirs = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[dtype]
    np.testing.assert_array_equal(BYTES.view(theirs).astype(np.float64), to_values(BYTES, dtype))
    rng = np.random.default_rng(3)
    values = rng.standard_normal(50000) * 2.0 ** rng.integers(-22, 15, 50000)
    values = values[np.abs(values) <= LARGEST[dtype]].astype(np.float32)
    np.testing.assert_array_equal(float_to_bytes(values, dtype), values.astype(theirs).view(np.uint8))


@pytest.mark.parametrize("dtype", DTYPES)
def test_casts_stay_within_the_bound(dtype: str) -> None:
    """Of f64, of integers, and to the other types; what is beyond the range is not unknown."""
    other = "e5m2" if dtype == "e4m3" else "e4m3"
    outputs = {"a": f"{dtype}(x[i])", "b": f"f32({dtype}(n[i]))", "c": "f16(y[i])", "d": f"f32({other}(y[i]))"}
    heads = {"a": dtype, "b": "f32", "c": "f16", "d": "f32"}
    text = f"kernel k(x: f64[N], n: i32[N], y: {dtype}[N]) -> {', '.join(f'{o}: {t}[N]' for o, t in heads.items())}:\n"
    text += "".join(f"    {o}[i] = {value}\n" for o, value in outputs.items())
    tree = tilegen.load(text).kernel().schedule().tree
    values = np.append(halves(dtype)[0], [np.inf, -np.inf, np.nan, 1e300, 460.0, 61000.0])
    count = len(values)
    arrays = {"x": values, "n": np.arange(-count // 2, count - count // 2, dtype=np.int32) * 7}
    arrays["y"] = np.resize(BYTES, count)
    found, wanted = run(tree, {"N": count}, arrays), reference(tree.kernel, {"N": count}, arrays)
    for name, expected in wanted.items():
        got = to_values(found[name], heads[name])
        assert np.isfinite(expected.bound).all()
        with np.errstate(invalid="ignore"):
            right = (np.abs(got - expected.value) <= expected.bound) | (got == expected.value)
        assert (right | np.isnan(got) & np.isnan(expected.value)).all()
    assert (wanted["c"].bound == 0).all()
    # A step less of the type would be found.
    assert (wanted["a"].bound[np.abs(values) == LARGEST[dtype] / 2] < LARGEST[dtype] / 4).all()
