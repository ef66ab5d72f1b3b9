"""Products of warpgroups, which go on while their lanes do: their operands in shared memory and in registers."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.ir.descriptors import Form
from tilegen.ir.nodes import Access


@dataclass(frozen=True)
class Described:
    """A matrix in shared memory for an instruction, from its first element on."""

    start: Access
    form: Form

    @property
    def buffer(self) -> str:
        return self.start.buffer


@dataclass(frozen=True)
class Hold:
    """All that is written to the register buffers by now is written here: no compiler moves it past a begin."""

    buffers: tuple[str, ...]
