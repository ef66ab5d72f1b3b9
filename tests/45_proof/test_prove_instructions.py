"""The proof of instructions: each changed in its operands, its lanes, its place or its number is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.support.mutants.kinds import is_begin_of_products, is_hold, is_wait_for_products
from tests.support.mutants.places import nodes, put
from tests.support.simulator.threads import faults
from tests.support.tensor_core_kernels import LOADED
from tests.support.warpgroup_kernels import product
from tests.support.written import tree_from
from tilegen.errors import Source
from tilegen.frontend import parse
from tilegen.frontend.stock import stock_instructions
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Condition, Loop
from tilegen.ir.walk import rewrite
from tilegen.lowering import lower
from tilegen.lowering.launch.program import Declare, For, If, Perform
from tilegen.lowering.launch.timelines import Barrier
from tilegen.proof import prove

MMA, LOAD_A, LOAD_B = "mma_m16n8k16_bf16", "ldmatrix_a_bf16", "ldmatrix_b_trans_bf16"
SIZES = {"M": 11, "N": 9, "K": 13}


def proof_and_fault(change, kind=Perform, name=""):
    """The proof's answer and the simulation's to the product in which `change` is made to such nodes."""
    tree = tree_from(LOADED)
    (launch,) = lower(tree)

    def change_one(value):
        hit = isinstance(value, kind) and (not name or value.instruction.name == name)
        return change(value) if hit else value

    body = rewrite(launch.body, change_one)
    assert body != launch.body, "the fault changes nothing"
    launches = (replace(launch, body=body),)
    proof = prove(tree.kernel, launches, tree.reassociated)
    return proof.violation, faults(launches, tree, SIZES)


def operand(number, change):
    """A fault in one operand."""

    def of_node(node):
        new = replace(node.operands[number], index=tuple(change(node.operands[number].index)))
        return replace(node, operands=(*node.operands[:number], new, *node.operands[number + 1 :]))

    return of_node


def plus(d, by):
    return lambda index: (*index[:d], index[d] + by, *index[d + 1 :])


def at_other(name, value):
    """The row of shared memory where the name has another value."""
    return operand(0, lambda index: (index[0].substitute({name: value}), index[1]))


LANE = var("lane")
# (instruction, what is changed)
FAULTS = {
    "another register of A": (MMA, operand(0, plus(0, 2))),
    "another register of B": (MMA, operand(1, plus(1, 2))),
    "the other fragment of B": (MMA, operand(1, lambda index: (1 - index[0], index[1]))),
    "the same fragment of C each time": (MMA, operand(2, lambda index: (const(0), index[1]))),
    "factors exchanged": (MMA, lambda node: replace(node, operands=(*node.operands[1::-1], node.operands[2]))),
    "registers that differ by lane": (MMA, operand(0, lambda index: ((LANE % 2) * 2,))),
    "never": (MMA, lambda node: ()),
    "twice": (MMA, lambda node: (node, node)),
    "half of a fragment loaded": (LOAD_B, operand(1, plus(1, 2))),
    "the row below": (LOAD_A, operand(0, plus(0, 1))),
    "8 columns further": (LOAD_A, operand(0, plus(1, 8))),
    "one column further": (LOAD_A, operand(0, plus(1, 1))),
    "lanes that give no address": (LOAD_A, at_other("lane", const(0))),
    "the lanes of rows and columns exchanged": (
        LOAD_A,
        operand(0, lambda index: (var("w") * 16 + LANE % 8 + LANE // 16 * 8, LANE // 8 % 2 * 8)),
    ),
    "loaded for another use": (LOAD_A, lambda node: ()),
    "by the other half of the warps": (LOAD_A, at_other("w", 1 - var("w"))),
    "by half of the lanes": (MMA, lambda node: If((Condition(15 - LANE),), (node,))),
}  # fmt: skip


@pytest.mark.parametrize(("name", "change"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_refused_and_shows_when_it_runs(name, change):
    violation, wrong = proof_and_fault(change, name=name)
    assert (violation is not None, wrong is not None) == (True, True)


def other_instruction(name):
    """The same operands in the hands of another instruction; what it is said to do is as it was."""

    def change(node):
        performed = replace(node.origin.performed, instruction=stock_instructions()[name])
        return replace(node, origin=replace(node.origin, performed=performed))

    return change


@pytest.mark.parametrize(
    ("name", "other"),
    [(LOAD_A, "ldmatrix_a_trans_bf16"), (LOAD_B, "ldmatrix_b_bf16"), (LOAD_A, LOAD_B), (MMA, "mma_m16n8k16_f16")],
)
def test_another_instruction_is_refused(name, other):
    tree = tree_from(LOADED)
    (launch,) = lower(tree)
    change = other_instruction(other)
    body = rewrite(launch.body, lambda v: change(v) if isinstance(v, Perform) and v.instruction.name == name else v)
    launches = (replace(launch, body=body),)
    assert prove(tree.kernel, launches, tree.reassociated).violation is not None
    assert faults(launches, tree, SIZES) is not None


def test_a_layout_declared_otherwise_shows_when_it_runs():
    """The proof takes the declaration's word, which GPU tests hold against hardware; the simulation does not."""
    declared = stock_instructions()[MMA]
    text = declared.text.replace("k % 2 + i / 8 * 2 + k / 8 * 4", "k % 2 + i / 8 * 4 + k / 8 * 2")
    (other,) = parse(Source("own.tg", text)).instructions.values()
    tree = tree_from(LOADED.replace("tensorize(i, k, by=ldmatrix_a_bf16)", "unroll(f)"))

    def change(value):
        if isinstance(value, Loop) and value.performed and value.performed.instruction == declared:
            return replace(value, performed=replace(value.performed, instruction=other))
        return value

    buffers = tuple(replace(b, fragment=other.layout("A")) if b.name == "A.shared.reg" else b for b in tree.buffers)
    wrong = replace(tree, buffers=buffers, body=rewrite(tree.body, change))
    launches = lower(wrong)
    assert prove(wrong.kernel, launches, wrong.reassociated).verdict == "proved"
    assert faults(launches, wrong, SIZES) == "values"


@pytest.mark.parametrize("times", [0, 2])
def test_a_sum_that_starts_never_or_twice_is_refused(times):
    """The second start stands in the loop over k."""
    tree = tree_from(LOADED)
    (launch,) = lower(tree)
    start = next(node for node in launch.body if isinstance(node, Declare) and node.start)
    if times == 0:
        body = tuple(replace(node, start=None, origin=None) if node is start else node for node in launch.body)
    else:
        again = {"ko": start.origin}
        body = tuple(replace(n, body=(again[n.name], *n.body)) if isinstance(n, For) else n for n in launch.body)
    launches = (replace(launch, body=body),)
    assert prove(tree.kernel, launches, tree.reassociated).violation is not None
    assert faults(launches, tree, {"M": 3, "N": 9, "K": 20}) == "values"


def test_a_barrier_that_is_gone_is_missed():
    violation, wrong = proof_and_fault(lambda node: (), kind=Barrier)
    assert (violation.name, wrong) == ("races", "race")


def test_a_warp_has_32_lanes():
    tree = tree_from(LOADED)
    (launch,) = lower(tree)
    for x in (16, 31, 33, 64):
        launches = (replace(launch, block=(x, 2, 1)),)
        assert prove(tree.kernel, launches, tree.reassociated).violation is not None
        assert faults(launches, tree, SIZES) is not None


def test_products_of_which_nothing_is_said_are_refused():
    """Where one of these is missing, the others ask for it (`warpgroup_faults`)."""
    tree = tree_from(product())
    (launch,) = lower(tree)
    said = [p for p, n in nodes(launch.body) if is_begin_of_products(n) or is_wait_for_products(n) or is_hold(n)]
    body = launch.body
    for path in reversed(said):
        body = put(body, path, ())
    assert len(said) > 2
    assert prove(tree.kernel, (replace(launch, body=body),)).verdict == "refused: products"


def test_tensors_have_any_names():
    """Also those of what the proof says events of."""
    text = re.sub(r"\bC\b", "products", re.sub(r"\bA\b", "accesses", product()))
    tree = tree_from(text)
    assert prove(tree.kernel, lower(tree), tree.reassociated).verdict == "proved"
