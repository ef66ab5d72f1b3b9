"""Events at barriers by their numbers: what waits for what in a ring is asked of isl, and not told from its shape."""

from dataclasses import replace

import pytest

from tests.support.bulk_kernels import CASES
from tests.support.mutants.bulk_faults import edited
from tests.support.mutants.kinds import is_release
from tests.support.written import tree_from
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Condition, Stmt
from tilegen.ir.walk import rewrite_accesses, substitute
from tilegen.lowering import lower
from tilegen.lowering.launch.program import For, If, nodes
from tilegen.proof import prove


def released_later(launch, by):
    """Each slot is released so many iterations later, and the last ones are after the loop."""

    def change(node):
        release = next((each for each in getattr(node, "body", ()) if is_release(each)), None)
        if not isinstance(node, For) or release is None:
            return
        number = node.ring.number

        def before(count):
            return substitute(release, {number: var(number) - count})

        late = If((Condition(var(node.name) - by),), (before(by),))
        body = tuple(late if each is release else each for each in node.body)
        rest = (If((Condition(node.extent - n),), (before(n),)) for n in range(by, 0, -1))
        yield (replace(node, body=body), *rest)

    return edited(launch, change)


@pytest.mark.parametrize("case", ["ring", "ring, again"])
@pytest.mark.parametrize(("slots", "by"), [(2, 1), (3, 1), (3, 2), (4, 3)])
def test_a_slot_may_be_released_later_if_there_are_more(case, slots, by):
    tree = tree_from(CASES[case].replace("pipeline(ko, 3)", f"pipeline(ko, {slots})"))
    (later,) = released_later(*lower(tree), by)
    assert prove(tree.kernel, (later,), tree.reassociated).verdict == "proved"


@pytest.mark.parametrize("case", ["ring", "ring, again"])
@pytest.mark.parametrize("slots", [2, 3])
def test_a_producer_waits_for_ever_where_no_slot_is_left(case, slots):
    tree = tree_from(CASES[case].replace("pipeline(ko, 3)", f"pipeline(ko, {slots})"))
    (later,) = released_later(*lower(tree), slots)
    proof = prove(tree.kernel, (later,), tree.reassociated)
    assert proof.violation is not None
    assert proof.violation.violation.sentence == "a wait at 'emptied of gemm' is for what never arrives"


@pytest.mark.parametrize(
    ("index", "verdict"), [(var("w"), "proved"), (1 - var("w"), "proved"), (const(1), "refused: arrivals")]
)
def test_groups_that_take_turns_have_each_a_buffer_of_their_own(index, verdict):
    tree = tree_from(CASES["turns, stored"])
    (launch,) = lower(tree)

    def change(access):
        return replace(access, index=(index, *access.index[1:])) if access.buffer == "Cs" else access

    assert prove(tree.kernel, (replace(launch, body=rewrite_accesses(launch.body, change)),)).verdict == verdict


@pytest.mark.parametrize("slots", [2, 3])
def test_a_wait_stays_where_no_slot_is_filled_again(slots):
    text = CASES["ring"].replace("A: f32[M, K], B: f32[K, N]", "A: f32[M, 16], B: f32[16, N]")
    tree = tree_from(text.replace("pipeline(ko, 3)", f"pipeline(ko, {slots})"))
    assert prove(tree.kernel, lower(tree), tree.reassociated).verdict == "proved"


def test_memory_beside_roles_is_none_of_theirs():
    """All threads come by there, and a barrier of the consumers alone is taken for one of the block."""
    tree = tree_from(CASES["ring"])
    (launch,) = lower(tree)
    store = next(node for node in nodes(launch.body) if isinstance(node, Stmt) and node.target.buffer == "C")
    proof = prove(tree.kernel, (replace(launch, body=(*launch.body, store)),), tree.reassociated)
    assert "is used outside of the roles" in proof.violation.violation.sentence
