"""Bulk copies are proved to arrive in time, and to be what their maps say, in every version of a program."""

from dataclasses import replace

import pytest

from tests.support.bulk_kernels import CASES
from tests.support.cover import first
from tests.support.mutants.bulk_faults import edited
from tests.support.mutants.kinds import is_release, is_start_of_copies
from tests.support.overlapping_kernels import TWO
from tests.support.written import tree_from
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Const, Stmt
from tilegen.ir.walk import rewrite_accesses
from tilegen.lowering import lower
from tilegen.lowering.launch.program import with_lists
from tilegen.lowering.launch.timelines import BLOCK, LAUNCHES, Await, Barrier, Fence
from tilegen.poly import Facts, Refused
from tilegen.proof import prove
from tilegen.proof.reading.bulk import check_boxes


@pytest.mark.parametrize("case", first(CASES, 20))
def test_every_version_is_proved(case):
    tree = tree_from(CASES[case])
    loops = {loop for launch in lower(tree) for loop in launch.needs}
    versions = [
        {},
        {"vector": False},
        {"whole": True},
        {"wide": True},
        *({"scalarized": frozenset((n,))} for n in loops),
    ]
    for version in versions:
        assert prove(tree.kernel, lower(tree, **version), tree.reassociated).verdict == "proved", version


def test_a_loop_of_one_iteration_has_no_producer():
    once = CASES["ring"].replace("A: f32[M, K], B: f32[K, N]", "A: f32[M, 8], B: f32[8, N]")
    tree = tree_from(once)
    (launch,) = lower(tree)
    assert not any(is_release(node) for node in launch.nodes)
    assert prove(tree.kernel, (launch,), tree.reassociated).verdict == "proved"


def test_nothing_writes_what_is_copied():
    """A barrier of the consumers alone would order their writes with the reads of a producer that is not at it."""
    tree = tree_from(CASES["ring"])
    (launch,) = lower(tree)
    written = Stmt("C", Access("A", (const(0), const(0))), Const(0.0, "f32"))
    with pytest.raises(Refused, match="copied in bulk, and threads write it"):
        check_boxes(replace(launch, body=(*launch.body, written)), Facts(tree.kernel), {})


@pytest.mark.parametrize("by", [1, var("ko")], ids=str)
def test_a_phase_of_an_arrival_is_its_number(by):
    """It stands in no text: what it is said to be has to be how often the barrier has been filled."""
    tree = tree_from(CASES["two stages"])
    (launch,) = lower(tree)
    later = edited(launch, lambda n: [(replace(n, number=n.number + by),)] if is_start_of_copies(n) else [])
    assert all(prove(tree.kernel, (each,), tree.reassociated).verdict != "proved" for each in later)


def test_each_launch_of_a_program_waits():
    tree = tree_from(TWO)
    launches = lower(tree)
    assert [launch.body.count(Await(LAUNCHES)) for launch in launches] == [1, 1]
    assert prove(tree.kernel, launches).verdict == "proved"
    for n, launch in enumerate(launches):
        bare = replace(launch, body=tuple(node for node in launch.body if node != Await(LAUNCHES)))
        assert prove(tree.kernel, (*launches[:n], bare, *launches[n + 1 :])).verdict == "refused: text"


# A launch with a ring of three slots and one with a single slot: both have barriers called 'filled'.
TWO_RINGS = """
kernel two(X: i32[M, N], Y: i32[M, N]) -> a: i32[M, N], b: i32[M, N]:
    a[i, j] = X[i, j] * 2
    b[i, j] = Y[i, j] * 3

schedule s for two():
    tile(a.j, 32) -> ao, ai
    tile(b.j, 32) -> bo, bi
    bind(a.i, block.x)
    bind(b.i, block.x)
    bind(ai, thread.x)
    bind(bi, thread.x)
    cache_shared(X, at=ao)
    cache_shared(Y, at=bo)
    bulk(X.shared)
    bulk(Y.shared)
"""


@pytest.mark.parametrize("staged", ["ao", "bo"])
def test_each_launch_has_barriers_of_its_own(staged):
    tree = tree_from(f"{TWO_RINGS}    pipeline({staged}, 3)\n")
    launches = lower(tree)
    assert prove(tree.kernel, launches).verdict == "proved"
    single = ["bo", "ao"].index(staged)

    def beyond(access):
        return replace(access, index=(const(1),)) if access.buffer == "filled" else access

    one = launches[single]
    wrong = replace(one, body=rewrite_accesses(one.body, beyond))
    proof = prove(tree.kernel, (*launches[:single], wrong, *launches[single + 1 :]))
    assert proof.violation.violation.sentence.endswith("has no such barrier or phase")


def test_a_lane_has_no_fence_for_what_others_load():
    """All lanes of the only warp load together; the one that copies has a fence of its own, the barrier none."""
    tree = tree_from(CASES["halves"].replace("WM=64, WN=64", "WM=128, WN=128"))
    (launch,) = lower(tree)

    def change(node):
        if is_start_of_copies(node):
            return Fence(BLOCK), node
        return (replace(node, fence=False) if isinstance(node, Barrier) else with_lists(node, fenced),)

    def fenced(body):
        return tuple(new for node in body for new in change(node))

    proof = prove(tree.kernel, (replace(launch, body=fenced(launch.body)),), tree.reassociated)
    assert "no barrier with a fence stands after what threads load from it" in proof.violation.violation.sentence
