"""Bulk copies are proved to arrive in time, and to be what their maps say, in every version of a program."""

import pytest

from tests.support.bulk_kernels import CASES
from tests.support.written import tree_from
from tilegen.lowering import lower
from tilegen.lowering.bulk_nodes import Release
from tilegen.proof import prove


@pytest.mark.parametrize("case", CASES)
def test_every_version_is_proved(case):
    tree = tree_from(CASES[case])
    loops = {loop for launch in lower(tree) for loop in launch.needs}
    versions = [{}, {"vector": False}, {"whole": True}, {"wide": True}, *({"loose": frozenset((n,))} for n in loops)]
    for version in versions:
        assert prove(tree.kernel, lower(tree, **version), tree.reassociated).verdict == "proved", version


def test_a_loop_of_one_iteration_has_no_producer():
    once = CASES["ring"].replace("A: f32[M, K], B: f32[K, N]", "A: f32[M, 8], B: f32[8, N]")
    tree = tree_from(once)
    (launch,) = lower(tree)
    assert not any(isinstance(node, Release) for node in launch.nodes)
    assert prove(tree.kernel, (launch,), tree.reassociated).verdict == "proved"
