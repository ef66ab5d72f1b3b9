"""A sample of the mutants: every kind of fault, in four of the stock schedules. mutants.py has them all."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from mutants import figures, of_base, table
from stock import cases

SAMPLE = {"gemm.tiled", "chain.fused_vector", "matching.tiled", "transpose.swizzled"}
EACH = 2


@pytest.mark.parametrize("position", [n for n, case in enumerate(cases()) if ".".join(case) in SAMPLE])
def test_every_fault_is_caught_before_anything_runs(position):
    results = of_base(position, EACH)
    total, caught, before, equivalent = figures(results)
    missed = [result for result in results if result[-1] is None]
    assert not missed, missed
    assert before >= 0.95 * total, table(results)
    assert total >= 40
    assert equivalent <= total // 3
