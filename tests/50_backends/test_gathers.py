"""Reads of inputs at indices that depend on data, are clamped or go round: total, so that no data can break them."""

import random
from dataclasses import replace

import numpy as np
import pytest

from tests.support.by_hand import agrees, compiles, schedule_text
from tests.support.reader.overflow import overflow
from tilegen.backends.text import emit
from tilegen.errors import SourceError
from tilegen.ir.nodes import Gather
from tilegen.ir.walk import rewrite
from tilegen.ir.written import tree_of
from tilegen.judge import judge
from tilegen.lowering import lower

ROUND = """
kernel f(x: f32[N], s: i32) -> a: f32[N], b: f32[N], c: f32[N], d: f32[N], e: f32[N], g: f32[N], h: f32[N]:
    a[i] = x[clamp(i - 1, 0, N - 1)] + 10 * x[min(i + 1, N - 1)]
    b[i] = x[(i - 1) % N] + 10 * x[(i + 1) % N]
    c[i] = sum[r in -2..3](x[clamp(i + r, 0, N - 1)])
    d[i] = x[i * i % N] + x[i * 1000003 % N]
    e[i] = x[i * i] else x[0]
    g[i] = (x[i + s] else 0) + x[(i * s) % N]
    h[i] = x[i - 1 if i > 0 else N - 1]
"""


def round_(x, s):
    n = len(x)
    i = np.arange(n)
    at = [x[j] if 0 <= j < n else 0 for j in i + int(s)]
    return {
        "a": x[np.maximum(i - 1, 0)] + 10 * x[np.minimum(i + 1, n - 1)],
        "b": np.roll(x, 1) + 10 * np.roll(x, -1),
        "c": sum(x[np.clip(i + r, 0, n - 1)] for r in range(-2, 3)),
        "d": x[i * i % n] + x[i * 1000003 % n],
        "e": np.where(i * i < n, x[np.minimum(i * i, n - 1)], x[0]),
        "h": np.roll(x, 1),
        "g": np.array(at, np.float32) + x[i * int(s) % n],
    }


@pytest.mark.pocl
@pytest.mark.parametrize("n", [1, 2, 11])
@pytest.mark.parametrize("s", [-3, 4, 2**31 - 1])
def test_clamped_and_round(n, s):
    x = np.random.default_rng(n).integers(-9, 9, n).astype(np.float32)
    agrees(ROUND, {"x": x, "s": np.int32(s)}, round_(x, s))


TABLES = """
kernel g(E: f32[V, D], t: T[N], h: f16[V], w: f32[N]) -> y: f32[N, D], z: f32[N, D], u: f16[N]:
    y[i, d] = E[t[i], d] else 0
    z[i, d] = (E[t[i] - 1, d + 1] else E[clamp(i64(t[i]), 0, V - 1), d]) + (E[t[i], i] else w[i])
    u[i] = h[t[i]] else -1
"""


def tables(dtype):
    return TABLES.replace("T[N]", f"{dtype}[N]")


def rows(E, t, h, w):
    (n,), (v, d) = t.shape, E.shape
    t = t.astype(int)

    def at(row, column, other):
        return E[row, column] if 0 <= row < v and 0 <= column < d else other

    held = np.clip(t, 0, v - 1)
    z = [[at(t[i] - 1, c + 1, E[held[i], c]) + at(t[i], i, w[i]) for c in range(d)] for i in range(n)]
    return {
        "y": np.array([[at(t[i], c, 0) for c in range(d)] for i in range(n)]),
        "z": np.array(z),
        "u": np.array([h[j] if 0 <= j < v else -1 for j in t]),
    }


@pytest.mark.pocl
@pytest.mark.parametrize(("dtype", "kind"), [("i32", np.int32), ("i64", np.int64), ("u8", np.uint8), ("i8", np.int8)])
def test_tables(dtype, kind):
    rng = np.random.default_rng(4)
    t = rng.integers(0 if dtype == "u8" else -2, 7, 12).astype(kind)
    t[:2] = np.iinfo(kind).max, np.iinfo(kind).min + (dtype == "i64")  # whose predecessor has no 64 bits
    arrays = {
        "E": rng.integers(-9, 9, (5, 3)).astype(np.float32),
        "t": t,
        "h": rng.integers(-9, 9, 5).astype(np.float16),
        "w": rng.integers(-9, 9, 12).astype(np.float32),
    }
    agrees(tables(dtype), arrays, rows(**arrays))


@pytest.mark.nvrtc
@pytest.mark.parametrize("text", [ROUND, *map(tables, ("i32", "i64", "u8", "i8"))])
def test_they_compile(text):
    compiles(text)


STEPS = [
    ["tile(i, 8) -> b, l", "bind(b, block.x)", "bind(l, thread.x)"],
    ["tile(i, 8) -> b, l", "bind(b, block.x)", "bind(l, thread.x)", "cache_shared(t, at=b)"],
    ["tile(i, 4) -> b, l", "order(b, l, d)", "bind(b, block.x)", "bind(l, thread.y)", "bind(d, thread.x)"],
    ["tile(i, 8) -> b, l", "bind(b, block.x)", "tile(l, 2) -> l, v", "bind(l, thread.x)", "vectorize(v)"],
    ["stream(E)", "cache_register(t, at=i)"],
]


@pytest.mark.pocl
@pytest.mark.parametrize("steps", STEPS, ids=lambda steps: steps[-1])
def test_under_schedules(steps):
    width = "4" if any("thread.y" in step for step in steps) else "D"
    text = f"kernel f(E: f32[V, {width}], t: i32[N]) -> y: f32[N, {width}]:\n    y[i, d] = 2 * (E[t[i], d] else 7)\n"
    if steps[-1].startswith("vectorize"):
        text = "kernel f(E: f32[V], t: i32[N]) -> y: f32[N]:\n    y[i] = 2 * (E[t[i]] else 7)\n"
    rng = np.random.default_rng(6)
    E = rng.integers(-9, 9, (6, 4)).astype(np.float32)
    E = E[:, 0].copy() if steps[-1].startswith("vectorize") else E
    t = rng.integers(-1, 7, 21).astype(np.int32)
    inside = ((t >= 0) & (t < 6)).reshape(-1, *[1] * (E.ndim - 1))
    body = "".join(f"    {step}\n" for step in steps)
    agrees(f"{text}schedule s for f:\n{body}", {"E": E, "t": t}, {"y": 2 * np.where(inside, E[np.clip(t, 0, 5)], 7)})


def test_the_text_is_short():
    text = emit(lower(schedule_text(ROUND).tree), "cuda")
    assert "a[i] = x[min(max(i - 1, 0), N - 1)] + 10.0f * x[min(i + 1, N - 1)];" in text
    assert "b[i] = x[floor_mod(i - 1, N)] + 10.0f * x[floor_mod(i + 1, N)];" in text
    text = emit(lower(schedule_text(tables("i32")).tree), "cuda")
    assert "y[i * D + d] = t[i] >= 0 && t[i] < V ? E[t[i] * D + d] : 0.0f;" in text


@pytest.mark.parametrize(
    ("read", "message"),
    [
        ("x[clamp(i + 1, 0, N)]", "may be outside of its N elements"),
        ("x[clamp(i - 1, -1, N - 1)]", "may be outside of its N elements"),
        ("x[min(i + 1, N)]", "may be outside of its N elements"),
        ("x[t[i] % (N + 1)]", "may be outside of its N elements"),
        ("x[i - 1 if i > 1 else i - 1]", "may be outside of its N elements"),
        ("E[t[i] % N, i + 1]", "may be outside of its D elements"),
        ("E[t[i] % V, i]", "may be outside of its D elements"),
    ],
)
def test_what_may_be_outside_is_refused(read, message):
    head = "kernel f(x: f32[N], E: f32[V, D], t: i32[N]) -> y: f32[N] where V >= N:\n"
    with pytest.raises(SourceError) as error:
        schedule_text(f"{head}    y[i] = {read}\n")
    assert message in error.value.render()


@pytest.mark.pocl
def test_a_table_that_is_large_enough():
    head = "kernel f(E: f32[V, D], t: i32[N]) -> y: f32[N] where V >= N, D > N:\n"
    E, t = np.arange(40, dtype=np.float32).reshape(5, 8), np.array([-1, 7, 3], np.int32)
    agrees(f"{head}    y[i] = E[t[i] % N, i + 1]\n", {"E": E, "t": t}, {"y": E[t % 3, np.arange(3) + 1]})


def test_the_judge_wants_a_test_where_an_index_may_leave():
    text = "kernel f(E: f32[V], t: i32[N]) -> y: f32[N]:\n    y[i] = E[t[i]] else 0\n"
    kernel = schedule_text(text).kernel
    without = rewrite(kernel, lambda v: replace(v, tested=(), fallback=None) if isinstance(v, Gather) else v)
    violation = judge(tree_of(without))
    assert violation is not None
    assert violation.sentence == "'y' may read outside 'E'"


PRODUCT = """
kernel f(A: i32[M, K], E: i32[V, K], t: i32[M], u: i32[K]) -> y: i32[M]:
    y[i] = sum[k](A[i, k] * E[t[i] % V, k] * A[i, clamp(k + u[k], 0, K - 1)])

schedule s for f:
"""
ROUNDED = ["round_up(k, 4)", "tile(k, 4) -> ko, ki", "tile(i, 8) -> b, l", "bind(b, block.x)", "bind(l, thread.x)"]


@pytest.mark.pocl
@pytest.mark.parametrize("steps", [ROUNDED, ["tile(k, 2) -> kp, k", "rfactor(y, k) -> part"]])
def test_reductions(steps):
    rng = np.random.default_rng(8)
    A, E = (rng.integers(-9, 9, (rows, 6)).astype(np.int32) for rows in (11, 5))
    t, u = (rng.integers(-9, 9, n).astype(np.int32) for n in (11, 6))
    held = np.clip(np.arange(6) + u, 0, 5)
    body = "".join(f"    {step}\n" for step in steps)
    agrees(PRODUCT + body, {"A": A, "E": E, "t": t, "u": u}, {"y": (A * E[t % 5] * A[:, held]).sum(axis=1)})


BEYOND = """
kernel f(x: i32[N]) -> y: i32[N]:
    y[i] = x[i - 1 if i > 0 else N - 1]

schedule s for f:
    tile(i, 4) -> b, t
    bind(b, block.x)
    cache_register(y, at=b)
"""


def test_a_gather_into_registers_keeps_the_test_that_it_is_wanted():
    """A register may be written beyond the tensor, where nobody reads it; a tensor may not be read there."""
    launches = lower(schedule_text(BEYOND).tree)
    text = emit(launches, "cuda")
    assert overflow(text, launches, {"N": 2}, random.Random(1)) is None
    bare = text.replace("b * 4 + t < N", "b * 4 + t < N + 4")
    assert bare != text
    assert overflow(bare, launches, {"N": 2}, random.Random(1)) is not None
