"""tensorize: what becomes of the loops, of the registers, and of what each lane does."""

from __future__ import annotations

import pytest

from tests.support.simulator.threads import faults
from tests.support.tensor_core_kernels import LOADED, PRODUCT, PRODUCT_F64, TENSORIZED, TILES, by_one_warp
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.ir.hardware.fragments import deal_fragments
from tilegen.ir.printing.show import show, show_buffer, show_expr
from tilegen.ir.walk import loops, stmts
from tilegen.lowering import lower
from tilegen.lowering.launch.program import Perform
from tilegen.proof import prove

FRAGMENTS = {
    "C.reg": "register C.reg: f32[2, 2, 16, 8] in fragments  copy of C, in bj",
    "A.shared.reg": "register A.shared.reg: bf16[16, 16] in fragments  copy of A.shared, in w",
    "B.shared.reg": "register B.shared.reg: bf16[2, 8, 16] in fragments  copy of B.shared, in w",
}


def nests(tree):
    """(the instruction, its loops from the outermost one) for each nest that one computes."""
    return [
        (loop.performed.instruction.name, [inner.name for inner in loops(loop)]) for loop in loops(tree.body)
        if loop.performed
    ]  # fmt: skip


def check(tree, sizes):
    """A proof of both ways to lower it, and a run of every thread."""
    for instructions in (True, False):
        launches = lower(tree, instructions=instructions)
        assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
        assert faults(launches, tree, sizes) is None


def test_operands_become_fragments_and_all_that_runs_over_them_is_a_matrix():
    tree = tree_from(TENSORIZED)
    assert {name: show_buffer(tree.buffer(name)) for name in FRAGMENTS} == FRAGMENTS
    assert tree.buffer("C.reg").fragment.operand.name == "C"
    assert tree.buffer("C.reg").fragment_dims == (2, 3)
    assert tree.buffer("B.shared.reg").fragment_dims == (2, 1)  # B[k, j] of the instruction
    assert nests(tree) == [("mma_m16n8k16_bf16", ["i", "j", "k"])]
    assert tree.reassociated == ("C",)
    check(tree, {"M": 3, "N": 9, "K": 5})


def test_loads_are_instructions_too():
    """One ldmatrix loads the operands of two products: its second index has two digits."""
    tree = tree_from(LOADED)
    assert nests(tree) == [
        ("ldmatrix_a_bf16", ["i", "k"]),
        ("ldmatrix_b_trans_bf16", ["f", "j", "k"]),
        ("mma_m16n8k16_bf16", ["i", "j", "k"]),
    ]
    check(tree, {"M": 3, "N": 9, "K": 5})


@pytest.mark.parametrize(
    "by", ["[ldmatrix_b_bf16, ldmatrix_b_trans_bf16]", "[ldmatrix_b_trans_bf16, ldmatrix_b_bf16, ldmatrix_b_f8]"]
)
@pytest.mark.parametrize(
    ("b", "storage", "fits"), [("k, j", "K, N", "ldmatrix_b_trans_bf16"), ("j, k", "N, K", "ldmatrix_b_bf16")]
)
def test_of_several_it_is_the_one_whose_rows_run_as_the_operands(by, b, storage, fits):
    text = LOADED.replace("B[k, j]", f"B[{b}]").replace("B: bf16[K, N]", f"B: bf16[{storage}]")
    tree = tree_from(text.replace("by=ldmatrix_b_trans_bf16", f"by={by}"))
    assert nests(tree)[1][0] == fits
    check(tree, {"M": 3, "N": 9, "K": 5})


@pytest.mark.parametrize("name", ["elements", "ldmatrix"])
def test_each_lane_has_its_part_as_reviewed(name, golden):
    """Loops over elements become loops over the lanes and over what is left to each of them."""
    tree = tree_from(LOADED if name == "ldmatrix" else TENSORIZED)
    golden(f"{show(tree)}\n-- dealt out\n\n{show(deal_fragments(tree))}", f"tensorize_{name}.tree")


def test_factors_may_change_places():
    """The kernel says B A, the instruction A B: of exact products the order is nothing."""
    tree = tree_from(PRODUCT.replace("f32(A[i, k]) * f32(B[k, j])", "f32(B[k, j]) * f32(A[i, k])") + TILES)
    assert tree.buffer("A.shared.reg").fragment.operand.name == "A"
    check(tree, {"M": 2, "N": 3, "K": 4})


def test_what_is_a_in_the_kernel_can_be_b_of_the_instruction():
    """The transposed product: rows of the instruction's A are columns of the kernel's B."""
    text = TILES.replace("tile(i, 32) -> bi, ti", "tile(i, 16) -> bi, ti").replace(
        "tile(ti, 16) -> w, i", "tile(ti, 8) -> f, i"
    )
    text = text.replace("tile(j, 16) -> bj, tj", "tile(j, 32) -> bj, tj").replace(
        "tile(tj, 8) -> f, j", "tile(tj, 16) -> w, j"
    )
    tree = tree_from(PRODUCT + text.replace("tensorize(i, j, k", "tensorize(j, i, k"))
    assert tree.buffer("A.shared.reg").fragment.operand.name == "B"
    assert tree.buffer("B.shared.reg").fragment.operand.name == "A"
    check(tree, {"M": 3, "N": 5, "K": 4})


EPILOGUE = """
kernel product(A: bf16[M, K], B: bf16[K, N], b: f32[N], R: f32[M, N]) -> C: bf16[M, N]:
    var T: f32[M, N]
    T[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))
    C[x, y] = bf16(max(T[x, y] + b[y], 0.0) + R[x, y])
"""
FUSED = """
schedule s for product():
    round_up(k, 16)
    fuse(i, x) -> i
    fuse(j, y) -> j
    tile(i, 16) -> bi, i
    tile(j, 16) -> bj, tj
    tile(tj, 8) -> f, j
    tile(k, 16) -> ko, k
    order(bi, bj, ko, f, i, j, k)
    bind(bi, block.y)
    bind(bj, block.x)
    cache_register(T, at=bj)
    cache_register(A, at=ko)
    cache_register(B, at=ko)
    tensorize(i, j, k, by=mma_m16n8k16_bf16)
"""


def test_an_epilogue_is_computed_where_the_sum_lies():
    tree = tree_from(EPILOGUE + FUSED)
    (stmt,) = (each for each in stmts(deal_fragments(tree).body) if each.name == "C")
    assert show_expr(stmt.value) == (
        "bf16(max(T.reg[f, lane, i_high*2 + j_low] + b[bj*16 + f*8 + (lane%4)*2 + j_low], 0.0)"
        " + R[bi*16 + i_high*8 + lane/4, bj*16 + f*8 + (lane%4)*2 + j_low])"
    )
    check(tree, {"M": 3, "N": 9, "K": 5})


def test_without_instructions_one_thread_of_a_warp_computes_what_they_mean():
    tree = tree_from(LOADED)
    (launch,) = lower(tree, instructions=False)
    assert launch.block == (1, 2, 1)
    assert [e.const for e in launch.buffers["C.reg"].shape] == [2, 16, 8]
    assert not any(isinstance(node, Perform) for node in launch.nodes)
    (launch,) = lower(tree)
    assert launch.block == (32, 2, 1)
    assert [e.const for e in launch.buffers["C.reg"].shape] == [2, 4]


def test_a_lane_that_has_one_element_has_an_array_of_one():
    """The factors in f64: one register each, which the instruction takes the address of."""
    tree = tree_from(PRODUCT_F64 + by_one_warp("s", "product_f64", "mma_m8n8k4_f64", 8, 8, 4))
    (launch,) = lower(tree)
    assert [[e.const for e in launch.buffers[name].shape] for name in ("A.reg", "B.reg", "C.reg")] == [[1], [1], [2]]
    assert "mma_m8n8k4_f64(C_reg, A_reg, B_reg);" in emit((launch,), "cuda")
    check(tree, {"M": 9, "N": 3, "K": 5})
