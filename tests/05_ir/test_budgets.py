"""The registers of the threads of a block: what consumers get, and what is left to the row of the producer."""

import pytest

from tilegen.ir.hardware.budgets import FEWEST, MOST, REGISTERS, UNIT, WARPGROUP, Budgets, budgets_of


@pytest.mark.parametrize(
    ("warpgroups", "found"),
    [(1, None), (2, Budgets(168, 240, 24)), (3, Budgets(128, 160, 32)), (4, Budgets(96, 112, 32))],
)
def test_consumers_get_up_to_240_registers(warpgroups, found):
    assert budgets_of(240, warpgroups * WARPGROUP, WARPGROUP, 1) == found


@pytest.mark.parametrize("resident", [1, 2])
@pytest.mark.parametrize("warpgroups", range(1, 8))
def test_no_block_takes_more_than_it_has_from_the_launch_on(warpgroups, resident):
    for wanted in range(FEWEST, MOST + 1, UNIT):
        if found := budgets_of(wanted, warpgroups * WARPGROUP, WARPGROUP, resident):
            assert FEWEST <= found.producer <= found.launched < found.consumer <= wanted
            assert (found.producer % UNIT, found.consumer % UNIT) == (0, 0)
            assert found.consumer * warpgroups + found.producer <= found.launched * (warpgroups + 1)
            assert found.launched * (warpgroups + 1) * WARPGROUP * resident <= REGISTERS
