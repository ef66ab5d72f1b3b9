"""What a puzzle begins with, and what it asks of a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilegen import api
from tilegen.ir import nodes
from tilegen.ir.printing.shown import size_words


@dataclass(frozen=True)
class Puzzle:
    """A kernel to schedule, and the limits that the schedule has to keep; None asks for nothing.

    Attributes:
        start: the text that it begins with: the kernel, and a schedule to better.
        machine: whose roofline predicts, at `sizes`.
        milliseconds: that the roofline may predict.
        gigabytes: of transactions with global memory.
        loads: elements that all threads together may load from global memory.
        conflict: wavefronts of the worst access to shared memory for each that it needs.
        launches: of the whole kernel.
        hint: the way out for who has met the other limits or not.
    """

    name: str
    start: str
    machine: str
    sizes: Mapping[str, int]
    hint: str
    milliseconds: float | None = None
    gigabytes: float | None = None
    loads: float | None = None
    conflict: float | None = None
    launches: int | None = None

    @staticmethod
    def of(name: str, start: str, demands: Mapping[str, Any]) -> Puzzle:
        return Puzzle(name, start, **demands)

    @property
    def kernel(self) -> nodes.Kernel:
        """The kernel that a solution has to be of."""
        return api.from_text(self.start, self.name).kernel().ir

    @property
    def size_words(self) -> str:
        """The sizes as options of a command."""
        return size_words(self.sizes)
