"""Records as Kernel Tuner and other tuners exchange results: the open schemas for tuning, called T4, version 1.0.0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilegen.lab.records.records import Outcome, RunRecord

VERSION = "1.0.0"
_INVALIDITY: Mapping[Outcome, str] = {
    "measured": "correct",
    "illegal": "constraints",
    "limits": "constraints",
    "unproved": "constraints",
    "roofline": "constraints",
    "refused": "compile",
    "wrong": "correctness",
    "fault": "runtime",
    "memory": "runtime",
    "killed": "runtime",
    "time": "timeout",
}


def t4_results(records: Sequence[RunRecord]) -> dict[str, Any]:
    """The results file of records: of all but libraries' calls and of what was not tried to the end.

    Times are in milliseconds, as Kernel Tuner writes them. A configuration is the schedule, the sizes, the kernel's
    attributes and the schedule's parameters.
    """
    rows = [_result(each) for each in records if each.text is not None and each.outcome in _INVALIDITY]
    return {"schema_version": VERSION, "results": rows}


def t4_metadata(records: Sequence[RunRecord]) -> dict[str, Any]:
    """The metadata file of records: hardware and software of the first, and what was run."""
    first = records[0]
    device, facts = first.device, dict(first.device.facts) if first.device else {}
    software = [f"tilegen=={first.tilegen}"]
    software += [f"{name}=={facts[name]}" for name in ("cupy-cuda13x", "cupy-cuda12x", "pyopencl") if name in facts]
    described = [{"name": device.name, "architecture": device.arch}] if device else []
    return {
        "schema_version": VERSION,
        "metadata": {
            "hardware": {"hardware_description": described, "operating_system": str(facts.get("platform", ""))},
            "environment": {"device_query": facts, "requirements": software},
        },
    }


def _result(record: RunRecord) -> dict[str, Any]:
    seconds = record.seconds
    return {
        "timestamp": record.date,
        "configuration": {
            "schedule": record.schedule or "unscheduled",
            **record.sizes,
            **record.constants,
            **record.parameters,
        },
        "objectives": ["time"],
        "times": {
            "compilation_time": 1e3 * seconds.get("compile", 0.0),
            "framework": 1e3 * (seconds.get("judge", 0.0) + seconds.get("predict", 0.0)),
            "search_algorithm": 1e3 * seconds.get("search", 0.0),
            "validation": 1e3 * seconds.get("check", 0.0),
            "runtimes": list(record.samples),
        },
        "invalidity": _INVALIDITY[record.outcome],
        "correctness": 1 if record.outcome == "measured" else 0,
        "measurements": list(_measurements(record)),
    }


def _measurements(record: RunRecord) -> Iterator[dict[str, Any]]:
    conditions = record.conditions
    found = [
        ("time", record.milliseconds, "ms"),
        ("rate", record.rate, record.unit or ""),
        ("registers", record.registers, ""),
        ("shared memory", record.shared, "B"),
        ("spills", record.spills, "B"),
        ("power", conditions.power_w.median if conditions and conditions.power_w else None, "W"),
        ("clock", conditions.clock_mhz.median if conditions and conditions.clock_mhz else None, "MHz"),
    ]
    yield from ({"name": name, "value": value, "unit": unit} for name, value, unit in found if value is not None)
