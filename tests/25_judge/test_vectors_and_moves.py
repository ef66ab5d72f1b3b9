"""Vector loops, and intermediates that live in registers or shared memory alone."""

from __future__ import annotations

from dataclasses import replace

from tests.support.written import built, stepped
from tilegen.judge import judge

KERNELS = """
kernel add(A: f32[N], B: f32[N]) -> C: f32[N]:
    C[i] = A[i] + B[i]

kernel ahead(A: f32[N + 1]) -> C: f32[N]:
    C[i] = A[i + 1]

kernel double(A: f64[N]) -> C: f64[N]:
    C[i] = A[i]

kernel turn(X: f32[M, N]) -> Y: f32[N, M]:
    Y[j, i] = X[i, j]

kernel late(X: f32[N, N]) -> Y: f32[N, N]:
    Y[j, i] = X[i, j] for i + j >= 1

kernel two(a: f32[N]) -> out: f32[N]:
    var c: f32[N]
    c[i] = sin(a[i])
    out[i] = sqrt(c[i])

kernel back(a: f32[N]) -> out: f32[N]:
    var c: f32[N]
    c[i] = sin(a[i])
    out[i] = sqrt(c[N - 1 - i])
"""


def after(kernel, steps):
    tree = built(KERNELS, kernel)
    return [tree, *stepped(tree, *steps)][-1]


def refusal_of(tree):
    violation = judge(tree)
    return (violation.sentence, violation.witness) if violation else None


def test_aligned_vector_is_right():
    assert refusal_of(after("add", ["tile(i, 4) -> t, v", "vectorize(v)"])) is None


def test_vector_that_starts_inside_another():
    assert refusal_of(after("ahead", ["tile(i, 4) -> t, v", "vectorize(v)"])) == (
        "the vectors of 'A' in loop 'v' do not start at a multiple of 4 elements of their row",
        "lane v=0 of C(i=0) is at A[1] (N=1)",
    )


def test_vector_of_too_many_bytes():
    sentence, _ = refusal_of(after("double", ["tile(i, 4) -> t, v", "vectorize(v)"]))
    assert sentence == "a vector of 4 f64 has 32 bytes, and 16 is the most"


def test_lanes_in_different_rows():
    assert refusal_of(after("turn", ["tile(i, 4) -> t, v", "order(t, j, v)", "vectorize(v)"])) == (
        "the lanes of 'v' are not side by side in 'X'",
        "lane v=0 is at X[0, 0] and lane v=1 is at X[1, 0] (M=1, N=1)",
    )


def test_intermediate_in_registers_is_right():
    steps = ["fuse(c.i, out.i) -> i", "tile(i, 32) -> b, t", "bind(b, block.x)", "bind(t, thread.x)"]
    tree = after("two", [*steps, "cache_register(c, at=t)"])
    assert "c" not in [b.name for b in tree.buffers]
    assert refusal_of(tree) is None


def test_fusion_that_reads_too_early():
    assert refusal_of(after("back", ["fuse(c.i, out.i) -> i"])) == (
        "'out' runs before 'c', which it depends on through 'c'",
        "c(i=1) must run before out(i=0), but runs after it (N=2)",
    )


def test_moved_intermediate_that_is_needed_in_a_later_iteration():
    tree = after("two", ["tile(c.i, 4) -> b, t", "cache_shared(c, at=b)"])
    assert refusal_of(tree) is None  # stored back for the second launch
    gone = replace(tree, buffers=tuple(b for b in tree.buffers if b.name != "c"))
    assert refusal_of(gone) == ("'c.shared' uses 'c', and there is no such buffer", None)


def test_lanes_apart_are_shown_where_the_statement_runs():
    sentence, witness = refusal_of(after("late", ["tile(i, 2) -> t, v", "order(..., v)", "vectorize(v)"]))
    assert sentence == "the lanes of 'v' are not side by side in 'X'"
    assert witness.endswith("(N=2)")
