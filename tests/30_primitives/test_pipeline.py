"""What pipeline moves to the start of a loop."""

from functools import partial

import numpy as np

from tests.support.stored import drawn
from tests.support.written import tree_from
from tilegen.interpreter import run
from tilegen.ir.walk import find_loop, stmts
from tilegen.lowering import lower
from tilegen.proof import prove

TWO_PRODUCTS = """
kernel gated(A: f32[M, K], G: f32[K, N], U: f32[K, N]) -> C: f32[M, N]:
    var P: f32[M, N], Q: f32[M, N]
    P[i, j] = sum[k](A[i, k] * G[k, j])
    Q[i, j] = sum[k](A[i, k] * U[k, j])
    C[i, j] = P[i, j] * Q[i, j]

schedule s for gated():
    fuse(P.i, Q.i, C.i) -> i
    fuse(P.j, Q.j, C.j) -> j
    rename(P.k, Q.k) -> k
    tile(i, 4) -> bi, ti
    tile(j, 4) -> bj, tj
    tile(k, 2) -> ko, ki
    order(bi, bj, ko, ti, tj, ki)
    rename(ko, of=Q) -> qo
    fuse(ko, qo) -> ko
    bind(bi, block.y)
    bind(bj, block.x)
    bind(ti, thread.y)
    bind(tj, thread.x)
    cache_register(P, at=bj)
    cache_register(Q, at=bj)
    cache_shared(A, at=ko)
    cache_shared(G, at=ko)
    cache_shared(U, at=ko)
"""


def test_copies_behind_other_statements_go_to_the_start():
    plain, ahead = tree_from(TWO_PRODUCTS), tree_from(TWO_PRODUCTS + "    pipeline(ko, 2)\n")

    def filled(tree):
        return [next(stmts(child)).target.buffer for child in find_loop(tree, "ko").body]

    assert filled(plain) == ["A.shared", "G.shared", "P.reg", "U.shared", "Q.reg"]
    assert filled(ahead) == ["A.shared", "G.shared", "U.shared", "P.reg", "Q.reg"]

    sizes = {"M": 5, "N": 6, "K": 7}
    inputs = drawn(ahead.kernel, sizes, partial(np.random.default_rng(3).integers, -4, 5))
    wanted = (inputs["A"] @ inputs["G"]) * (inputs["A"] @ inputs["U"])
    np.testing.assert_array_equal(run(ahead, sizes, inputs)["C"], wanted)
    assert prove(ahead.kernel, lower(ahead), ahead.reassociated).verdict == "proved"
