"""Every fault in bulk stores is refused by the proof; the simulation, which knows nothing of it, sees its effects."""

import pytest

from tests.support.bulk_kernels import CASES
from tests.support.mutants.refused import find_missed
from tests.support.mutants.store_faults import FAULTS
from tests.support.simulator.threads import faults
from tests.support.written import tree_from
from tilegen.lowering import lower

FAULTY = [case for case in CASES if case.startswith("stored")]
# Small ones, at which a block has several tiles.
SIMULATED = {
    "stored, swizzled": {"M": 36, "N": 20},
    "stored in panels": {"M": 36, "N": 20},
    "stored each time": {"M": 36, "N": 20},
    "stored panel by panel": {"M": 9, "N": 36},
    "stored tile by tile, beside a ring": {"M": 4, "N": 68, "K": 12},
}
# What the simulation does not have: the addresses of tensors and of shared buffers.
BEYOND = ("unaligned_tensor",)


@pytest.mark.parametrize("case", FAULTY)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_a_fault_is_refused(case, fault):
    assert not find_missed(fault, CASES[case], least=0)


def test_each_kind_of_fault_is_there():
    launches = [lower(tree_from(CASES[case]))[0] for case in FAULTY]
    assert not [fault.__name__ for fault in FAULTS if not any(list(fault(launch)) for launch in launches)]


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.__name__ not in BEYOND], ids=lambda f: f.__name__)
def test_a_fault_is_seen_where_it_runs(fault):
    seen = []
    for case, sizes in SIMULATED.items():
        tree = tree_from(CASES[case])
        (launch,) = lower(tree)
        seen += [faults((each,), tree, sizes) for each in fault(launch)]
    assert seen
    assert fault.__name__.startswith("wrong_") or None not in seen
    assert seen.count(None) * 3 <= len(seen)
