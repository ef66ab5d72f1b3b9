"""Every fault in launches that begin early is refused by the proof: one would touch what another one still uses."""

from dataclasses import replace

import pytest

from tests.support.mutants.overlap_launch_faults import FAULTS, wait_in_one_role
from tests.support.mutants.refused import find_missed
from tests.support.overlapping_kernels import CASES, TWO
from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.lowering import lower
from tilegen.lowering.launch_nodes import AwaitLaunches
from tilegen.proof import prove

SIZES = {"M": 11, "N": 9, "K": 7}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_a_fault_is_refused(case, fault):
    assert not find_missed(fault, CASES[case], least=0 if fault is wait_in_one_role and case == "tiles" else 1)


@pytest.mark.parametrize("case", CASES)
def test_what_is_proved_runs_and_reads_back(case):
    tree = tree_from(CASES[case])
    for language in ("cuda", "opencl"):
        launches = lower(tree, vector=language == "cuda", instructions=language == "cuda")
        assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
        assert difference(emit(launches, language), launches, language) is None
    if case == "tiles":  # the others take a simulation long, and are simulated without the step
        assert faults(lower(tree), tree, SIZES) is None


def test_each_launch_of_a_program_waits():
    tree = tree_from(TWO)
    launches = lower(tree)
    assert [launch.body.count(AwaitLaunches()) for launch in launches] == [1, 1]
    assert prove(tree.kernel, launches).verdict == "proved"
    for n, launch in enumerate(launches):
        bare = replace(launch, body=tuple(node for node in launch.body if node != AwaitLaunches()))
        one = (*launches[:n], bare, *launches[n + 1 :])
        assert prove(tree.kernel, one).verdict == "refused: text"
