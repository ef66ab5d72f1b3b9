"""Every fault in what the blocks of a cluster share is refused by the proof, and seen where it runs."""

import pytest

from tests.support.bulk_kernels import CASES
from tests.support.mutants.cluster_faults import CLUSTER_FAULTS
from tests.support.mutants.overlap_faults import FAULTS as OVERLAP_FAULTS
from tests.support.mutants.place_faults import PLACE_FAULTS
from tests.support.mutants.refused import find_missed
from tests.support.mutants.ring_faults import FAULTS
from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults
from tests.support.warpgroup_kernels import CLUSTER
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.lowering import lower
from tilegen.proof import prove

SIZES = {"M": 29, "N": 40, "K": 20}
OF_SEVERAL_TILES = {"M": 29, "N": 72, "K": 20}
# The name of a block's number, and the order of factors of the grid, are in no text.
HARMLESS = {"other_clusters": 2}
CLUSTERS = ["cluster", "cluster, narrow", "cluster, again, narrow"]


@pytest.mark.parametrize("case", CLUSTERS)
@pytest.mark.parametrize("fault", [*CLUSTER_FAULTS, *FAULTS], ids=lambda f: f.__name__)
def test_a_fault_is_refused(case, fault):
    assert not find_missed(fault, CASES[case])


@pytest.mark.parametrize("fault", [*CLUSTER_FAULTS, *OVERLAP_FAULTS], ids=lambda f: f.__name__)
def test_a_fault_is_refused_where_products_run_on(fault):
    assert not find_missed(fault, CLUSTER)


def test_products_that_run_on_are_proved_and_read_back():
    tree = tree_from(CLUSTER)
    launches = lower(tree)
    assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
    assert difference(emit(launches), launches, "cuda") is None
    assert faults(launches, tree, {"M": 3, "N": 8, "K": 72}) is None


@pytest.mark.parametrize("fault", PLACE_FAULTS, ids=lambda f: f.__name__)
def test_a_wrong_place_in_a_ring_is_refused(fault):
    assert not find_missed(fault, CASES["cluster, again, narrow"])


@pytest.mark.parametrize("case", CLUSTERS[1:])
def test_what_is_proved_runs(case):
    tree = tree_from(CASES[case])
    assert faults(lower(tree), tree, OF_SEVERAL_TILES) is None


@pytest.mark.parametrize("fault", CLUSTER_FAULTS, ids=lambda f: f.__name__)
def test_a_fault_is_seen_where_it_runs(fault):
    tree = tree_from(CASES["cluster, narrow"])
    (launch,) = lower(tree)
    seen = [faults((each,), tree, SIZES) for each in fault(launch)]
    assert seen.count(None) == HARMLESS.get(fault.__name__, 0)
