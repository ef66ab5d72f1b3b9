"""Every fault in products by warpgroups is refused by the proof; the simulation, by the PTX ISA, sees its effects."""

import pytest

from tests.support.mutants.refused import find_missed
from tests.support.mutants.warpgroup_faults import FAULTS, FAULTS_OF_FACTORS, leading, start, stride
from tests.support.simulator.threads import faults
from tests.support.warpgroup_kernels import CASES, FACTORS, WINDOWS
from tests.support.written import tree_from
from tilegen.lowering import lower
from tilegen.proof import prove

SIZES = {"M": 65, "N": 24, "K": 72}
# The simulation runs the PTX, whatever a declaration says of it.
BEYOND = ("lanes_of_the_result", "layout_of_the_factor")
EVERY = CASES | FACTORS
OF_CASES = [(case, fault) for case in CASES for fault in FAULTS]
OF_FACTORS = [(case, fault) for case in FACTORS for fault in FAULTS_OF_FACTORS]


@pytest.mark.parametrize(
    ("case", "fault"), OF_CASES + OF_FACTORS, ids=lambda v: v if isinstance(v, str) else v.__name__
)
def test_a_fault_is_refused(case, fault):
    assert not find_missed(fault, EVERY[case])


@pytest.mark.parametrize("case", EVERY)
def test_what_is_proved_runs(case):
    tree = tree_from(EVERY[case])
    launches = lower(tree)
    assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
    assert faults(launches, tree, SIZES) is None


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.__name__ not in BEYOND], ids=lambda f: f.__name__)
def test_a_fault_is_seen_where_it_runs(fault):
    # The distance of pieces tells where a row has several.
    case, columns = ("panels", 72) if fault.__name__ == "leading" else ("ahead", 8)
    tree = tree_from(CASES[case])
    (launch,) = lower(tree)
    seen = [faults((each,), tree, {"M": 9, "N": columns, "K": 72}) for each in fault(launch)]
    assert seen.count(None) * 2 <= len(seen), seen


@pytest.mark.parametrize("case", FACTORS)
@pytest.mark.parametrize("fault", [f for f in FAULTS_OF_FACTORS if f.__name__ not in BEYOND], ids=lambda f: f.__name__)
def test_a_fault_in_factors_is_seen_where_it_runs(case, fault):
    tree = tree_from(FACTORS[case])
    (launch,) = lower(tree)
    seen = [faults((each,), tree, {"M": 9, "N": 8, "K": 72}) for each in fault(launch)]
    assert None not in seen, seen


def test_windows_that_overlap_are_read_where_they_lie():
    tree = tree_from(WINDOWS)
    launches = lower(tree)
    assert prove(tree.kernel, launches).verdict == "proved"
    assert faults(launches, tree, {"M": 64, "N": 64}) is None


@pytest.mark.parametrize("fault", [stride, leading, start])
def test_a_fault_in_windows_is_refused_and_seen(fault):
    assert not find_missed(fault, WINDOWS)
    tree = tree_from(WINDOWS)
    (launch,) = lower(tree)
    seen = [faults((each,), tree, {"M": 64, "N": 64}) for each in fault(launch)]
    assert seen.count(None) * 2 <= len(seen), seen  # how far pieces are apart tells where a row has several
