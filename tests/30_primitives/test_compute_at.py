"""Values computed at a loop: the kernel is the one as written, wherever they are computed and kept."""

from functools import partial

import numpy as np
import pytest

from tests.support.enumeration.runs import verdict
from tests.support.stored import drawn
from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.interpreter import reference, run
from tilegen.ir.walk import leaves
from tilegen.judge import check_equations
from tilegen.lowering import lower
from tilegen.proof import prove
from tilegen.schedule import apply

BLUR = """
kernel blur(X: f32[M + 2, N]) -> Y: f32[M, N]:
    var P: f32[M + 2, N]
    P[y, x] = X[y, x] * 2.0 + 1.0
    Y[y, x] = P[y, x] + P[y + 2, x] * 3.0
"""
LINE = """
kernel line(X: f32[N + 4]) -> Y: f32[N]:
    var P: f32[N + 4], Q: f32[N + 2]
    P[i] = X[i] * 2.0
    Q[i] = P[i] + P[i + 2]
    Y[i] = Q[i] - Q[i + 1] * 2.0
"""
TOTALS = """
kernel totals(A: f32[M, K]) -> Y: f32[M]:
    var P: f32[M]
    P[i] = sum[k](A[i, k])
    Y[i] = P[i] + (P[i + 1] else 0.0)
"""
SUMS = """
kernel sums(A: f32[M, K], x: f32[K]) -> Y: f32[M]:
    var P: f32[M]
    P[i] = sum[k](A[i, k] * x[k])
    Y[i] = P[i] * 2.0
"""
WINDOW = """
kernel window(X: f32[2 * N + 3]) -> Y: f32[N]:
    var P: f32[2 * N + 3]
    P[i] = X[i] + 1.0
    Y[i] = sum[r < 4](P[2 * i + r])
"""
PAIR = """
kernel pair(X: f32[M, N]) -> Y: f32[M, N]:
    var P: f32[M, N]
    P[i, j] = X[i, j] * 2.0
    Y[i, j] = P[i, j] + 1.0
"""
TRIANGLE = """
kernel triangle(X: f32[N, N]) -> Y: f32[N, N]:
    var P: f32[N, N]
    P[i, j] = X[i, j] * 2.0 for j <= i
    Y[i, j] = P[i, j] + 1.0 for j <= i
"""
BACK = """
kernel back(X: f32[M, N]) -> Y: f32[M, N]:
    var P: f32[M, N]
    P[i, j] = X[i, j] * 2.0
    Y[i, j] = P[M - 1 - i, j] + 1.0
"""
BORDER = """
kernel border(X: f32[N]) -> Y: f32[N]:
    var P: f32[N]
    P[i] = X[i] * 2.0 + 1.0
    Y[i] = P[i] + (P[i + 1] else 3.0) - (P[i - 2] else 3.0)
"""
STENCILS = """
kernel stencils(X: f32[M, N]) -> Y: f32[M, N]:
    var P: f32[M, N], Q: f32[M, N]
    P[i, j] = X[i, j] + (X[i - 1, j] else 0) + (X[i, j + 1] else 0)
    Q[i, j] = P[i, j] + (P[i - 1, j] else 0) + (P[i, j + 1] else 0)
    Y[i, j] = Q[i, j] + (Q[i - 1, j] else 1) + (Q[i, j + 1] else 1)
"""
LAYERS = """
kernel layers(X: f32[C, W], F: f32[4, C, 3], G: f32[E, 4, 3]) -> Y: f32[E, W]:
    var P: f32[4, W]
    P[d, x] = sum[c, r]((X[c, x + r - 1] else 0) * F[d, c, r])
    Y[e, x] = sum[d, s]((P[d, x + s - 1] else 0) * G[e, d, s])
"""
HIGHEST = """
kernel highest(X: f32[N]) -> Y: f32[N]:
    var P: f32[N]
    P[i] = max[r < 3](X[i + r - 1] else -inf)
    Y[i] = max[r < 3](P[i + r - 1] else -inf)
"""
CHOSEN = """
kernel chosen(X: f32[N]) -> Y: f32[N]:
    var P: f32[N]
    P[i] = X[i] + 1.0
    Y[i] = P[i - 1] if i > 0 else P[i]
"""

CASES = {
    "in tiles": (BLUR, "tile(Y.y, 4) -> by, ty; tile(Y.x, 2) -> bx, tx; order(by, bx, ty, tx); compute_at(P, at=bx)"),
    "its own nest cut before": (
        BLUR,
        "tile(Y.y, 4) -> y, t; tile(P.y, 3) -> z, s; order(z, P.x, s); compute_at(P, at=Y.x)",
    ),
    "in every iteration": (BLUR, "compute_at(P, at=Y.x); cache_register(P, at=Y.x)"),
    "two levels": (
        BLUR,
        """tile(Y.y, 8) -> by, ty; tile(ty, 4) -> wy, ty; tile(ty, 2) -> vy, ty; order(by, Y.x, wy, vy, ty)
        compute_at(P, at=vy)""",
    ),
    "between the levels": (
        BLUR,
        """tile(Y.y, 8) -> by, ty; tile(ty, parts=4) -> wy, ty; bind(by, block.x); order(by, Y.x, ty, wy)
        bind(Y.x, block.y); order(by, Y.x, ty, wy); bind(ty, thread.x); compute_at(P, at=ty); cache_register(P, at=ty)
        tile(P.y, 2) -> a, b""",
    ),
    "in a nest that it was in": (PAIR, "fuse(P.i, Y.i) -> i; compute_at(P, at=Y.j); cache_register(P, at=Y.j)"),
    "one after another": (
        LINE,
        """tile(Y.i, 8) -> b, t; bind(b, block.x); bind(t, thread.x)
        compute_at(Q, at=b); cache_shared(Q, at=b); compute_at(P, at=b); cache_shared(P, at=b)
        bind(P.i, thread.x); bind(Q.i, thread.x)""",
    ),
    "of what is computed": (
        LINE,
        "tile(Y.i, 8) -> b, t; compute_at(Q, at=b); tile(Q.i, 3) -> c, d; compute_at(P, at=c)",
    ),
    "a reduction": (SUMS, "tile(Y.i, 4) -> b, t; compute_at(P, at=b); tile(P.k, 4) -> ko, ki; order(P.i, ko, ki)"),
    "a reduction alone": (SUMS, "compute_at(P, at=Y.i); cache_register(P, at=Y.i); bind(Y.i, block.x)"),
    "for a reduction": (WINDOW, "tile(Y.i, 4) -> b, t; compute_at(P, at=b)"),
    "inside a reduction": (
        WINDOW,
        "tile(r, 2) -> ro, ri; tile(Y.i, 4) -> b, t; order(b, ro, t, ri); compute_at(P, at=ro)",
    ),
    "a triangle": (TRIANGLE, "tile(Y.i, 4) -> b, t; tile(Y.j, 4) -> c, s; order(b, c, t, s); compute_at(P, at=c)"),
    "a border": (BORDER, "tile(Y.i, 4) -> b, t; compute_at(P, at=b); cache_register(P, at=b)"),
    "a border in shared memory": (
        BORDER,
        """tile(Y.i, 4) -> b, t; bind(b, block.x); bind(t, thread.x); compute_at(P, at=b); cache_shared(P, at=b)
        bind(P.i, thread.x)""",
    ),
    "in each iteration, with a border": (BORDER, "compute_at(P, at=Y.i); cache_register(P, at=Y.i)"),
    "borders of borders": (
        STENCILS,
        """tile(Y.i, 2) -> bi, ti; tile(Y.j, 4) -> bj, tj; order(bi, bj, ti, tj); bind(bi, block.y)
        bind(bj, block.x); compute_at(Q, at=bj); compute_at(P, at=bj); cache_shared(P, at=bj); cache_shared(Q, at=bj)
        bind(P.j, thread.x); bind(Q.j, thread.x); bind(tj, thread.x)""",
    ),
    "a border of one of them": (STENCILS, "compute_at(P, at=Q.j); tile(Y.j, 3) -> b, t; compute_at(Q, at=b)"),
    "sums with a border": (
        LAYERS,
        "tile(Y.x, 4) -> b, t; order(b, e, t); bind(b, block.x); compute_at(P, at=b); cache_shared(P, at=b)",
    ),
    "a total with a border": (TOTALS, "tile(Y.i, 4) -> b, t; compute_at(P, at=b); bind(b, block.x)"),
    "maxima with a border": (HIGHEST, "tile(Y.i, 4) -> b, t; compute_at(P, at=b)"),
    "a read that a choice guards": (CHOSEN, "tile(Y.i, 4) -> b, t; compute_at(P, at=b)"),
    "backwards": (BACK, "tile(Y.i, 2) -> b, t; order(b, Y.j, t); compute_at(P, at=Y.j)"),
}


def schedule_tree(text, steps):
    lines = "".join(f"    {step.strip()}\n" for line in steps.splitlines() for step in line.split(";"))
    module = parse(Source("computed.tg", f"{text}\nschedule s for {text.split('(')[0].split()[-1]}():\n{lines}"))
    (kernel,) = module.kernels.values()
    return apply(check_equations(build(kernel)), module.schedules[0]).tree


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_kernel_is_the_one_as_written(name):
    tree = schedule_tree(*CASES[name])
    for number in (1, 3, 7):
        sizes = {size: number + n for n, size in enumerate(tree.kernel.sizes)}
        arrays = drawn(tree.kernel, sizes, partial(np.random.default_rng(number).integers, -3, 4))
        expected = reference(tree.kernel, sizes, arrays)["Y"]
        found = run(tree, sizes, arrays)["Y"]
        assert np.array_equal(found[expected.written], expected.value[expected.written])
        assert verdict(tree, sizes) is None
    assert prove(tree.kernel, lower(tree), tree.reassociated).verdict == "proved"


def test_what_several_iterations_read_is_computed_in_each():
    tree = schedule_tree(BLUR, "tile(Y.y, 4) -> by, ty; order(by, Y.x, ty); compute_at(P, at=Y.x)")
    made = [(path, s) for path, s in leaves(tree.body) if s.name == "P"]
    ((path, stmt),) = made
    assert [(loop.name, str(loop.extent)) for loop in path] == [("by", "(M + 3)/4"), ("Y.x", "N"), ("P.y", "6")]
    assert [str(c) for c in stmt.guard] == ["-by*4 + M - P.y + 1 >= 0"]
    assert str(tree.kernel.tensor("P").shape[2]) == "6"
    assert [str(s) for s in tree.kernel.written_kernel.tensor("P").shape] == ["M + 2", "N"]
