"""Every fault in bulk copies is refused by the proof; the simulation, which knows nothing of it, sees its effects."""

from dataclasses import replace

import pytest

from tests.support.bulk_kernels import CASES
from tests.support.mutants.bulk_faults import FAULTS, edited
from tests.support.mutants.refused import find_missed
from tests.support.simulator.threads import faults
from tests.support.written import tree_from
from tilegen.ir.affine import var
from tilegen.lowering import lower
from tilegen.lowering.bulk_nodes import BulkCopies
from tilegen.proof import prove

FAULTY = ["once", "swizzled", "each time", "two stages", "beside others", "again", "again in stages"]
SIMULATED = ["swizzled", "two stages", "again"]
SIZES = {"M": 18, "N": 36, "K": 24, "L": 2}
# What the simulation does not have: words, the addresses of tensors and of shared buffers. Of the others it misses
# some, where a wrong box brings what nobody reads.
BEYOND = ("wait_names_others", "unaligned_tensor")


def sizes_of(tree):
    return {name: SIZES[name] for name in tree.kernel.sizes}


@pytest.mark.parametrize("case", FAULTY)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_a_fault_is_refused(case, fault):
    assert not find_missed(fault, CASES[case], least=0)


@pytest.mark.parametrize("case", [case for case in CASES if case != "halves"])
def test_what_is_proved_runs(case):
    tree = tree_from(CASES[case])
    assert faults(lower(tree), tree, sizes_of(tree)) is None


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.__name__ not in BEYOND], ids=lambda f: f.__name__)
def test_a_fault_is_seen_where_it_runs(fault):
    seen = []
    for case in SIMULATED:
        tree = tree_from(CASES[case])
        (launch,) = lower(tree)
        seen += [faults((each,), tree, sizes_of(tree)) for each in fault(launch)]
    assert seen
    assert seen.count(None) * 3 <= len(seen) * 2
    assert fault.__name__.startswith(("wrong_", "barriers_started")) or None not in seen


def test_a_phase_of_an_arrival_is_its_number():
    """It stands in no text: what it is said to be has to be how often the barrier has been filled."""
    tree = tree_from(CASES["two stages"])
    (launch,) = lower(tree)
    for by in (1, var("ko")):
        later = edited(
            launch, lambda n, by=by: [(replace(n, phase=n.phase + by),)] if isinstance(n, BulkCopies) else []
        )
        assert all(prove(tree.kernel, (each,), tree.reassociated).verdict != "proved" for each in later)
