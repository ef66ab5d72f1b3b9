"""Cases of cache_register that once went wrong."""

import pytest

from tests.support.simulator.threads import faults
from tests.support.written import tree_from
from tilegen.errors import StepError
from tilegen.ir.walk import stmts
from tilegen.lowering import lower
from tilegen.proof import prove

TEXT = """
kernel lower(X: i32[P, P], R: i32[3, P]) -> out: i32[P, P]:
    out[i, l] = min[r](X[i, l] * R[r, l]) for l <= i

schedule s for lower():
    order(r, l, i)
    cache_register(R, at=l)
"""


def test_guard_of_the_copy_uses_only_loops_around_it():
    """`l <= i` holds for a register of R[r, l] only inside i, although i is around l in another nest."""
    tree = tree_from(TEXT)
    (copy,) = [s for s in stmts(tree.body) if s.is_copy]
    assert copy.guard == ()


def test_a_loop_around_one_use_and_inside_of_another():
    """j is outside of i for the start of C, and inside of it for the updates: no one register serves both."""
    text = """
kernel gemm(A: f32[M, K], B: f32[K, 8]) -> C: f32[M, 8]:
    C[i, j] = sum[k](A[i, k] * B[k, j])

schedule s for gemm():
    order(j, i, k)
    order(k, j)
    cache_register(C, at=i)
"""
    with pytest.raises(StepError, match="outside loop 'j', another is inside"):
        tree_from(text)


WINDOWS = """
kernel conv(X: f32[W], K: f32[3]) -> out: f32[W]:
    out[x] = sum[s]((X[x + s - 1] else 0) * K[s])

schedule s for conv():
    tile(x, 128) -> b, t
    tile(t, 4) -> t, v
    order(b, t, s, v)
    bind(b, block.x)
    bind(t, thread.x)
    cache_register(out, at=t)
    cache_shared(X, at=b)
    cache_register(X.shared, at=t)
    cache_register(K, at=t)
"""


def test_windows_that_overlap_share_their_registers():
    tree = tree_from(WINDOWS)
    assert [e.const for e in tree.buffer("X.shared.reg").shape] == [6]
    assert [e.const for e in tree.buffer("K.reg").shape] == [3]
    launches = lower(tree)
    assert prove(tree.kernel, launches).verdict == "proved"
    assert faults(launches, tree, {"W": 131}) is None


def test_windows_have_registers_of_their_own_where_a_step_says_so():
    tree = tree_from(WINDOWS.replace("cache_register(X.shared, at=t)", "cache_register(X.shared, at=t, repeated=1)"))
    assert [e.const for e in tree.buffer("X.shared.reg").shape] == [3, 4]
    launches = lower(tree)
    assert prove(tree.kernel, launches).verdict == "proved"
    assert faults(launches, tree, {"W": 131}) is None
