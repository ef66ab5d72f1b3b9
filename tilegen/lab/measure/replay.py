"""Records beside those of the same schedules run again: what differs, and is it more than the spread?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any

from tilegen.errors import DeviceError, UsageError, did_you_mean
from tilegen.lab.measure.timing import Time, summarise
from tilegen.lab.predict.machine import Machine, machine_names, stock_machine
from tilegen.lab.records.records import Conditions, RunRecord

# What of a row is reported where it is not the same again.
_OF_ROWS = ("outcome", "proof", "launches", "registers", "shared", "spills")
_CLOCK = 0.02  # by what share clocks have to differ to be reported


@dataclass(frozen=True)
class Replayed:
    """A record and that of its schedule run again.

    Attributes:
        ratio: the time now as a multiple of the time then; None where one of them is missing.
        apart: the middle 60 % of the samples then and now do not meet.
        changes: what else is not the same.
    """

    then: RunRecord
    now: RunRecord
    ratio: float | None
    apart: bool
    changes: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """The times in words; empty where one of them is missing."""
        if self.ratio is None:
            return ""
        if not self.apart:
            return "within the spread"
        return f"{self.ratio - 1:.1%} slower" if self.ratio > 1 else f"{1 - self.ratio:.1%} faster"


def find_pair(then: RunRecord, now: RunRecord) -> Replayed:
    """The two records of one schedule beside each other."""
    changes = [
        f"{name}: {before} then, {after} now"
        for name in _OF_ROWS
        if (before := getattr(then, name)) != (after := getattr(now, name)) and before is not None
    ]
    before, after = then.notes.get("predicted"), now.notes.get("predicted")
    if before and after and not isclose(before, after, rel_tol=1e-6):
        changes.append(f"predicted: {before:.4g} ms then, {after:.4g} ms now")
    old, new = time_of(then), time_of(now)
    if old is None or new is None:
        return Replayed(then, now, None, False, tuple(changes))
    apart = new.p80 < old.p20 or old.p80 < new.p20
    return Replayed(then, now, new.median / old.median, apart, tuple(changes))


def time_of(record: RunRecord) -> Time | None:
    """The median and the spread of a record's samples."""
    return summarise(record.samples) if record.samples else None


def find_surroundings(then: RunRecord, now: RunRecord) -> Iterator[str]:
    """What was different around the two: the device, its software and its clock, tilegen."""
    yield from _difference("tilegen", then.tilegen, now.tilegen)
    yield from _difference("compiler", then.compiler, now.compiler)
    if then.device and now.device:
        yield from _difference("device", then.device.name, now.device.name)
        for name in then.device.facts.keys() & now.device.facts.keys():
            yield from _difference(name, then.device.facts[name], now.device.facts[name])
    before, after = _clock(then.conditions), _clock(now.conditions)
    if before and after and abs(after / before - 1) > _CLOCK:
        yield f"clock: {before:.0f} MHz then, {after:.0f} MHz now"


def _difference(name: str, then: Any, now: Any) -> Iterator[str]:
    if then is not None and then != now:
        yield f"{name}: {then} then, {now} now"


def _clock(conditions: Conditions | None) -> float | None:
    return conditions.clock_mhz.median if conditions and conditions.clock_mhz else None


def machine_of(record: RunRecord) -> Machine | None:
    """The machine that a record has predictions of; None for one of a device.

    Raises UsageError where that does not come with tilegen.
    """
    name = record.notes.get("machine")
    if name is None:
        return None
    for each in map(stock_machine, machine_names()):
        if each.name == name:
            return each
    notes = ("compare --machine predicts for the machine of a file",)
    raise UsageError(f"'{record.name}' was predicted for '{name}', which does not come with tilegen", notes=notes)


def require_device(record: RunRecord, device: str, *, on_gpu: bool) -> None:
    """Raises DeviceError where a record of a GPU would run on a CPU that nobody asked for, and for hours perhaps.

    Args:
        device: the word for the device that it is to run on. `on_gpu` is whether that is one.
    """
    if record.device and record.device.on_gpu and device == "auto" and not on_gpu:
        notes = ("--device cpu runs them on the CPU all the same",)
        raise DeviceError(f"the records are of {record.device.name}, and there is no GPU here", notes=notes)


# -- which records


def choose(records: Sequence[RunRecord], names: Sequence[str], best: int) -> list[RunRecord]:
    """The records to run again: those of `names`, or the `best` fastest of those that were measured.

    Of several with one name and the same sizes the last is taken. A library's call has no text, and stands alone.

    Raises:
        UsageError: there is none of a name, or none at all.
    """
    own = {_key(each): each for each in records if each.text is not None}
    if names:
        known = list(dict.fromkeys(each.name for each in own.values()))
        for name in names:
            if name not in known:
                notes = did_you_mean(name, known) or (f"there are {', '.join(known[:10])}",)
                raise UsageError(f"no record of a schedule is called '{name}'", notes=notes)
        return [each for each in own.values() if each.name in names]
    if len(own) <= best:
        found = list(own.values())
    else:
        measured = [each for each in own.values() if each.milliseconds]
        kept = {id(each) for each in sorted(measured, key=lambda each: each.milliseconds or 0.0)[:best]}
        found = [each for each in own.values() if id(each) in kept]
    if not found:
        raise UsageError("no record has the text of a schedule that was measured")
    return found


def _key(record: RunRecord) -> object:
    return record.name, record.kernel, tuple(sorted(record.sizes.items())), record.steady
