"""Every fault in register budgets is refused by the proof: a warpgroup would wait for ever, or the hardware traps."""

import pytest

from tests.support.mutants.budget_faults import FAULTS
from tests.support.mutants.refused import find_missed
from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults
from tests.support.warpgroup_kernels import BUDGETS
from tests.support.written import tree_from
from tilegen.backends import nvrtc
from tilegen.backends.text import emit
from tilegen.ir.budgets import launched_registers
from tilegen.lowering import lower
from tilegen.proof import prove

SIZES = {"M": 130, "N": 72, "K": 64}


@pytest.mark.parametrize("case", BUDGETS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_a_fault_is_refused(case, fault):
    assert not find_missed(fault, BUDGETS[case])


@pytest.mark.parametrize("case", BUDGETS)
def test_what_is_proved_runs_and_reads_back(case):
    tree = tree_from(BUDGETS[case])
    launches = lower(tree)
    assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
    assert difference(emit(launches), launches, "cuda") is None
    assert faults(launches, tree, SIZES) is None


@pytest.mark.nvrtc
@pytest.mark.parametrize("case", BUDGETS)
def test_the_compiler_gives_all_that_there_is(case):
    """With fewer at the launch, consumers would wait for registers that nobody has."""
    (launch,) = launches = lower(tree_from(BUDGETS[case]))
    found = nvrtc.compile_text(emit(launches, "cuda"), "sm_90a").resources[launch.name]
    assert found.registers == launched_registers(*launch.bounds) == 168
