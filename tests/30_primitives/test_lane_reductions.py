"""Reductions of fragments in each lane: what a lane makes of its own elements is in fragments, too."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.simulator.threads import faults
from tests.support.written import tree_from
from tilegen.errors import TilegenError
from tilegen.interpreter import reference, run
from tilegen.ir.hardware.fragments import deal_fragments
from tilegen.ir.printing.show import show
from tilegen.lowering import lower
from tilegen.proof import prove

ROWS = """
kernel rows(A: bf16[M, K], B: bf16[K, N]) -> s: f32[M]:
    var T: f32[M, N]
    T[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))
    s[i] = sum[j](T[i, j])
"""
LEAST = """
kernel least(A: bf16[M, K], B: bf16[K, N]) -> s: i32[M]:
    var T: f32[M, N]
    T[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))
    s[i] = argmin[j](T[i, j])
"""
# A block has 16 rows, and goes along their columns. A lane has two neighbours of every eight.
STEPS = """
schedule s for {kernel}():
    round_up(k, 16)
    fuse(T.i, s.i) -> i
    fuse(T.j, s.j) -> j
    tile(i, 16) -> bi, i
    tile(j, 8) -> bj, j
    tile(k, 16) -> ko, k
    order(bi, bj, ko, i, j, k)
    bind(bi, block.y)
    cache_register(T, at=bj)
    rename(j, of=s) -> sj
    tile(sj, 2) -> q, v
    {more}
    cache_register(A, at=ko)
    cache_register(B, at=ko)
    tensorize(i, j, k, by=mma_m16n8k16_bf16)
"""
SUMS = STEPS.format(
    kernel="rows",
    more="""reassociate(s)
    rfactor(s, q) -> part
    cache_register(part, at=bi)""",
)
FIRST = STEPS.format(
    kernel="least",
    more="""rfactor(s, q) -> part
    cache_register(part, at=bi)
    cache_register(part.best, at=bi)""",
)


@pytest.mark.parametrize("text", [ROWS + SUMS, LEAST + FIRST], ids=["sums", "argmin"])
def test_a_lane_reduces_what_it_has(text, golden):
    tree = tree_from(text)
    part = tree.buffer("part.reg")
    assert part.fragment.shape == (4, 16)
    assert {part.fragment.place((q, i)) for q in range(4) for i in range(16)} == {
        (lane, register) for lane in range(32) for register in range(2)
    }
    golden(f"{show(tree)}\n-- dealt out\n\n{show(deal_fragments(tree))}", f"lanes_reduce_{tree.kernel.name}.tree")
    for instructions in (True, False):
        launches = lower(tree, instructions=instructions)
        assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
        for sizes in ({"M": 3, "N": 19, "K": 5}, {"M": 17, "N": 8, "K": 16}):
            assert faults(launches, tree, sizes) is None


def test_the_result_is_that_of_the_kernel():
    tree = tree_from(LEAST + FIRST)
    sizes = {"M": 18, "N": 21, "K": 7}
    numbers = np.random.default_rng(5).integers(-3, 4, (18 + 21) * 7).astype(np.float32)
    bits = (numbers.view(np.uint32) >> 16).astype(np.uint16)
    arrays = {"A": bits[: 18 * 7].reshape(18, 7), "B": bits[18 * 7 :].reshape(7, 21)}
    np.testing.assert_array_equal(run(tree, sizes, arrays)["s"], reference(tree.kernel, sizes, arrays)["s"].value)


def test_one_result_for_the_terms_of_several_lanes_is_refused(golden):
    whole = FIRST.replace("    rfactor(s, q) -> part\n", "").replace("part", "s")
    with pytest.raises(TilegenError) as caught:
        tree_from(LEAST + whole)
    with pytest.raises(TilegenError) as untold:
        tree_from(LEAST + whole.replace("    tile(sj, 2) -> q, v\n", ""))
    golden(f"{caught.value}\n{untold.value}\n", "lanes_reduce_refused.txt")
