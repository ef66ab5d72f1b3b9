"""The judge's theorems: programs that they allow and the nearest ones that they refuse, as (kernel, steps, answer)."""

from __future__ import annotations

import pytest

from tests.support.written import built, stepped
from tilegen.judge import judge

AHEAD = """
kernel ahead(A: f32[N]) -> C: f32[N]:
    var B: f32[N]
    B[i] = A[i] * 2
    C[i] = B[i] + (B[i + 1] else 0)
"""
ROWS = "kernel rows(A: f32[64, 32]) -> C: f32[64]:\n    C[i] = sum[j](A[i, j])\n"
MOVE = "kernel move(A: f32[64, 32]) -> C: f32[32, 64]:\n    C[j, i] = A[i, j]\n"
TWICE = "kernel twice(A: f32[64, 32]) -> C: f32[64, 32]:\n    C[i, j] = A[i, j] * 2\n"
SHIFT = "kernel shift(A: f32[N + 1]) -> C: f32[N]:\n    C[i] = A[i + 1] * 2\n"
THREADS = ["tile(j, 32) -> b, t", "order(b, t, i)", "bind(b, block.x)"]
LAWS = {
    "a loop that carries no dependence runs in any order": (MOVE, ["order(i, j)"], None),
    "the terms of a sum keep their order": (
        ROWS,
        ["tile(j, 4) -> jo, ji", "order(i, ji, jo)"],
        ("wrong", "the order of the steps that build an element of 'C' changes"),
    ),
    "and lose it where a step says so": (ROWS, ["reassociate(C)", "tile(j, 4) -> jo, ji", "order(i, ji, jo)"], None),
    "what is read later is written first": (
        AHEAD,
        ["fuse(B.i, C.i) -> i"],
        ("wrong", "'C' runs before 'B', which it depends on through 'B'"),
    ),
    "iterations that write elements of their own run at once": (MOVE, ["bind(i, thread.x)"], None),
    "iterations that add to one element do not": (
        ROWS,
        ["order(j, i)", "bind(j, thread.x)"],
        ("thread race", "the iterations of 'j' cannot run at once as thread.x: they depend on each other through 'C'"),
    ),
    "unless they are lanes of a warp, and the terms may come in any order": (
        ROWS,
        ["reassociate(C)", "order(j, i)", "bind(j, thread.x)"],
        None,
    ),
    "several blocks do not add to one element": (
        ROWS,
        ["reassociate(C)", "order(j, i)", "bind(j, block.x)"],
        ("race", "the iterations of 'j' cannot run at once as block.x: they depend on each other through 'C'"),
    ),
    "unless they do so atomically": (ROWS, ["reassociate(C)", "atomic(C)", "order(j, i)", "bind(j, block.x)"], None),
    "block loops are outermost": (
        MOVE,
        ["bind(i, block.x)"],
        ("structure", "block loop 'i' is inside 'j', and block loops are outermost in their launch"),
    ),
    "no axis is bound twice in one nest": (
        MOVE,
        ["bind(i, thread.x)", "bind(j, thread.x)"],
        ("structure", "loops 'j' and 'i' are both thread.x, and 'i' is inside 'j'"),
    ),
    "lanes along the fastest dimension are a vector": (TWICE, ["tile(j, 4) -> t, v", "vectorize(v)"], None),
    "lanes in different rows are no vector": (
        TWICE,
        ["tile(i, 4) -> t, v", "order(t, j, v)", "vectorize(v)"],
        ("vector", "the lanes of 'v' are not side by side in 'A'"),
    ),
    "a vector starts at a whole vector": (
        SHIFT,
        ["tile(i, 4) -> t, v", "vectorize(v)"],
        ("vector", "the vectors of 'A' in loop 'v' do not start at a multiple of 4 elements of their row"),
    ),
    "a copy is filled by all threads of its block": (
        MOVE,
        [*THREADS, "bind(t, thread.x)", "cache_shared(A, at=b)"],
        None,
    ),
    "what runs ahead lives in a loop": (
        ROWS,
        ["tile(j, 4) -> jo, ji", "order(jo, i, ji)", "cache_shared(A, at=jo)", "pipeline(jo, 2)"],
        ("form", "'jo' is outermost in its launch, and there is nothing around it for its buffers to live in"),
    ),
}


def tree_after(kernel, steps):
    tree = built(kernel)
    return [tree, *stepped(tree, *steps)][-1]


@pytest.mark.parametrize(("kernel", "steps", "answer"), LAWS.values(), ids=LAWS)
def test_law(kernel, steps, answer):
    found = judge(tree_after(kernel, steps))
    assert (found and (found.code, found.sentence)) == answer
