"""A sample of the changed schedules: some of every stock schedule, all of the shortest one."""

import pytest

from tests.support.cover import cover
from tests.support.mutants.changed_schedules import (
    FAULTS,
    FINE,
    KINDS,
    PROVED,
    Mutant,
    base,
    bases,
    mutants,
    of_schedule,
    outcome,
    shapes,
    table,
)
from tests.support.stock import cases

WHOLE = {"row_sum.warps", "conv1d.shared", "transpose.swizzled"}  # of these all, in every test run


def _listed(case):
    others = pytest.mark.long if case in cover() else pytest.mark.nightly
    return pytest.param(*case, id=".".join(case), marks=() if ".".join(case) in WHOLE else others)


@pytest.mark.parametrize(("name", "schedule"), [_listed(case) for case in cases()])
def test_judge_and_proof_agree_on_changed_schedules(name, schedule):
    most = 0 if f"{name}.{schedule}" in WHOLE else 3
    results = of_schedule((cases().index((name, schedule)), most, False, ""))
    assert results or schedule == "serial"  # that of a list has no step
    assert not [r for r in results if r[2] in FAULTS]
    assert all(r[2] in FINE for r in results), table(results)


@pytest.mark.long
@pytest.mark.parametrize("position", range(len(cases()), len(bases())))
def test_judge_and_proof_agree_on_shapes_that_no_stock_schedule_has(position):
    calls = tuple(stage.step for stage in base(position, False).stages[1:])
    assert outcome(position, Mutant("", "", 0, calls)) == (PROVED, "")
    results = of_schedule((position, 20, False, ""))
    assert all(r[2] in FINE for r in results), table(results)
    assert len(shapes().schedules) > 5


def test_every_kind_of_change_is_made_and_some_are_proved():
    (position,) = (n for n, case in enumerate(cases()) if case == ("row_sum", "warps"))
    assert {m.kind for m in mutants(position, False)} == set(KINDS)
    results = of_schedule((position, 0, False, ""))
    assert 5 < sum(r[2] == PROVED for r in results) < len(results) - 5
