"""The bound with approximations: as wide as is documented, where it is; nothing is claimed elsewhere."""

import numpy as np
import pytest

from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.interpreter import reference
from tilegen.ir.comparison.tolerance import Tolerance
from tilegen.ir.parts.operations import APPROXIMATIONS
from tilegen.lab.checks.inputs import random


def kernel(value: str, dtype: str = "f32"):
    text = f"kernel f(A: {dtype}[N]) -> B: {dtype}[N]:\n    B[i] = {value}\n"
    return build(parse(Source("test.tg", text)).kernels["f"])


def bounds(value: str, at: list[float], *approximate: str, dtype: str = "f32"):
    arrays = {"A": np.array(at, np.float16 if dtype == "f16" else np.float64 if dtype == "f64" else np.float32)}
    return reference(kernel(value, dtype), {"N": len(at)}, arrays, Tolerance(tuple(approximate)))["B"]


def text_of(name: str) -> str:
    return "1 / A[i]" if name == "/" else f"{name}(A[i])"


@pytest.mark.parametrize("name", APPROXIMATIONS.values())
def test_the_value_is_the_exact_one_and_the_bound_no_tighter(name: str) -> None:
    at = [0.3, 0.5, 0.9, 1.0, 1.7, 2.5]
    accurate, rough = bounds(text_of(name), at), bounds(text_of(name), at, name)
    assert (accurate.value == rough.value).all()
    assert (rough.bound >= accurate.bound).all()
    assert (rough.bound < 2.0**-10).all()


# (function, argument, least and most of what is documented, beside the flushing of subnormal results)
DOCUMENTED = [
    ("sin", 0.001, 2.0**-21.41), ("cos", 1.57, 2.0**-21.19), ("log", 0.999, 2.0**-21.41), ("log2", 1.001, 2.0**-22),
    ("exp", 10.0, (2 + 11) * 2.0**-23 * np.exp(10.0)), ("tanh", 0.5, 2.0**-11 * np.tanh(0.5)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "at", "allowed"), DOCUMENTED)
def test_the_bound_is_the_documented_one(name: str, at: float, allowed: float) -> None:
    assert bounds(text_of(name), [at], name).bound[0] == pytest.approx(allowed, rel=1e-6)


OUTSIDE = [
    ("sin", 3.2), ("cos", -3.2), ("log", 1e-40), ("log2", 1e-40), ("sqrt", 1e-40), ("rsqrt", 1e-40), ("/", 1e38),
]  # fmt: skip


@pytest.mark.parametrize(("name", "at"), OUTSIDE)
def test_nothing_is_claimed_outside_the_documented_range(name: str, at: float) -> None:
    assert np.isinf(bounds(text_of(name), [at], name).bound[0])


@pytest.mark.parametrize(("name", "at"), [("sin", 3.2), ("cos", 1e4), ("/", 1e38), ("exp", -80.0)])
def test_the_accurate_function_is_known_there_too(name: str, at: float) -> None:
    assert np.isfinite(bounds(text_of(name), [at]).bound[0])


@pytest.mark.parametrize(("value", "allowed"), [("A[i] * 1e30", 1e-10), ("sqrt(A[i])", 1e-20), ("log(A[i])", np.inf)])
def test_a_subnormal_number_may_count_as_nothing(value: str, allowed: float) -> None:
    assert bounds(value, [1e-40]).bound[0] >= 0.99 * allowed
    assert bounds(value, [1e-37]).bound[0] < 1e-4


def test_an_argument_that_may_be_outside_is_outside() -> None:
    nearly = [np.float32(np.pi) / 3]
    assert np.isinf(bounds("sin(A[i] * 3)", nearly, "sin").bound[0])


def test_the_root_of_nothing_is_nothing() -> None:
    assert bounds("sqrt(A[i])", [0.0], "sqrt").bound[0] < 2.0**-100


def test_double_precision_has_no_approximation() -> None:
    at = [0.5, 4.0]
    assert (bounds("sin(A[i])", at, "sin", dtype="f64").bound == bounds("sin(A[i])", at, dtype="f64").bound).all()


def test_half_precision_rounds_the_approximation() -> None:
    bound = bounds("sin(A[i])", [0.5], "sin", dtype="f16").bound[0]
    assert 2.0**-12 * np.sin(0.5) < bound < 2.0**-8


def test_the_random_inputs_of_a_logarithm_are_in_its_range() -> None:
    log = kernel("log(A[i]) + sin(A[i])")
    arrays = random(np, log, {"N": 10_000}, 0)
    assert np.isfinite(reference(log, {"N": 10_000}, arrays, Tolerance(("log", "sin")))["B"].bound).all()
