"""What is said of the state that a GPU was in while it was timed, and of times that are not to be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilegen.lab.records.records import Conditions, Readings


def trust_lines(
    conditions: Conditions | None, doubts: Sequence[str], of_rows: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """The state of the GPU, then why no time is to be trusted, then why single ones are not; nothing off a GPU."""
    if conditions is None:
        return
    yield _state(conditions)
    yield from (f"not to be trusted: {doubt}" for doubt in doubts)
    for name, own in of_rows.items():
        yield from (f"not to be trusted: {name}: {doubt}" for doubt in own)


def _state(found: Conditions) -> str:
    if not found.readings:
        return f"clocks, power and temperature are not known: {found.unknown or 'there was no time for a reading'}"
    parts = [
        _range(readings, unit)
        for readings, unit in ((found.clock_mhz, "MHz"), (found.power_w, "W"), (found.temperature_c, "C"))
        if readings
    ]
    return f"during the timing: {', '.join(parts)}; median and range of {found.readings} readings"


def _range(found: Readings, unit: str) -> str:
    if found.least == found.largest:
        return f"{found.median:.0f} {unit}"
    return f"{found.median:.0f} {unit} ({found.least:.0f}..{found.largest:.0f})"
