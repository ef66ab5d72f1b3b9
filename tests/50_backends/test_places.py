"""argmax and argmin over several indices: the place of the first best value in the box of their ranges."""

import numpy as np
import pytest

from tests.support.by_hand import agrees, compiles, schedule_text
from tilegen.backends.text import emit
from tilegen.errors import IllegalStep, SourceError, StepError
from tilegen.lab.checks.check import cases
from tilegen.lowering import lower

BOXES = """
kernel f(A: f32[M, J, K], B: i32[J, K])
    -> a: i32[M], b: i64[M], c: i32[M], d: i32[M], e: i64[1], g: i32[M]
    where J >= 3, K >= 3:
    a[i] = argmax[j, k](A[i, j, k])
    b[i] = argmin[k, j](A[i, j, k])
    c[i] = argmax[j, k < 3](A[i, j, k])
    d[i] = argmax[j, k in j..K](A[i, j, k])
    e[z] = argmin[j, k](B[j, k] + z)
    g[i] = argmax[r in -1..2, s in -1..2, k](A[i, 1 + r, k] * f32(s))
"""


def boxes(A, B):
    m, j, k = A.shape
    upper = np.where(np.arange(j)[:, None] <= np.arange(k), A, -np.inf)
    windows = A[:, None, 0:3, None, :] * np.array([-1, 0, 1], np.float32)[None, None, None, :, None]
    return {
        "a": A.reshape(m, -1).argmax(axis=1),
        "b": A.transpose(0, 2, 1).reshape(m, -1).argmin(axis=1),
        "c": A[:, :, :3].reshape(m, -1).argmax(axis=1),
        "d": upper.reshape(m, -1).argmax(axis=1),
        "e": np.array([B.argmin()]),
        "g": windows.reshape(m, -1).argmax(axis=1),
    }


@pytest.mark.pocl
@pytest.mark.parametrize("shape", [(5, 4, 7), (2, 3, 3)])
@pytest.mark.parametrize("most", [2, 99])
def test_the_first_of_equals_wins(shape, most):
    rng = np.random.default_rng(most)
    A = rng.integers(-most, most, shape).astype(np.float32)
    B = rng.integers(-most, most, shape[1:]).astype(np.int32)
    agrees(BOXES, {"A": A, "B": B}, boxes(A, B))


@pytest.mark.nvrtc
def test_they_compile():
    compiles(BOXES)


def test_the_place_is_computed_in_the_type_of_the_target():
    text = emit(lower(schedule_text(BOXES).tree), "cuda")
    assert "a[i] = (int)((unsigned)j * K + k);" in text
    assert "b[i] = (long long)k * (long long)J + (long long)j;" in text
    assert "c[i] = j * 3 + k;" in text


BEST = "kernel f(A: f32[M, J, 32]) -> at: i32[M]:\n    at[i] = argmax[j, k](A[i, j, k])\nschedule s for f:\n"


@pytest.mark.pocl
@pytest.mark.parametrize(
    "steps",
    [
        ["tile(i, 4) -> b, l", "bind(b, block.x)", "bind(l, thread.x)", "cache_register(at, at=l)"],
        ["rfactor(at, k) -> part"],
        ["rfactor(at, j) -> part"],
        ["tile(k, 4) -> ko, ki", "rfactor(at, ko) -> part"],
        ["tile(j, 2) -> jo, ji", "rfactor(at, [jo, k]) -> part"],
    ],
    ids=lambda steps: steps[-1],
)
def test_under_schedules(steps):
    rng = np.random.default_rng(1)
    A = rng.integers(-4, 4, (6, 5, 32)).astype(np.float32)
    body = "".join(f"    {step}\n" for step in steps)
    agrees(BEST + body, {"A": A}, {"at": A.reshape(6, -1).argmax(axis=1)})


WARPS = """
kernel f(A: f32[M, J, 128]) -> at: i64[M]:
    at[i] = argmax[j, k](A[i, j, k])

schedule s for f:
    tile(k, 4) -> l, v
    rfactor(at, l) -> part
    order(l, j, v)
    fuse(i, at.i) -> i
    rename(l, at.l) -> l
    tile(i, 4) -> b, w
    bind(b, block.x)
    bind(w, thread.y)
    bind(l, thread.x)
    cache_register(part, at=w)
    cache_register(part.best, at=w)
    cache_register(at, at=w)
    cache_register(at.best, at=w)
"""


@pytest.mark.pocl
def test_lanes_of_a_warp():
    rng = np.random.default_rng(1)
    A = rng.integers(-4, 4, (6, 5, 128)).astype(np.float32)
    agrees(WARPS, {"A": A}, {"at": A.reshape(6, -1).argmax(axis=1)})


@pytest.mark.parametrize(
    "steps", [["order(i, k, j)"], ["tile(k, 4) -> ko, ki", "order(i, ki, j, ko)"], ["reassociate(at)"]]
)
def test_another_order_is_refused(steps):
    with pytest.raises((IllegalStep, StepError), match="order"):
        schedule_text(BEST + "".join(f"    {step}\n" for step in steps))


def test_the_check_accepts_the_best_and_nothing_else():
    made = schedule_text("kernel f(A: f32[M, J, K]) -> at: i32[M]:\n    at[i] = argmax[j, k](exp(A[i, j, k]))\n")
    (case,) = [c for c in cases(made.kernel, [{"M": 3, "J": 4, "K": 5}]) if c.data == "random"]
    gap = case.expected["at"].gap
    right = case.arrays["A"].reshape(3, -1).argmax(axis=1)
    assert (gap(right) == 0).all()
    assert (gap((right + 1) % 20) > 1).all()
    assert (gap(right - 20) > 1).all()


@pytest.mark.parametrize("range_", ["j, k > j", "j in 1..J, k", "j, k in 2..K"])
def test_a_range_that_begins_elsewhere_is_refused(range_):
    with pytest.raises(SourceError) as error:
        schedule_text(f"kernel f(A: f32[M, J, K]) -> at: i32[M]:\n    at[i] = argmax[{range_}](A[i, j, k])\n")
    assert "a value that never wins" in error.value.render()
