"""Products of warpgroups, which go on while their lanes do: their operands in shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.ir.hardware.descriptors import Form
from tilegen.ir.nodes import Access


@dataclass(frozen=True)
class Described:
    """A matrix in shared memory for an instruction, from its first element on."""

    start: Access
    form: Form

    @property
    def buffer(self) -> str:
        return self.start.buffer
