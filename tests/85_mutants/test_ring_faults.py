"""Every fault in the ring of a specialized loop is refused by the proof."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from bulk import CASES
from ring_faults import FAULTS
from written import tree_from

from tilegen.lowering import lower
from tilegen.proof import prove

RINGS = ["ring", "ring, narrow"]


@pytest.mark.parametrize("case", RINGS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_a_fault_is_refused(case, fault):
    tree = tree_from(CASES[case])
    (launch,) = lower(tree)
    faulty = list(fault(launch))
    assert faulty
    missed = [each for each in faulty if prove(tree.kernel, (each,), tree.reassociated).verdict == "proved"]
    assert not missed
