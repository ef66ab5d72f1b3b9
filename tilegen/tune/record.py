"""The lines of a run's record: its head, then a record for each candidate; and outcomes read from them again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tilegen.errors import UsageError
from tilegen.ir.nodes import Kernel
from tilegen.lab.choice.tuned import TOGETHER
from tilegen.lab.counts.metric import rate, unit
from tilegen.lab.measure.conditions import compiler_name
from tilegen.lab.measure.timing import summarise
from tilegen.lab.measure.trust import doubts_of_conditions, doubts_of_samples
from tilegen.lab.records.records import SCHEMA, Device, RunRecord, to_dict
from tilegen.tune.journal import Journal
from tilegen.tune.space import Candidate, Space
from tilegen.tune.task import Outcome, Task

HEAD = "tilegen.tune/1"
_BUILT = ("launches", "registers", "shared", "spills")


def head_line(task: Task, device: Device, space: Space, context: Mapping[str, Any]) -> dict[str, Any]:
    """What all candidates share; `context` says which command began it, and when."""
    return {
        "schema": HEAD,
        **context,
        "kernel": task.kernel,
        "texts": dict(task.texts),
        "given": {name: list(values) for name, values in space.given.items()},
        "constants": dict(task.values),
        "sizes": dict(task.sizes),
        "device": device.name,
        "on_gpu": device.on_gpu,
    }


def result_line(
    outcome: Outcome, task: Task, device: Device, kernel: Kernel, command: str | None, together: bool = False
) -> dict[str, Any]:
    """What became of a candidate as a record; `together` says that its samples were taken in turns with others."""
    candidate, constants = outcome.candidate, dict(task.values)
    shown = unit(kernel, task.sizes, device.on_gpu)
    time = summarise(outcome.samples) if outcome.samples else None
    found = RunRecord(
        str(candidate),
        task.kernel,
        outcome.state,
        {**{n: int(v) for n, v in constants.items() if n in kernel.sizes}, **task.sizes},
        text=task.texts[candidate.schedule],
        schedule=candidate.schedule,
        parameters=dict(candidate.parameters),
        constants=constants,
        error=outcome.message or None,
        proof="proved" if outcome.samples and not task.unproved else None,  # no other text is compiled
        trials=tuple(outcome.checks),
        arch=task.arch,
        **outcome.built,
        device=device,
        compiler=compiler_name() if device.on_gpu else None,
        conditions=outcome.conditions,
        samples=outcome.samples,
        time=asdict(time) if time else None,
        rate=rate(kernel, task.sizes, time.median, shown) if time else None,
        unit=shown if time else None,
        doubts=(*doubts_of_samples(outcome.samples), *doubts_of_conditions(outcome.conditions, 0.0)),
        seconds=dict(outcome.seconds),
        notes={"predicted": outcome.predicted, TOGETHER: together, **_ranked_by(outcome, task)},
        command=command,
    )
    return to_dict(found)


def _ranked_by(outcome: Outcome, task: Task) -> dict[str, Any]:
    """Where nothing is timed, for which machine it is predicted."""
    return {"machine": task.machine.name, "modelled": outcome.modelled} if task.predicts and task.machine else {}


def check_head(journal: Journal, head: Mapping[str, Any]) -> None:
    """Raises UsageError where the journal is of another kernel, of other schedules, sizes or another device."""
    first = journal.lines[0]
    for name in ("kernel", "constants", "sizes", "device", "texts"):
        if first.get(name) == head[name]:
            continue
        if name == "texts":
            raise UsageError(f"{journal.path} is the record of a run with other texts of the kernel or its schedules")
        notes = (f"there: {_value_text(first.get(name))}", f"here: {_value_text(head[name])}")
        raise UsageError(f"{journal.path} is the record of a run with {_WORDS[name]}", notes=notes)


_WORDS = {
    "kernel": "another kernel",
    "constants": "other constants",
    "sizes": "other sizes",
    "device": "another device",
}


def _value_text(value: Any) -> str:
    return " ".join(f"{n}={v}" for n, v in value.items()) or "none" if isinstance(value, dict) else str(value)


def outcomes_of(lines: Sequence[Mapping[str, Any]], space: Space) -> Iterator[Outcome]:
    """The outcomes in the lines of a record, as far as they are of candidates of the space."""
    for line in lines:
        notes = line.get("notes", {})
        if line.get("schema") != SCHEMA or notes.get(TOGETHER):
            continue
        candidate = Candidate(line["schedule"], tuple(line["parameters"].items()))
        if space.allows(candidate):
            samples, checks = tuple(line["samples"]), tuple(line["trials"])
            fields = (line["outcome"], line["error"] or "", samples, notes.get("predicted"), line["seconds"], checks)
            built = {name: line[name] for name in _BUILT if line.get(name) is not None}
            yield Outcome(candidate, *fields, built=built, modelled=notes.get("modelled"))
