"""How many registers the threads of a block can have: as many each, or some more where others give theirs up."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.ir.hardware.instructions import UNITS

REGISTERS = 65536
"""Of a multiprocessor, since sm_30."""

WARPGROUP = UNITS["warpgroup"]
UNIT, FEWEST, MOST = 8, 24, 256
"""Warpgroups can change to a multiple of `UNIT`, neither less nor more than these two (PTX ISA, setmaxnreg)."""


@dataclass(frozen=True)
class Budgets:
    """How many registers a thread has: each from the launch on, then a consumer, and a thread beside the producer."""

    launched: int
    consumer: int
    producer: int


def budgets_of(wanted: int, consuming: int, row: int, resident: int) -> Budgets | None:
    """The budgets of a block in which `consuming` threads have `wanted` registers each, or as many as a `row` of others
    leaves them; None where a launch gives as many to all."""
    launched = launched_registers(consuming + row, resident)
    pool = launched * (consuming + row)
    consumer = min(wanted, (pool - FEWEST * row) // consuming // UNIT * UNIT)
    if consumer <= launched:
        return None
    return Budgets(launched, consumer, (pool - consumer * consuming) // row // UNIT * UNIT)


def launched_registers(threads: int, resident: int) -> int:
    """How many registers a thread has from the launch on, where `resident` blocks of `threads` have to fit."""
    return min(MOST, REGISTERS // (threads * resident) // UNIT * UNIT)
