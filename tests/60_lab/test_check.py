"""A check finds what is wrong: a value, an element never written, a write outside; and passes what is right."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilegen
from tilegen.backends.devices.devices import InterpretedProgram, InterpreterEngine
from tilegen.errors import NothingCompared, WrongResult
from tilegen.interpreter.dtypes import from_values, to_values
from tilegen.lab.checks.check import Trial, cases, check
from tilegen.lab.checks.inputs import draw_kinds

SIZES = {"M": 5, "N": 7, "K": 6}


class Spoiled(InterpretedProgram):
    """A program whose result something is done to."""

    spoil: Callable[[Any], None]

    def bind(self, sizes: Mapping[str, int], arrays: Mapping[str, Any], rounds: int = 1) -> Callable[[], None]:
        run = super().bind(sizes, arrays, rounds)

        def run_and_spoil() -> None:
            run()
            self.spoil(next(a for name, a in arrays.items() if self.kernel.tensor(name).role == "output"))

        return run_and_spoil


def trials(spoil: Callable[[Any], None] | None = None, text: str = "gemm") -> tuple[Trial, ...]:
    tree = tilegen.load(text).kernel().schedule().tree
    program = Spoiled(tree, InterpreterEngine())
    program.spoil = spoil or (lambda array: None)
    return check(program, cases(tree.kernel, [{n: SIZES.get(n, 5) for n in tree.kernel.sizes}]))


def test_inputs_are_normal_unless_a_logarithm_or_a_root_depends_on_them() -> None:
    first = {
        name: draw_kinds(tilegen.load(file).kernel(name).ir)[0]
        for file, name in (("examples/hgemm.tg", "hgemm_bias_gelu"), ("chain", "chain"))
    }
    assert first == {"hgemm_bias_gelu": "normal", "chain": "narrow"}


def test_a_right_program_passes_exactly_and_within_the_bound() -> None:
    exact, random = trials()
    assert (exact.data, exact.error) == ("integers", 0)
    assert random.data == "random"
    assert 0 < random.error < 1


def test_the_last_bit_counts_with_integers() -> None:
    def spoil(c: Any) -> None:
        c[2, 3] = np.nextafter(c[2, 3], np.float32(np.inf))

    with pytest.raises(WrongResult, match="1 of 35 elements") as caught:
        trials(spoil)
    assert "C[2, 3]" in caught.value.render()
    assert "M = 5" in caught.value.render()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_no_element_is_excused(value: float) -> None:
    def spoil(c: Any) -> None:
        c[4, 6] = value

    with pytest.raises(WrongResult, match="1 of 35 elements"):
        trials(spoil)


def test_a_write_outside_is_seen() -> None:
    def spoil(c: Any) -> None:
        np.lib.stride_tricks.as_strided(c, (36,), (4,))[35] = 0

    with pytest.raises(WrongResult, match="C is written to after its memory"):
        trials(spoil)


def test_a_kernel_with_roots_and_logarithms_gets_arguments_it_is_defined_for() -> None:
    (random,) = trials(text="chain")
    assert random.data == "random"


def test_elements_that_a_kernel_leaves_alone_have_to_stay() -> None:
    text = "kernel lower(A: f32[N, N]) -> C: f32[N, N]:\n    C[i, j] = A[i, j] for j <= i\n"
    trials(text=text)

    def spoil(c: Any) -> None:
        c[0, 1] = 0

    with pytest.raises(WrongResult, match="1 of 49 elements"):
        trials(spoil, text)


def test_any_best_index_is_right() -> None:
    text = "kernel best(A: f32[M, N]) -> C: i32[M]:\n    C[i] = argmax[j](A[i, j])\n"
    trials(text=text)

    def spoil(c: Any) -> None:
        c[0] = (c[0] + 1) % 7

    with pytest.raises(WrongResult, match="elements are wrong"):
        trials(spoil, text)


ROUNDED = """\
kernel product(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    var R: bf16[M, K]
    R[r, c] = bf16(A[r, c])
    C[i, j] = sum[k](f32(R[i, k]) * B[k, j])
    C[i, j] approximates sum[k](A[i, k] * B[k, j])"""


def test_a_kernel_is_held_to_what_it_claims() -> None:
    with pytest.raises(WrongResult, match="elements are wrong"):
        trials(text=f"{ROUNDED}\n")
    with pytest.raises(WrongResult, match="elements are wrong"):
        trials(text=f"{ROUNDED} within sum[k](abs(A[i, k] * B[k, j]) * 2**-13)\n")
    exact, random = trials(text=f"{ROUNDED} within sum[k](abs(A[i, k] * B[k, j]) * 2**-8)\n")
    assert (exact.data, exact.error) == ("integers", 0)
    assert 0.1 < random.error < 1


# -- what is right, and easily called wrong


def random_trial(text: str, sizes: Mapping[str, int] | None = None) -> Trial:
    """The trial on random numbers."""
    tree = tilegen.load(text).kernel().schedule().tree
    tried = cases(tree.kernel, [sizes or {"N": 40}])
    return next(t for t in check(InterpretedProgram(tree, InterpreterEngine()), tried) if t.data == "random")


def wrong_by(text: str, change: tuple[str, str], sizes: Mapping[str, int] | None = None) -> None:
    """Fails unless the check finds that a part of the text was another."""
    wanted, other = (tilegen.load(t).kernel().schedule().tree for t in (text, text.replace(*change)))
    with pytest.raises(WrongResult):
        check(InterpretedProgram(other, InterpreterEngine()), cases(wanted.kernel, [sizes or {"N": 40}]))


def test_arguments_are_drawn_where_functions_have_values() -> None:
    text = "kernel f(X: f32[N]) -> Y: f32[N]:\n    Y[i] = sqrt(X[i] - 1)\n"
    assert random_trial(text).unbounded == 0
    wrong_by(text, ("- 1)", "- 1) + 0.001"))


def test_nan_is_right_where_nan_has_to_be() -> None:
    text = "kernel f(X: f32[N]) -> Y: f32[N]:\n    Y[i] = sqrt(-1 - X[i] * X[i])\n"
    assert random_trial(text).unbounded == 0
    wrong_by(text, ("sqrt(-1 -", "sqrt(3 -"))


def test_an_overflow_on_the_way_is_no_error() -> None:
    text = "kernel f(A: f32[N]) -> B: f32[N]:\n    B[i] = A[i] * 3e38 * 10 / 1e38\n"
    assert random_trial(text).unbounded < 0.1
    wrong_by(text, ("/ 1e38", "/ 1.001e38"))
    text = "kernel f(A: f16[N, K]) -> B: f16[N]:\n    B[i] = sum[k](A[i, k] * 60000)\n"
    assert random_trial(text, {"N": 40, "K": 8}).unbounded < 0.1
    wrong_by(text, ("60000", "-60000"), {"N": 40, "K": 8})


@pytest.mark.parametrize(
    "value",
    [
        "(A[i] * A[i] + 1) * 3e38 * 10 / 1e38",  # inf, or by another order a number
        "asin((A[i] / 3 * 3) / A[i])",  # at the border of its domain
        "1 / (sqrt(A[i] * A[i] + 1) - sqrt(A[i] * A[i] + 1))",
    ],
)
def test_what_has_no_bound_is_no_pass(value: str) -> None:
    with pytest.raises(NothingCompared):
        random_trial(f"kernel f(A: f32[N]) -> B: f32[N]:\n    B[i] = {value}\n")


def test_an_index_of_unknown_values_is_no_pass() -> None:
    text = "kernel f(A: f32[M, N]) -> b: i32[M]:\n    b[i] = argmax[j]((A[i, j] * A[i, j] + 1) * 3e38 * 10)\n"
    with pytest.raises(NothingCompared):
        random_trial(text, {"M": 4, "N": 8})


def test_a_bound_that_is_no_number_is_no_bound() -> None:
    tree = tilegen.load("gemm").kernel().schedule().tree
    tried = cases(tree.kernel, [SIZES])
    nan = [replace(c, expected={n: replace(r, bound=r.bound * np.nan) for n, r in c.expected.items()}) for c in tried]
    with pytest.raises(NothingCompared):
        check(InterpretedProgram(tree, InterpreterEngine()), nan)


def test_divisors_are_drawn_besides_0() -> None:
    text = "kernel f(A: i32[N], B: i32[N]) -> C: i32[N], D: i32[N]:\n    C[i] = A[i] // B[i]\n    D[i] = A[i] % B[i]\n"
    assert random_trial(text).unbounded == 0
    wrong_by(text, ("A[i] // B", "1 + A[i] // B"))
    for case in cases(tilegen.load(text).kernel().ir, [{"N": 400}]):
        assert case.arrays["B"].all()


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(
    ("term", "count"),
    [
        ("A[k]", 150),
        ("A[k] * A[k]", 1000),
        ("A[k] * A[k]", 10_000),
        ("A[k] * B[k]", 700),
        ("(A[k] - B[k]) * A[k]", 400),
    ],
)
def test_a_sum_of_any_length_is_compared(term: str, count: int, dtype: str) -> None:
    """In any order, each addition rounded, it is right; with integers it is wrong if one term is left out."""
    text = f"kernel f(A: {dtype}[K], B: {dtype}[K]) -> s: {dtype}[1]:\n    s[i] = sum[k]({term})\n"
    exact, random = cases(tilegen.load(text).kernel().ir, [{"K": count}])
    for case in (exact, random):
        expected = case.expected["s"]
        assert expected.known.all()
        values = {name: to_values(case.arrays[name], dtype) for name in "AB"}
        terms = np.random.default_rng(count).permutation(eval(term.replace("[k]", ""), values))
        total = np.zeros(())
        for each in terms:
            total = to_values(from_values(total + to_values(from_values(each, dtype), dtype), dtype), dtype)
        assert abs(total - expected.value) <= (0 if case is exact else expected.bound)
    assert np.any(terms)
    assert exact.data == "integers"
    assert not np.any(exact.expected["s"].bound)
