"""Every fault in what the blocks of a cluster share is refused by the proof."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from bulk import CASES
from cluster_faults import CLUSTER_FAULTS
from place_faults import PLACE_FAULTS
from refused import find_missed
from ring_faults import FAULTS

CLUSTERS = ["cluster", "cluster, narrow", "cluster, again, narrow"]


@pytest.mark.parametrize("case", CLUSTERS)
@pytest.mark.parametrize("fault", [*CLUSTER_FAULTS, *FAULTS], ids=lambda f: f.__name__)
def test_a_fault_is_refused(case, fault):
    assert not find_missed(fault, CASES[case])


@pytest.mark.parametrize("fault", PLACE_FAULTS, ids=lambda f: f.__name__)
def test_a_wrong_place_in_a_ring_is_refused(fault):
    assert not find_missed(fault, CASES["cluster, again, narrow"])
