"""What goes to the children of a run and what comes back: plain values that pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from tilegen.lab.predict.machine import Machine
from tilegen.lab.records.records import Conditions
from tilegen.lab.records.records import Outcome as State
from tilegen.tune.space import Candidate

Samples = Mapping[Candidate, tuple[float, ...]]
"""Of candidates: milliseconds of one run each."""

LOST: tuple[State, ...] = ("fault", "time", "memory", "killed")
"""States after which a process is not used again: its device may not work any more."""


@dataclass(frozen=True)
class Task:
    """What all candidates of a run share.

    Attributes:
        texts: for each schedule a text of it and its kernel, which needs no other text.
        values: the kernel's attributes, and sizes to fix as constants.
        sizes: all sizes to time at.
        arch: the GPU's architecture; None without one.
        machine: whose roofline prunes; None where none is known for the device.
        predicts: True where no candidate is timed: the model of time ranks them.
    """

    kernel: str
    texts: Mapping[str, str]
    values: Mapping[str, float]
    sizes: Mapping[str, int]
    device: str
    arch: str | None = None
    machine: Machine | None = None
    unproved: bool = False
    predicts: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of a candidate.

    Attributes:
        samples: milliseconds of one run each.
        predicted: the least milliseconds by the roofline, where that was asked; `modelled` those
            that the model of time gives, by which candidates are ordered where nothing is timed.
        seconds: by part: "judge" (steps and proof), "predict", "compile", "check", "time".
        checks: the sizes, the inputs and the largest error of each case that it passed.
        built: as records have them, `launches` and `shared`, and on a GPU `registers` and `spills`.
        conditions: the state of the GPU meanwhile; None on a CPU.
    """

    candidate: Candidate
    state: State
    message: str = ""
    samples: tuple[float, ...] = ()
    predicted: float | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    checks: tuple[Mapping[str, Any], ...] = ()
    built: Mapping[str, Any] = field(default_factory=dict)
    conditions: Conditions | None = None
    modelled: float | None = None

    @property
    def milliseconds(self) -> float | None:
        """The median of the samples; of what is right and has none, the time that the model gives."""
        return median(self.samples) if self.samples else self.modelled if self.state == "unmeasured" else None
