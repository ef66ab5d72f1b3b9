"""Records: what became of one schedule at given sizes on one device, with all that is needed to run it again.

A record is one line of JSON: `line_of` writes it, and `read_records` reads those of a file. `record.schema.json` beside
this file is its JSON Schema, and says what each field means.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from json import JSONDecodeError
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
from tilegen.lab.records.schemas import find_complaint
from tilegen.lab.records.values import parse_json
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
    constants: Mapping[str, float] = field(default_factory=dict)
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


# -- reading


def read_records(text: str, name: str) -> list[RunRecord]:
    """The records of a file, whose `text` is lines of them or a document that has them as its rows.

    A last line that is torn, of a run that was ended from outside, is left out; so is a line of another schema of
    tilegen's, such as the head of a tuning run.

    Args:
        name: what messages call the file.

    Raises:
        UsageError: it is neither, with the line and the field that is wrong.
    """
    document = _document_of(text, name)
    if document is not None:
        return [record_of(row, f"{name}, row {number}") for number, row in enumerate(_rows_of(document, name), 1)]
    found: list[RunRecord] = []
    lines = text.split("\n")  # what follows the last end of a line is torn, or nothing
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = f"{name}:{number}"
        try:
            value = parse_json(line)
        except JSONDecodeError:
            if number == len(lines) and found:
                break
            raise UsageError(f"{place} is no JSON", notes=("a record is a JSON object on one line",)) from None
        except ValueError as error:
            raise UsageError(f"{place} is no record: {error}") from None
        if not _is_of_another_schema(value):
            found.append(record_of(value, place))
    if not found:
        raise UsageError(f"{name} has no record", notes=_HINT)
    return found


def record_of(value: Any, place: str) -> RunRecord:
    """The record that a JSON value is. Raises UsageError, with its `place`, where it is none."""
    schema = value.get("schema") if isinstance(value, dict) else None
    if schema != SCHEMA:
        newer = isinstance(schema, str) and schema.startswith("tilegen.record/")
        notes = (f"tilegen {value.get('tilegen')} wrote it",) if newer else _HINT
        raise UsageError(f"{place} is no record: {_schema_text(value, schema)}", notes=notes)
    if message := find_complaint("record", value):
        raise UsageError(f"{place} is no record: {message}", notes=_FIELDS)
    known = {f.name: value[f.name] for f in fields(RunRecord) if f.name in value}
    known |= {name: tuple(known[name]) for name in ("trials", "samples", "doubts") if name in known}
    return RunRecord(**known | _nested(value))


_HINT = ("tilegen compare ... --json F writes records, and so does tilegen tune",)
_FIELDS = ("tilegen help records says what a record has",)
_SENSORS = ("clock_mhz", "memory_clock_mhz", "power_w", "temperature_c")


def _document_of(text: str, name: str) -> dict[str, Any] | None:
    """The one JSON object that the text is, if that is no record itself."""
    try:
        found = parse_json(text)
    except JSONDecodeError:
        return None
    except ValueError as error:
        raise UsageError(f"{name} is no record: {error}") from None
    return found if isinstance(found, dict) and found.get("schema") != SCHEMA else None


def _rows_of(document: Mapping[str, Any], name: str) -> Sequence[Any]:
    rows = document.get("rows")
    if not isinstance(rows, list):
        command = document.get("command")
        if document.get("schema") == "tilegen.tune/1":
            notes = ("tilegen tune ... --resume FILE goes on with it",)
            raise UsageError(f"{name} has no record: no candidate of the run was tried", notes=notes)
        what = f"it is the result of '{command}'" if command else "it has no rows"
        raise UsageError(f"{name} has no records: {what}", notes=_HINT)
    if not rows:
        raise UsageError(f"{name} has no record", notes=_HINT)
    return rows


def _is_of_another_schema(value: Any) -> bool:
    """True of what tilegen writes beside records."""
    schema = value.get("schema") if isinstance(value, dict) else None
    return isinstance(schema, str) and schema.startswith("tilegen.") and not schema.startswith("tilegen.record/")


def _schema_text(value: Any, schema: Any) -> str:
    if not isinstance(value, dict):
        return "it is no JSON object"
    if schema is None:
        return "it has no 'schema'"
    if isinstance(schema, str) and schema.startswith("tilegen.record/"):
        return f"it is of {schema}, and this tilegen ({__version__}) reads {SCHEMA}"
    return f"its schema is {json.dumps(schema)}, not {SCHEMA}"


def _nested(value: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a record that are dataclasses of their own."""
    found: dict[str, Any] = {}
    if value.get("device"):
        found["device"] = _make(Device, value["device"])
    if value.get("conditions"):
        sensors = {n: _make(Readings, each) for n in _SENSORS if (each := value["conditions"].get(n))}
        found["conditions"] = _make(Conditions, {**value["conditions"], **sensors})
    return found


def _make(kind: Any, value: Mapping[str, Any]) -> Any:
    return kind(**{f.name: value[f.name] for f in fields(kind) if f.name in value})
