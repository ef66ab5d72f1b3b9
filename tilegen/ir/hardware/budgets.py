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


def budgets_of(consumer: int, consuming: int, row: int, resident: int) -> Budgets:
    """The budgets of a block in which `consuming` threads are to have `consumer` registers, and a `row` of others the
    rest, where that is one: less than `FEWEST` if too little is left."""
    launched = launched_registers(consuming + row, resident)
    rest = (launched * (consuming + row) - consuming * consumer) // row // UNIT * UNIT
    return Budgets(launched, consumer, min(rest, launched))


def launched_registers(threads: int, resident: int) -> int:
    """How many registers a thread has from the launch on, where `resident` blocks of `threads` have to fit."""
    return min(MOST, REGISTERS // (threads * resident) // UNIT * UNIT)
