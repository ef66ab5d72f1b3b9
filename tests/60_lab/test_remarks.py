"""What commands say of schedules that are right, and hardly meant."""

import pytest

import tilegen
from tests.support.stock import cases, schedule_stock
from tests.support.written import tree_from
from tilegen.lab.predict.remarks import remarks

TWO = """
kernel two(X: f32[N]) -> Y: f32[N], Z: f32[N]:
    Y[i] = 2 * X[i]
    Z[i] = Y[i] + 1

schedule s for two(T=64):
    blocks(Y.i, T) -> b, t
"""
ALONE = "s: two_Z runs on one thread: no loop of this launch is bound"
ELSE = """
kernel shifted(X: f32[N]) -> Y: f32[N]:
    Y[i] = (X[i - 4] else -1)

schedule s for shifted():
    tile(i, 32) -> b, t
    tile(t, 4) -> t, v
    bind(b, block.x)
    bind(t, thread.x)
    cache_register(X, at=t, vector=4)
"""
FILLED = """
kernel twice(A: f32[N]) -> C: f32[N]:
    var W: f32[N]
    W[i] = A[i] * 2
    C[i] = W[i] + 1

schedule s for twice():
    tile(C.i, 256) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
    compute_at(W, at=b)
    cache_shared(W, at=b)
"""
LONG = FILLED.replace("tile(C.i, 256) -> b, t", "tile(C.i, 256) -> b, t\n    tile(t, 2) -> t, c")
SHARED = ("tile(W.i, 128) -> W_i_o, W_i_t", "bind(W_i_t, thread.x)")
TRIANGLE = """
kernel lower_part(X: f32[M, N]) -> Y: f32[M, N]:
    Y[i, j] = X[i, j] for j <= i

schedule s for lower_part():
    tile(j, 4) -> b, v
    vectorize(v)
    bind(i, block.x)
"""
ROWS = """
kernel ahead(X: f32[M, N + 1], Y: f32[M, N]) -> Z: f32[M, N]:
    Z[i, j] = X[i, j + 1] + Y[i, j]

schedule s for ahead():
    tile(j, 32) -> b, t
    bind(i, block.y)
    bind(b, block.x)
    bind(t, thread.x)
    cache_shared(X, at=b)
    cache_shared(Y, at=b)
    bulk(X.shared)
    bulk(Y.shared)
"""
NEVER = "s: a part of the vectors is made at a time: (N + 1) % 4 == 0 and N % 4 == 0 never hold together"
CASES = {
    "vectors for no size": (ROWS, [NEVER]),
    "one thread": (TWO, [ALONE]),
    "a tile": (FILLED, ["s: one thread of 256 fills 'W.shared': bind(W.i, thread.x) shares it out"]),
    "a shared tile": (FILLED + "    bind(W.i, thread.x)\n", []),
    "a long tile": (LONG, [f"s: one thread of 128 fills 'W.shared': {' and '.join(SHARED)} shares it out"]),
    "a shared long tile": (LONG + "".join(f"    {step}\n" for step in SHARED), []),
    "one iteration": (TWO.replace("Z: f32[N]", "Z: f32[1]").replace("Z[i] = Y[i] + 1", "Z[i] = 1"), []),
    "else": (
        ELSE,
        [
            "s: cache_register(X, at=t, vector=4) makes no vectors: its reads of 'X' have an else, and only a copy to "
            "memory with else 0 can be a vector"
        ],
    ),
    "infinite numbers": (
        ELSE.replace(", vector=4", "").replace("else -1", "else -1e39) + min(X[i], 1e38").replace("f32[", "f16["),
        ["s: -1e+39 is -inf in f16", "s: 1e+38 is inf in f16"],
    ),
    "without a schedule": ("kernel far(X: f32[N]) -> Y: f32[N]:\n    Y[i] = X[i] * 1e40\n", ["s: 1e+40 is inf in f32"]),
    "without else": (ELSE.replace("X[i - 4] else -1", "X[i]"), []),
    "triangle": (
        TRIANGLE,
        ["s: vectorize(v) makes no vectors: the test b*4 + v <= i can hold for a part of its elements"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_hardly_meant_is_said_with_its_reason(case):
    text, said = CASES[case]
    text = text.replace("blocks(Y.i, T) -> b, t", "bind(Y.i, block.x)").replace("(T=64)", "")
    tree = tree_from(text) if "schedule" in text else tilegen.load(text).kernel().schedule().tree
    assert remarks([("s", tree)]) == said


@pytest.mark.parametrize(
    "words", [["emit"], ["check", "--size", "N=5"], ["compare", "--size", "N=5", "--device", "cpu"]]
)
def test_commands_say_it(words, tmp_path, cli):
    (tmp_path / "two.tg").write_text(TWO)
    assert f"note: {ALONE}\n" in cli([words[0], str(tmp_path / "two.tg"), *words[1:]]).err


@pytest.mark.parametrize("name", ["gemm", "softmax", "total"])
def test_nothing_is_said_of_stock_schedules(name):
    assert remarks((s, schedule_stock(n, s).tree) for n, s in cases() if n == name) == []
