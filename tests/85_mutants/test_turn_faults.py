"""Every fault in turns at a ring is refused by the proof; the simulation, which knows nothing of it, sees it run."""

import pytest

from tests.support.bulk_kernels import CASES
from tests.support.mutants.place_faults import PLACE_FAULTS
from tests.support.mutants.refused import find_missed
from tests.support.mutants.ring_faults import FAULTS
from tests.support.mutants.turn_faults import TURN_FAULTS
from tests.support.simulator.threads import faults
from tests.support.written import tree_from
from tilegen.lowering import lower

SIZES = {"M": 5, "N": 136, "K": 20}
OF_STAGING = ("staging_shared", "staging_once", "barrier_of_the_block", "barrier_of_more")
# With one warp in each turn both barriers of a slot have as many arrivals, and may have each other's names; and of one
# fault, "another producer", the right one is a case.
ALIKE = ("all_barriers_exchanged", "other_producer")
OF_RINGS = [fault for fault in (*FAULTS, *PLACE_FAULTS) if fault.__name__ not in ALIKE]
# Names that stand for nothing, and barriers of other threads that come by at the same time.
BEYOND = ("start_further",)
# A turn that is passed too early for the proof is not at this simulation's pace; buffers may be exchanged; and an idle
# thread may be the producer.
HARMLESS = {"pass_before_the_last_wait": 1, "staging_shared": 1, "next_producer": 1}


@pytest.mark.parametrize("fault", TURN_FAULTS, ids=lambda f: f.__name__)
def test_a_fault_is_refused(fault):
    assert not find_missed(fault, CASES["turns, stored"])


@pytest.mark.parametrize("fault", [f for f in TURN_FAULTS if f.__name__ not in OF_STAGING], ids=lambda f: f.__name__)
def test_a_fault_is_refused_without_staging(fault):
    assert not find_missed(fault, CASES["turns"])


@pytest.mark.parametrize("fault", OF_RINGS, ids=lambda f: f.__name__)
def test_a_fault_of_its_ring_is_refused(fault):
    assert not find_missed(fault, CASES["turns"], least=0)


@pytest.mark.parametrize("fault", [f for f in TURN_FAULTS if f.__name__ not in BEYOND], ids=lambda f: f.__name__)
def test_a_fault_is_seen_where_it_runs(fault):
    tree = tree_from(CASES["turns, stored"])
    (launch,) = lower(tree)
    seen = [faults((each,), tree, SIZES) for each in fault(launch)]
    assert seen.count(None) == HARMLESS.get(fault.__name__, 0)
