"""Shared copies in panels: rows cut into pieces, each piece of all rows after the one before."""

import numpy as np
import pytest

from tests.support.tensor_core_kernels import PRODUCT as TENSOR_PRODUCT
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.interpreter import run
from tilegen.lowering import lower
from tilegen.proof import prove

PRODUCT = """
kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])

schedule s for gemm():
    tile(i, 4) -> bi, ti
    tile(j, 16) -> bj, tj
    tile(k, 4) -> ko, ki
    tile(tj, 2) -> tj, wj
    order(bi, bj, ko, ti, tj, ki, wj)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(ti, thread.y)
    bind(tj, thread.x)
    cache_register(C, at=bj)
"""
COPIES = {
    "rows": "    cache_shared(B, at=ko, vector=2, panel=4)\n",
    "turned": "    cache_shared(B, at=ko, layout=[j, k], panel=2)\n",
    "one": "    cache_shared(B, at=ko, panel=16)\n",
    "ahead": "    cache_shared(B, at=ko, vector=4, panel=8)\n    pipeline(ko, 2)\n",
    "registers": "    cache_shared(B, at=ko, panel=4)\n    cache_register(B.shared, at=ki)\n",
}


@pytest.mark.parametrize("copy", COPIES)
def test_they_hold_what_the_kernel_reads(copy):
    tree = tree_from(PRODUCT + COPIES[copy])
    sizes = {"M": 5, "N": 19, "K": 6}
    rng = np.random.default_rng(5)
    given = {name: rng.integers(-4, 5, shape).astype(np.float32) for name, shape in (("A", (5, 6)), ("B", (6, 19)))}
    assert np.array_equal(run(tree, sizes, given)["C"], given["A"] @ given["B"])
    for vector in (True, False):
        assert prove(tree.kernel, lower(tree, vector=vector), tree.reassociated).verdict == "proved"


def test_the_panel_is_what_a_quotient_of_the_column_says():
    tree = tree_from(PRODUCT + COPIES["rows"])
    assert [e.const for e in tree.buffer("B.shared").shape] == [4, 4, 4]
    assert "B_shared[tj / 2][ki][(tj % 2) * 2 + wj]" in emit(lower(tree))


def test_where_they_do_not_divide_a_row_they_are_half_as_wide_or_a_fourth():
    shapes = [
        tree_from(PRODUCT + f"    cache_shared(B, at=ko, panel={n})\n").buffer("B.shared").shape for n in (32, 64)
    ]
    assert [[e.const for e in shape] for shape in shapes] == [[4, 16], [4, 16]]


# A warp's tile spans two panels: the fragment decides which of the two it is in, and no column of the fragment.
WIDE = """
schedule s for product():
    round_up(k, 16)
    tile(i, 32) -> bi, ti
    tile(ti, 16) -> w, i
    tile(j, 64) -> bj, tj
    tile(tj, 16) -> f, jn
    tile(jn, 8) -> n, j
    tile(k, 16) -> ko, k
    order(bi, bj, ko, w, f, n, i, j, k)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(w, thread.y)
    cache_register(C, at=bj)
    cache_shared(A, at=ko)
    cache_shared(B, at=ko, vector=8, panel=32) -> Bs
    swizzle(Bs, 8)
    cache_register(A.shared, at=w)
    cache_register(Bs, at=w) -> Bf
    tensorize(i, j, k, by=mma_m16n8k16_bf16)
    tensorize(k, n, j, by=ldmatrix_b_trans_bf16)
"""


def test_fragments_are_loaded_from_panels():
    tree = tree_from(TENSOR_PRODUCT + WIDE)
    launches = lower(tree)
    assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
    assert "&Bs[f / 2][lane % 16][((f % 2) * 16 + (lane / 16) * 8) ^ (((lane >> 1) & 3) << 3)]" in emit(launches)
