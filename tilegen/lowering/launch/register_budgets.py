"""Register budgets: a launch gives all threads as many registers, and consumers take those that a producer gives up.

The producer's row of the block is a warpgroup then, for it is warpgroups that take and give (`setmaxnreg`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.errors import LimitError
from tilegen.ir.hardware.budgets import FEWEST, UNIT, WARPGROUP, launched_registers
from tilegen.ir.nodes import Loop


@dataclass(frozen=True)
class Budgets:
    """How many registers a thread has: each from the launch on, then a consumer, and a thread beside the producer."""

    launched: int
    consumer: int
    producer: int


def choose_budgets(loop: Loop, consuming: int, row: int, resident: int) -> Budgets:
    """The budgets of the block of `loop`, whose producer has a `row` of threads behind the consumers.

    Raises LimitError where the threads are no warpgroups, or there are too few registers.
    """
    if consuming % WARPGROUP or row % WARPGROUP:
        message = f"'{loop.name}' gives registers to {consuming} consumers in rows of {row}, which are no warpgroups"
        raise LimitError(message, loop.span, notes=(f"a warpgroup has {WARPGROUP} threads, in one row or several",))
    launched = launched_registers(consuming + row, resident)
    if loop.registers <= launched:
        message = f"each of {consuming + row} threads can have {launched} registers, and the consumers are given "
        raise LimitError(f"{message}{loop.registers}", loop.span, notes=("leave out registers=",))
    pool = launched * (consuming + row)
    rest = (pool - consuming * loop.registers) // row // UNIT * UNIT
    if rest < FEWEST:
        most = (pool - FEWEST * row) // consuming // UNIT * UNIT
        message = f"{consuming} consumers with {loop.registers} registers leave too few of {pool} for {row} others"
        raise LimitError(message, loop.span, notes=(f"registers={most} is the most",))
    return Budgets(launched, loop.registers, min(rest, launched))
