"""Products of warpgroups, which go on while their lanes do: their operands in shared memory, and the waits for them."""

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


@dataclass(frozen=True)
class Begin:
    """What is computed so far in registers is there for asynchronous instructions of this `protocol`."""

    protocol: str


@dataclass(frozen=True)
class Complete:
    """The asynchronous instructions of this `protocol` have ended: the register buffers `results` have what they
    compute, and the register buffers `factors`, which they read, can be written again.

    With `earlier`, those since the last begin run on: the ones before them have ended.
    """

    protocol: str
    results: tuple[str, ...]
    factors: tuple[str, ...] = ()
    earlier: bool = False

    @property
    def held(self) -> tuple[str, ...]:
        """The register buffers that were in use."""
        return (*self.results, *self.factors)
