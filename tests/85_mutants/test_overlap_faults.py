"""Every fault in products that run on is refused by the proof; the simulation, by the PTX ISA, sees its effects."""

import pytest

from tests.support.mutants.overlap_faults import FAULTS
from tests.support.mutants.refused import find_missed
from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults
from tests.support.warpgroup_kernels import RINGS
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.lowering import lower
from tilegen.lowering.product_nodes import Complete
from tilegen.proof import prove

SIZES = {"M": 3, "N": 136, "K": 136}  # two tiles of the first block, and three iterations of each
# An empty group is the last one there: all products have ended.
HARMLESS = ("complete_the_earlier_alone",)


@pytest.mark.parametrize("case", RINGS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_a_fault_is_refused(case, fault):
    assert not find_missed(fault, RINGS[case])


@pytest.mark.parametrize("case", RINGS)
def test_what_is_proved_runs_and_reads_back(case):
    tree = tree_from(RINGS[case])
    launches = lower(tree)
    assert any(isinstance(node, Complete) and node.earlier for node in launches[0].nodes)
    assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
    assert difference(emit(launches), launches, "cuda") is None
    assert faults(launches, tree, SIZES) is None


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.__name__ not in HARMLESS], ids=lambda f: f.__name__)
def test_a_fault_is_seen_where_it_runs(fault):
    tree = tree_from(RINGS["ring, again"])
    (launch,) = lower(tree)
    seen = [faults((each,), tree, SIZES) for each in fault(launch)]
    assert seen.count(None) * 2 <= len(seen), seen
