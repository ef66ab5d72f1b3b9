"""Records: what became of one schedule at given sizes on one device, with all that is needed to run it again.

A record is one line of JSON: `line_of` writes it, and `record_files` reads it. `record.schema.json` beside this file is
its JSON Schema, and says what each field means.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Any, Literal

from tilegen.errors import (
    DeviceError,
    IllegalStep,
    LimitError,
    NothingCompared,
    ProofError,
    SourceError,
    StepError,
    TilegenError,
    UsageError,
    WrongResult,
)
from tilegen.ir.steps import Setting
from tilegen.version import __version__

SCHEMA = "tilegen.record/1"

Outcome = Literal[
    "measured",
    "illegal",  # a step cannot be built, or the judge refuses it
    "limits",  # more threads, registers or shared memory than there are
    "unproved",  # it is open whether it is the kernel
    "roofline",  # no launch of it can be as fast as what has been measured
    "refused",  # the compiler refuses the text
    "wrong",  # its result is not the kernel's
    "fault",  # the device fails, or a library does
    "time",  # over the limit of time
    "memory",  # over the limit of memory
    "killed",  # its process ended, by itself or from outside
    "unmeasured",  # it is right, and has no time: the run ended before, or nothing can be timed
]


@dataclass(frozen=True)
class Device:
    """A device and its software. `facts`: driver, cuda, uuid, limits of clocks and power, versions, as far as known."""

    name: str
    on_gpu: bool
    arch: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Readings:
    """What a sensor said: the least, the middle and the largest value."""

    least: float
    median: float
    largest: float


@dataclass(frozen=True)
class Conditions:
    """The state of a GPU while it was timed, from `readings` of its sensors; None for what it does not tell.

    Attributes:
        throttled: for each reason that held the clock down the share of readings at which it did.
        others: processes of others that had a context on the GPU.
        unknown: why there are no readings.
    """

    readings: int = 0
    clock_mhz: Readings | None = None
    memory_clock_mhz: Readings | None = None
    power_w: Readings | None = None
    temperature_c: Readings | None = None
    throttled: Mapping[str, float] = field(default_factory=dict)
    others: int | None = None
    unknown: str | None = None


@dataclass(frozen=True)
class RunRecord:
    """One schedule at given sizes on one device; the JSON Schema says what the fields mean.

    `text` is that of kernel and schedule, `File.self_contained`, from which `parameters` and `constants` make the same
    program again; without it the record is of a library's call. `samples` are milliseconds of one run, in their order.
    """

    name: str
    kernel: str
    outcome: Outcome
    sizes: Mapping[str, int]
    text: str | None = None
    file: str | None = None
    schedule: str | None = None
    parameters: Mapping[str, Setting] = field(default_factory=dict)
    constants: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None
    exit_code: int = 0
    proof: str | None = None
    trials: tuple[Mapping[str, Any], ...] = ()
    compiler: str | None = None
    arch: str | None = None
    launches: int | None = None
    registers: int | None = None
    shared: int | None = None
    spills: int | None = None
    device: Device | None = None
    conditions: Conditions | None = None
    seed: int | None = None
    steady: float = 0.0
    samples: tuple[float, ...] = ()
    time: Mapping[str, float] | None = None
    rate: float | None = None
    unit: str | None = None
    doubts: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    schema: str = SCHEMA
    tilegen: str = __version__
    command: str | None = None
    date: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @property
    def milliseconds(self) -> float | None:
        """The median of the samples; None without any."""
        return median(self.samples) if self.samples else None


def outcome_of(error: TilegenError) -> Outcome:
    """What an error makes of a schedule that was to be measured."""
    match error:
        case WrongResult():
            return "wrong"
        case LimitError():
            return "limits"
        case ProofError() | NothingCompared():
            return "unproved"
        case IllegalStep() | StepError() | SourceError() | UsageError():
            return "illegal"
        case DeviceError():
            return "fault"
        case _:
            return "refused"


# -- writing


def line_of(record: RunRecord) -> str:
    """The record as a line of JSON, without its end. Raises ValueError for a number that JSON lacks."""
    return json.dumps(to_dict(record), allow_nan=False)


def to_dict(record: RunRecord) -> dict[str, Any]:
    """The record as the value that a line has, with its schema first."""
    found = asdict(record)
    head = ("schema", "tilegen", "command", "date")
    return {**{name: found[name] for name in head}, **found}
