"""Reads that go outside: a fallback that is an element or an expression, a choice that guards a read."""

import numpy as np
import pytest

from tests.support.by_hand import agrees, compiles, schedule_text
from tilegen.backends.text import emit
from tilegen.errors import SourceError
from tilegen.lowering import lower

FALLBACKS = """
kernel f(x: f32[N], A: f32[N, M]) -> y: f32[N], z: f32[N, M], w: f32[N], v: f32[N], u: f32[N], q: i32[N], p: f32[N]:
    y[i] = x[i - 1] else x[0]
    z[i, j] = (A[i - 1, j + 1] else A[i - 1, j] else (2 * A[i, j] + 1)) + (A[i, j - 1] else 3)
    w[i] = x[i - 1] if i > 0 else x[0]
    v[i] = (x[i - 1] else 7) if i > 0 else (x[i + 1] else x[i])
    u[i] = sum[r in -1..2]((x[i + r] else x[i]) * (x[i + r] if i + r >= 0 and i + r < N else 0))
    q[i] = 1 if i > 0 and x[i - 1] > 0 or i < 1 else 0
    p[i] = x[i - 3] if i != 0 and i > 2 else 0 if i < 1 else x[i - 1]
"""


def fallbacks(x, A):
    n, m = A.shape

    def at(i, other):
        return x[i] if 0 <= i < n else other

    def z(i, j):
        inner = A[i - 1, j] if i >= 1 else 2 * A[i, j] + 1
        return (A[i - 1, j + 1] if i >= 1 and j + 1 < m else inner) + (A[i, j - 1] if j >= 1 else 3)

    return {
        "y": np.array([at(i - 1, x[0]) for i in range(n)]),
        "z": np.array([[z(i, j) for j in range(m)] for i in range(n)]),
        "w": np.array([at(i - 1, x[0]) for i in range(n)]),
        "v": np.array([at(i - 1, at(i + 1, x[i])) for i in range(n)]),
        "u": np.array([sum(at(i + r, x[i]) * at(i + r, 0) for r in (-1, 0, 1)) for i in range(n)]),
        "q": np.array([int(i < 1 or x[i - 1] > 0) for i in range(n)]),
        "p": np.array([x[i - 3] if i > 2 else 0 if i < 1 else x[i - 1] for i in range(n)]),
    }


@pytest.mark.pocl
@pytest.mark.parametrize("shape", [(9, 5), (1, 1), (2, 3)])
def test_fallbacks_and_guards(shape):
    A = np.random.default_rng(5).integers(-9, 9, shape).astype(np.float32)
    x = A[:, 0].copy() - 1
    agrees(FALLBACKS, {"x": x, "A": A}, fallbacks(x, A))


@pytest.mark.nvrtc
def test_they_compile():
    compiles(FALLBACKS)


def test_nothing_is_asked_twice():
    text = emit(lower(schedule_text(FALLBACKS).tree), "cuda")
    assert "y[i] = i >= 1 ? x[i - 1] : x[0];" in text
    assert "w[i] = i > 0 ? x[i - 1] : x[0];" in text
    assert "q[i] = i > 0 && x[i - 1] > 0.0f || i < 1 ? 1 : 0;" in text


SCHEDULES = [
    "tile(i, 8) -> b, t\n bind(b, block.x)\n bind(t, thread.x)\n",
    "tile(i, 8) -> b, t\n bind(b, block.x)\n bind(t, thread.x)\n cache_shared(x, at=b)\n",
    "tile(i, 8) -> b, t\n tile(t, 2) -> t, v\n bind(b, block.x)\n bind(t, thread.x)\n unroll(v)\n",
]


@pytest.mark.pocl
@pytest.mark.parametrize("steps", SCHEDULES)
@pytest.mark.parametrize(
    "right",
    ["x[i - 1] else x[i]", "x[i - 1] + x[i] if i > 0 else x[i]", "x[i - 1] if i >= 1 else 5", "x[i + 1] else 2 * x[i]"],
)
@pytest.mark.parametrize("n", [1, 8, 19])
def test_under_schedules(right, steps, n):
    x = np.random.default_rng(n).integers(-9, 9, n).astype(np.float32)
    before, after = np.r_[x[:1], x[:-1]], np.r_[x[1:], 2 * x[-1:]]
    expected = {
        "x[i - 1] else x[i]": before,
        "x[i - 1] + x[i] if i > 0 else x[i]": np.r_[x[:1], (x[:-1] + x[1:])],
        "x[i - 1] if i >= 1 else 5": np.r_[[5], x[:-1]],
        "x[i + 1] else 2 * x[i]": after,
    }
    text = f"kernel f(x: f32[N]) -> y: f32[N]:\n    y[i] = {right}\nschedule s for f:\n"
    agrees(text + "".join(f"    {step.strip()}\n" for step in steps.splitlines()), {"x": x}, {"y": expected[right]})


@pytest.mark.parametrize(
    ("right", "witness"),
    [
        ("x[i - 1] else x[i + 1]", "x[1], and dimension 0 has 1 element"),
        ("x[i + 1] if i > 0 else x[i]", "reads x["),
        ("x[i - 1] else x[i - 2] else x[i - 3]", "reads x[-3]"),
    ],
)
def test_what_is_not_guarded_is_refused(right, witness):
    with pytest.raises(SourceError) as error:
        schedule_text(f"kernel f(x: f32[N]) -> y: f32[N]:\n    y[i] = {right}\n")
    assert witness in error.value.render()
