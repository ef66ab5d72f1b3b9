"""Nests of instructions: what the judge takes, and what it refuses of trees that no step makes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.tensor_core_kernels import LOADED, TENSORIZED
from tests.support.written import tree_from
from tilegen.errors import IllegalStep
from tilegen.frontend.stock import stock_instructions
from tilegen.ir.affine import var
from tilegen.ir.nodes import Access, Condition, Load, Loop, Stmt
from tilegen.ir.walk import rewrite
from tilegen.judge import judge
from tilegen.judge.instructions.matrices import check_matrices
from tilegen.lowering import lower
from tilegen.poly.instances import project
from tilegen.poly.verdict import Refused
from tilegen.proof import prove

MMA = stock_instructions()["mma_m16n8k16_bf16"]


def refusal_of(tree, change):
    """The theorem's answer to a tree in which `change` is made to each of its nodes; others may refuse it first."""
    body = rewrite(tree.body, change)
    assert body != tree.body, "the fault changes nothing"
    assert judge(replace(tree, body=body)) is not None
    with pytest.raises(Refused) as refused:
        check_matrices(project(replace(tree, body=body)))
    return refused.value.violation.sentence


def with_buffer(tree, name, **changes):
    return replace(tree, buffers=tuple(replace(b, **changes) if b.name == name else b for b in tree.buffers))


def in_nest(change):
    """`change` for each value inside of the nest of the product."""

    def of_loop(value):
        if isinstance(value, Loop) and value.performed and value.performed.instruction == MMA:
            return rewrite(value, change)
        return value

    return of_loop


def performed_by(**changes):
    """Another instruction, or other indices, for the product."""

    def change(value):
        if isinstance(value, Loop) and value.performed and value.performed.instruction == MMA:
            return replace(value, performed=replace(value.performed, **changes))
        return value

    return change


def moved(name, *index):
    """The product's accesses of a buffer at another place."""
    return in_nest(lambda v: replace(v, index=tuple(index)) if isinstance(v, Access | Load) and v.buffer == name else v)


i, j, k, f = map(var, "ijkf")
LAWS = {
    "the indices are loops in their order": (
        performed_by(indices=(j, i, k)),
        "the loops around 'C.reg' are not the indices of 'mma_m16n8k16_bf16'",
    ),
    "each index is one loop": (
        performed_by(indices=(i, j, i)),
        "the loops around 'C.reg' are not the indices of 'mma_m16n8k16_bf16'",
    ),
    "a product of another type is another instruction": (
        performed_by(instruction=stock_instructions()["mma_m16n8k16_f16"]),
        "the nest of 'i' does not compute what 'mma_m16n8k16_f16' does",
    ),
    "products are added up": (
        in_nest(lambda v: replace(v, reduce="max") if isinstance(v, Stmt) else v),
        "the nest of 'i' does not compute what 'mma_m16n8k16_bf16' does",
    ),
    "all loops of the nest are a matrix": (
        in_nest(lambda v: replace(v, kind="serial") if isinstance(v, Loop) and v.name == "j" else v),
        "the loops around 'C.reg' are not the indices of 'mma_m16n8k16_bf16'",
    ),
    "the factors have their own places": (
        in_nest(
            lambda v: (
                replace(v, buffer="B.shared.reg", index=(f, j, k))
                if isinstance(v, Load) and v.buffer == "A.shared.reg"
                else v
            )
        ),
        "'B.shared.reg' has another layout than the operand A of 'mma_m16n8k16_bf16'",
    ),
    "elements lie where the layout has them": (
        moved("A.shared.reg", k, i),
        "'A.shared.reg' has another layout than the operand A of 'mma_m16n8k16_bf16'",
    ),
    "a fragment begins at its first element": (
        moved("A.shared.reg", i, k + 1),
        "'A.shared.reg' has another layout than the operand A of 'mma_m16n8k16_bf16'",
    ),
    "an instruction runs whole": (
        in_nest(lambda v: replace(v, guard=(*v.guard, Condition(7 - k))) if isinstance(v, Stmt) else v),
        "'mma_m16n8k16_bf16' runs as a whole, and some iterations for 'C.reg' are left out at the border",
    ),
}  # fmt: skip


def test_the_product_is_the_instruction():
    assert judge(tree_from(TENSORIZED)) is None
    assert judge(tree_from(LOADED)) is None


@pytest.mark.parametrize(("change", "sentence"), LAWS.values(), ids=LAWS)
def test_law(change, sentence):
    assert refusal_of(tree_from(TENSORIZED), change) == sentence


def test_no_iteration_is_left_out_where_tiles_divide_the_sizes():
    """The sum is not rounded up, and its test holds at all sizes that the kernel admits."""
    whole = "C: f32[M, N] where M % 32 == 0, N % 16 == 0, K % 16 == 0:"
    text = LOADED.replace("    round_up(k, 16)\n", "").replace("C: f32[M, N]:", whole)
    tree = tree_from(text)
    for version in ({}, {"whole": True}, {"instructions": False}):
        assert prove(tree.kernel, lower(tree, **version), tree.reassociated).verdict == "proved"
    with pytest.raises(IllegalStep, match="runs as a whole, and some iterations for 'C.reg' are left out"):
        tree_from(text.replace("K % 16", "K % 8"))


@pytest.mark.parametrize("name", ["C.reg", "A.shared.reg", "B.shared.reg"])
def test_a_register_operand_is_a_fragment(name):
    found = judge(with_buffer(tree_from(TENSORIZED), name, fragment=None, fragment_dims=()))
    assert found.sentence.endswith(f"lies in a fragment, and '{name}' does not")


@pytest.mark.parametrize("dims", [(3, 2), (1, 3)])
def test_the_indices_of_a_fragment_are_those_of_its_layout(dims):
    found = judge(with_buffer(tree_from(TENSORIZED), "C.reg", fragment_dims=dims))
    assert found.code == "form"


def test_a_fragment_has_one_layout():
    """ldmatrix fills A as one instruction wants it, and the product reads it as another one does."""
    tree = tree_from(LOADED)
    layout = stock_instructions()["ldmatrix_b_trans_bf16"].layout("D")
    found = judge(with_buffer(tree, "A.shared.reg", fragment=layout))
    assert found.sentence == "'A.shared.reg' has another layout than the operand D of 'ldmatrix_a_bf16'"
    assert found.witness == "D[0, 1] has to be in lane 0, register 1, and is in lane 4, register 0"
