"""Every fault in a specialized loop is refused by the proof; the simulation, which knows nothing of it, sees it run."""

from dataclasses import replace

import pytest

from tests.support.bulk_kernels import CASES
from tests.support.mutants.place_faults import PLACE_FAULTS
from tests.support.mutants.refused import find_missed
from tests.support.mutants.ring_faults import FAULTS
from tests.support.simulator.threads import faults
from tests.support.stock import schedule_stock
from tests.support.written import tree_from
from tilegen.ir.affine import const
from tilegen.ir.nodes import Access, Const, Stmt
from tilegen.lowering import lower
from tilegen.poly import Facts, Refused
from tilegen.proof.bulk import check_boxes

RINGS = ["ring", "ring, narrow", "ring, again", "ring, again, narrow"]
COUNTED = RINGS[2:]
SIZES = {"M": 13, "N": 20, "K": 44}
OF_SEVERAL_TILES = {"M": 13, "N": 72, "K": 20}
# What the simulation does not have: words, and integers without a value. Of three others some do no harm: a phase that
# stands in no text, or has the same parity; of two slots the other one, which is released later; another of the threads
# that are idle.
BEYOND = ("wait_names_others", "wait_of_the_other_kind", "start_dropped")
HARMLESS = {"phase_shifted": 8, "slot_shifted": 2, "other_producer": 1}


@pytest.mark.parametrize("case", RINGS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_a_fault_is_refused(case, fault):
    assert not find_missed(fault, CASES[case])


@pytest.mark.parametrize("case", COUNTED)
@pytest.mark.parametrize("fault", PLACE_FAULTS, ids=lambda f: f.__name__)
def test_a_wrong_place_in_a_ring_is_refused(case, fault):
    assert not find_missed(fault, CASES[case])


@pytest.mark.parametrize("fault", [f for f in PLACE_FAULTS if f.__name__ not in BEYOND], ids=lambda f: f.__name__)
def test_a_wrong_place_in_a_ring_is_seen_where_it_runs(fault):
    tree = tree_from(CASES["ring, again, narrow"])
    assert faults(lower(tree), tree, OF_SEVERAL_TILES) is None
    (launch,) = lower(tree)
    seen = [faults((each,), tree, OF_SEVERAL_TILES) for each in fault(launch)]
    assert seen.count(None) == HARMLESS.get(fault.__name__, 0)


def test_nothing_writes_what_is_copied():
    """A barrier of the consumers alone would order their writes with the reads of a producer that is not at it."""
    tree = tree_from(CASES["ring"])
    (launch,) = lower(tree)
    written = Stmt("C", Access("A", (const(0), const(0))), Const(0.0, "f32"))
    facts = Facts(tree.kernel)
    with pytest.raises(Refused, match="copied in bulk, and threads write it"):
        check_boxes(replace(launch, body=(*launch.body, written)), facts, {})


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.__name__ not in BEYOND], ids=lambda f: f.__name__)
def test_a_fault_is_seen_where_it_runs(fault):
    tree = tree_from(CASES["ring, narrow"])
    (launch,) = lower(tree)
    seen = [faults((each,), tree, SIZES) for each in fault(launch)]
    assert seen.count(None) == HARMLESS.get(fault.__name__, 0)


def test_products_of_a_batch_run_with_their_rows_by_way_of_shared_memory():
    """A barrier of the consumers is one for what a warp has stored together, too."""
    tree = schedule_stock("hgemm", "batched_small", (), (("GZ", 1), ("TM", 64), ("STAGES", 2))).tree
    assert faults(lower(tree), tree, {"Z": 2, "M": 10, "N": 8, "K": 8}) is None
