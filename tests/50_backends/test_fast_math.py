"""fast_math in the text: intrinsics where it was said, in CUDA alone; and what a check makes of it."""

import pytest

import tilegen
from tilegen.backends.compiler import nvrtc
from tilegen.backends.devices.devices import engine, program
from tilegen.backends.text import emit
from tilegen.ir.comparison.tolerance import tolerance_of
from tilegen.ir.parts.operations import APPROXIMATIONS
from tilegen.lab.checks.check import cases_by_tolerance, check
from tilegen.lowering import lower

ALL = ("divide", "sqrt", "rsqrt", "exp", "exp2", "log", "log2", "sin", "cos", "tanh")
TEXT = """
def every(x) = sqrt(x) + rsqrt(x) + exp(x) + exp2(x) + log(x) + log2(x) + sin(x) + cos(x) + tanh(x)

kernel mixed(a: f32[N], b: f64[N], h: f16[N]) -> c: f32[N], d: f64[N], e: f16[N]:
    c[i] = every(a[i]) / a[i]
    d[i] = sin(b[i]) / b[i]
    e[i] = sin(h[i])
"""


def allow_fast_math(*functions):
    return tilegen.load(TEXT).kernel().schedule().fast_math(*functions)


def test_the_words_are_all_tried() -> None:
    assert set(ALL) == set(APPROXIMATIONS)


def test_only_what_was_said_is_approximated() -> None:
    text = emit(lower(allow_fast_math("sin", "divide").tree))
    assert "__sinf(a[i])" in text
    assert "__fdividef(sqrtf(a[i])" in text
    assert "+ cosf(a[i])" in text
    assert "__cosf" not in text


def test_double_precision_stays_and_half_is_computed_in_single() -> None:
    text = emit(lower(allow_fast_math("sin", "divide").tree))
    assert "sin(b[i]) / b[i]" in text
    assert "__sinf(__half2float(h[i]))" in text


def test_opencl_has_the_accurate_functions() -> None:
    accurate = tilegen.load(TEXT).kernel().schedule()
    assert emit(lower(allow_fast_math(*ALL).tree), "opencl") == emit(lower(accurate.tree), "opencl")


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_every_approximation_compiles(arch: str) -> None:
    assert nvrtc.compile_text(emit(lower(allow_fast_math(*ALL).tree)), arch).cubin


EACH = """
kernel each(a: f32[N], b: f32[N]) -> c: f32[N]:
    c[i] = {}
"""
VALUES = [(word, "b[i] / a[i]" if word == "divide" else f"{word}(4 * a[i] - 1)") for word in ALL]


def each(word, value, device):
    """The trials of one function alone, at arguments on both sides of 1, and of its range where it is short."""
    plain = tilegen.load(EACH.format(f"{value} + 0 * sqrt(a[i])")).kernel().schedule()
    tree = plain.fast_math(word).blocks("i", 128, into=("bi", "ti")).tree
    return check(
        program(tree, engine(device)), cases_by_tolerance(tree.kernel, [tree], [{"N": 4096}])[tolerance_of(tree)]
    )


@pytest.mark.gpu
@pytest.mark.parametrize(("word", "value"), VALUES)
def test_the_hardware_keeps_its_bound(word: str, value: str) -> None:
    (trial,) = each(word, value, "cuda")
    assert 0 < trial.error <= 1


@pytest.mark.pocl
@pytest.mark.parametrize(("word", "value"), VALUES)
def test_an_accurate_device_keeps_it_too(word: str, value: str) -> None:
    (trial,) = each(word, value, "cpu")
    assert trial.error <= 1


def test_a_check_says_what_it_cannot_claim() -> None:
    tree = tilegen.load(EACH.format("sin(9 * a[i] + 9)")).kernel().schedule().fast_math("sin").tree
    exact = tilegen.load(EACH.format("sin(9 * a[i] + 9)")).kernel().schedule().tree
    both = cases_by_tolerance(tree.kernel, [tree, exact], [{"N": 500}])
    (rough,), (accurate,) = (check(program(t, engine("interpreter")), both[tolerance_of(t)]) for t in (tree, exact))
    assert accurate.unbounded == 0
    assert 0.5 < rough.unbounded < 0.9
