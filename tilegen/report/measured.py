"""What commands have measured and written as JSON: ladders, and the records of comparisons and tuning runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilegen.errors import UsageError
from tilegen.lab.measure.timing import Time
from tilegen.lab.records.records import RunRecord, read_records
from tilegen.lab.records.schemas import find_complaint
from tilegen.lab.records.values import parse_json


@dataclass(frozen=True)
class MeasuredRung:
    """The program after a step, with milliseconds predicted and measured, or what is `said` where there are none."""

    step: str
    predicted: float | None
    time: Time | None
    said: str = ""


@dataclass(frozen=True)
class MeasuredLadder:
    """What `tilegen ladder --json` has written; `rival` names the library's call, `rival_time` is its time."""

    kernel: str
    schedule: str
    sizes: Mapping[str, int]
    device: str
    on_gpu: bool
    rungs: tuple[MeasuredRung, ...]
    rival: str | None = None
    rival_time: Time | None = None


@dataclass(frozen=True)
class Measured:
    """The contents of a file, which messages and the page call `name`: a ladder, or records."""

    name: str
    ladder: MeasuredLadder | None = None
    records: tuple[RunRecord, ...] = ()

    @property
    def kernels(self) -> set[str]:
        return {self.ladder.kernel} if self.ladder else {record.kernel for record in self.records}


def read_measured(text: str, name: str) -> Measured:
    """The ladder, or the records, of a file. Raises UsageError where it has neither."""
    try:
        found = parse_json(text)
    except ValueError:
        found = None
    if isinstance(found, dict) and "rungs" in found:
        if complaint := find_complaint("ladder", found):
            raise UsageError(f"{name} is no ladder: {complaint}", notes=("tilegen ladder ... --json F writes one",))
        return Measured(name, ladder=_ladder_of(found))
    return Measured(name, records=tuple(read_records(text, name)))


def place_of_predictions(machine: str) -> tuple[str, bool]:
    """(device, whether it is a GPU) of a ladder that has predictions alone, wherever it was checked."""
    return f"one {machine}, predicted", True


def _ladder_of(found: Mapping[str, Any]) -> MeasuredLadder:
    device, on_gpu = found["device"], found["on_gpu"]
    if "machine" in found and not found.get("timed", True):
        device, on_gpu = place_of_predictions(found["machine"]["name"])
    return MeasuredLadder(
        found["kernel"],
        found["schedule"],
        found["sizes"],
        device,
        on_gpu,
        tuple(_rung_of(each) for each in found["rungs"]),
        found["rival"],
        _time_of(found["rival_time"]),
    )


def _rung_of(found: Mapping[str, Any]) -> MeasuredRung:
    launches = found["launches"]
    predicted = sum(launch["prediction"]["milliseconds"] for launch in launches) if launches else None
    said = "the same program" if found["same"] else found["error"] or found["untimed"] or ""
    return MeasuredRung(found["step"] or "as written", predicted, _time_of(found["time"]), said)


def _time_of(found: Mapping[str, Any] | None) -> Time | None:
    return Time(found["median"], found["p20"], found["p80"], found["samples"]) if found else None
