"""Vectors whose alignment is missing are given up loop by loop, and those on the chip stay."""

import pytest

from tests.support.stock import schedule_stock
from tests.support.written import tree_from
from tilegen.ir.walk import walk
from tilegen.lowering import lower, lower_for_some_sizes, unmet
from tilegen.lowering.launch.program import VectorCopy, VectorLoad, VectorStore
from tilegen.proof import prove


def test_vectors_are_given_up_loop_by_loop():
    tree = schedule_stock("gemm", "across").tree
    (aligned,) = lower(tree)
    assert unmet((aligned,), {"M": 8, "N": 8, "K": 7}, {}) == frozenset()
    assert unmet((aligned,), {"M": 8, "N": 8, "K": 8}, {"C": 4}) == {"C.reg.v"}
    odd = unmet((aligned,), {"M": 8, "N": 8, "K": 8}, {"B": 4})
    assert odd == {"B.shared.v"}
    (launch,) = lower(tree, scalarized=odd)
    assert [str(c) for c in launch.requires] == ["N%4 == 0"]
    assert launch.alignment == {"C": 16}
    assert prove(tree.kernel, (launch,)).verdict == "proved"


def test_vectors_on_the_chip_need_no_alignment_of_tensors():
    tree = schedule_stock("gemm", "across", values=(("M", 256), ("N", 512), ("K", 64))).tree
    (launch,) = lower(tree, vector=False)
    assert not launch.alignment
    moved = [v for v in walk(launch.body) if isinstance(v, VectorLoad | VectorStore | VectorCopy)]
    wide = [v for v in moved if v.width > 1]
    assert {v.source.buffer for v in wide} == {"A.shared", "B.shared"}
    assert all(launch.buffers[v.target.buffer].space == "register" for v in wide)
    assert prove(tree.kernel, (launch,)).verdict == "proved"


# Rows of X begin at multiples of 16 bytes where those of Y never do. The test j < N of both launches is needed once.
ROWS = """
kernel ahead(X: f32[M, N + 1], Y: f32[M, N]) -> Z: f32[M, N]:
    Z[i, j] = X[i, j + 1] + Y[i, j] for j < N - 1

schedule s for ahead():
    tile(j, 32) -> b, t
    tile(t, 4) -> t, v
    bind(i, block.y)
    bind(b, block.x)
    bind(t, thread.x)
    cache_shared(X, at=b)
    cache_shared(Y, at=b)
    bulk(X.shared)
    bulk(Y.shared)
"""


@pytest.mark.parametrize("version", [{}, {"whole": True}])
def test_a_text_is_for_some_sizes(version):
    tree = tree_from(ROWS)
    never, some = lower(tree, **version), lower_for_some_sizes(tree, **version)
    assert [len(launches[0].maps) for launches in (never, some)] == [2, 1]
    assert prove(tree.kernel, some).verdict == prove(tree.kernel, never).verdict == "proved"
    assert "N%4 == 0" not in [str(c) for c in some[0].requires]


def test_a_test_that_another_implies_asks_nothing_of_sizes():
    """`j < N` holds where `j < N - 1` does, and N % 4 == 1 is enough for whole vectors."""
    text = """
kernel most(X: f32[N]) -> Y: f32[N]:
    Y[i] = X[i] for i < N - 1

schedule s for most():
    tile(i, 4) -> b, v
    bind(b, block.x)
    vectorize(v)
"""
    (launch,) = lower(tree_from(text))
    assert [str(c) for c in launch.requires] == ["(N + 3)%4 == 0"]
