"""A sample of the mutants: every kind of fault, in six of the stock schedules. mutants.py has them all."""

import json

import pytest

from tests.support.mutants.mutants import figures, of_base, read_log, table
from tests.support.mutants.small import tiles
from tests.support.stock import cases, schedule_stock

LARGE = "hgemm.ldmatrix"
SAMPLE = {
    LARGE,
    "gemm.tiled",
    "chain.fused_vector",
    "chain.fused_block",
    "matching.tiled",
    "transpose.swizzled",
}
EACH = 2


@pytest.mark.parametrize(
    "position",
    [
        pytest.param(n, marks=pytest.mark.long if ".".join(case) == LARGE else ())
        for n, case in enumerate(cases())
        if ".".join(case) in SAMPLE
    ],
)
def test_every_fault_is_caught_before_anything_runs(position):
    results = of_base(position, EACH)
    total, caught, before, equivalent = figures(results)
    missed = [result for result in results if result[-1] is None]
    assert not missed, missed
    assert before >= 0.95 * total, table(results)
    assert total >= 40
    assert equivalent <= total // 3


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "schedule"), cases())
def test_a_stock_schedule_allows_the_tiles_of_which_mutants_are_made(name, schedule):
    assert schedule_stock(name, schedule, *tiles(name, schedule)).tree


def test_a_log_is_read_up_to_where_a_run_was_cut_off(tmp_path):
    log = tmp_path / "log"
    one, other = (["gemm.tiled", "tree", fault, 2] for fault in ("wrong pad", "wrong value"))
    log.write_text(
        f'[{json.dumps(one)}, [["gemm.tiled", "tree", "wrong pad", 0, "the judge"]]]\n[{json.dumps(other)}, [["g'
    )
    assert read_log(log) == {tuple(one): [("gemm.tiled", "tree", "wrong pad", 0, "the judge")]}
    assert read_log(tmp_path / "none") == {}
