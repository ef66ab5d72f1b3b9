"""How many registers the threads of a block can have: as many each, or some more where others give theirs up."""

from __future__ import annotations

from tilegen.ir.hardware.instructions import UNITS

REGISTERS = 65536
"""Of a multiprocessor, since sm_30."""

WARPGROUP = UNITS["warpgroup"]
UNIT, FEWEST, MOST = 8, 24, 256
"""Warpgroups can change to a multiple of `UNIT`, neither less nor more than these two (PTX ISA, setmaxnreg)."""


def launched_registers(threads: int, resident: int) -> int:
    """How many registers a thread has from the launch on, where `resident` blocks of `threads` have to fit."""
    return min(MOST, REGISTERS // (threads * resident) // UNIT * UNIT)
