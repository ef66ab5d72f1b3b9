"""Stock schedules and random accepted ones under Oclgrind: no race, no value without a beginning, no stray access."""

from __future__ import annotations

import pytest

from tests.support.devices.oclgrind import bad, control_jobs, random_jobs, stock_jobs
from tests.support.devices.on_simulator import run_all
from tilegen.backends.devices import opencl

TEST_SEED, TEST_CASES = 90, 30
needs_oclgrind = pytest.mark.skipif(
    opencl.unavailable_reason(opencl.SIMULATOR) is not None, reason="Oclgrind is not installed"
)


@needs_oclgrind
def test_stock_schedules_are_clean():
    assert bad(run_all(stock_jobs())) == []


@needs_oclgrind
def test_random_schedules_are_clean():
    assert bad(run_all(random_jobs(TEST_SEED, TEST_CASES))) == []


@needs_oclgrind
def test_a_missing_barrier_is_reported():
    """The control: every barrier matters to Oclgrind, too."""
    outcomes = run_all(control_jobs())
    assert len(outcomes) >= 6
    assert all("race" in o.report for o in outcomes), [o.label for o in outcomes if "race" not in o.report]
