"""Timing: every program takes turns, errors stay with their program, and a second opinion is listened to."""

from typing import Any

import numpy as np
import pytest

import tilegen
from tilegen.backends.devices import engine, program
from tilegen.backends.host import HostArrays
from tilegen.errors import WrongResult
from tilegen.lab.compare import compare
from tilegen.lab.rivals import relative_difference, rival
from tilegen.lab.timing import time_programs

SIZES = {"M": 24, "N": 40, "K": 32}


class NumpyOnGpu(HostArrays):
    """An engine that claims a GPU, so that what is only done there can be tried with numpy."""

    on_gpu = True


def product() -> tuple[Any, dict[str, Any]]:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((24, 32), dtype=np.float32), rng.standard_normal((32, 40), dtype=np.float32)
    return tilegen.load("gemm").kernel().ir, {"A": a, "B": b, "C": np.zeros((24, 40), np.float32)}


def test_the_rival_of_a_gemm_is_a_matrix_product_on_the_same_arrays() -> None:
    kernel, arrays = product()
    found = rival(kernel, NumpyOnGpu(), SIZES, arrays)
    assert found is not None
    name, call = found
    call()
    assert name == "cuBLAS"
    np.testing.assert_array_equal(arrays["C"], arrays["A"] @ arrays["B"])


def test_a_result_that_rounding_cannot_explain_is_noticed() -> None:
    kernel, arrays = product()
    arrays["C"][...] = arrays["A"] @ arrays["B"]
    assert relative_difference(kernel, NumpyOnGpu(), SIZES, arrays) == 0
    arrays["C"][3, 4] += 0.01
    share = relative_difference(kernel, NumpyOnGpu(), SIZES, arrays)
    assert share is not None
    assert share > 1


def test_without_a_gpu_there_is_no_rival() -> None:
    kernel, arrays = product()
    assert rival(kernel, HostArrays(), SIZES, arrays) is None
    assert relative_difference(kernel, HostArrays(), SIZES, arrays) is None


@pytest.mark.pocl
def test_every_program_has_as_many_samples() -> None:
    file = tilegen.load("gemm")
    cpu = engine("cpu")
    programs = {name: program(file.schedule(name).tree, cpu) for name in ("naive", "tiled")}
    done = time_programs(programs, cpu, SIZES, lambda what, now, total: None)
    assert list(done.times) == ["naive", "tiled"]
    assert len({t.samples for t in done.times.values()}) == 1
    assert all(0 < t.p20 <= t.median <= t.p80 for t in done.times.values())
    assert (done.rival, done.errors) == (None, {})


@pytest.mark.pocl
def test_a_wrong_schedule_gets_a_row_and_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilegen.lab import compare as module

    right = module.check

    def check(each: Any, tried: Any) -> Any:
        if each.tree.body[0].name == "bi":
            raise WrongResult("C is wrong: 1 of 2 elements are wrong")
        return right(each, tried)

    monkeypatch.setattr(module, "check", check)
    file = tilegen.load("gemm")
    trees = {"plain": file.kernel().schedule().tree, "naive": file.schedule("naive").tree}
    result = compare(trees, engine("cpu"), SIZES)
    plain, naive = result.rows
    assert plain.error is None
    assert plain.time is not None
    assert naive.exit_code == 4
    assert naive.time is None
    assert "C is wrong" in (naive.error or "")
