"""What commands write as JSON: where a result comes from, and the rows of comparisons as records."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from tilegen import api
from tilegen.cli.shell.request import Attempt, attempt
from tilegen.version import __version__

if TYPE_CHECKING:
    from tilegen.backends.calls.engine import Engine
    from tilegen.lab.measure.compare import Comparison, Row
    from tilegen.lab.records.records import Device, RunRecord


def with_context(value: Any) -> Any:
    """A record with its schema, the version of tilegen, the command line, and the time; each, where there are several.

    What has a schema of its own keeps it.
    """
    date = datetime.now(UTC).isoformat(timespec="seconds")
    added = {"schema": schema_here(), "tilegen": __version__, "command": command_line(), "date": date}
    if isinstance(value, list):
        return [{**added, **each} if isinstance(each, dict) else each for each in value]
    return {**added, **value} if isinstance(value, dict) else value


def schema_here() -> str | None:
    """The schema of what the command writes that runs; None where none does."""
    context = click.get_current_context(silent=True)
    return f"tilegen.{'.'.join(_words(context))}/1" if context else None


def command_line() -> str | None:
    """The command that runs, as a shell takes it; None where none does."""
    context = click.get_current_context(silent=True)
    words = context.find_root().obj if context else None
    return shlex.join(["tilegen", *words]) if words else None


def _words(context: click.Context) -> list[str]:
    """The words of a command below tilegen's own: cache info."""
    above = _words(context.parent) if context.parent else []
    return [*above, str(context.info_name)] if context.parent else []


def origin_of(scheduled: api.Scheduled) -> dict[str, Any]:
    """The schedule, the values of its parameters, and a text of it with its kernel that needs no other text."""
    core = scheduled.core
    return {"schedule": core.name, "parameters": dict(core.parameters), "written": scheduled.to_text()}


def environment_of(engine: Engine) -> dict[str, Any]:
    """The device that something ran on, the compiler of CUDA texts, and the seed of random inputs."""
    from tilegen.lab.measure.conditions import compiler_name, device_of
    from tilegen.lab.measure.timing import SEED

    return {"environment": {**asdict(device_of(engine)), "compiler": compiler_name()}, "seed": SEED}


# -- rows of comparisons


def attempt_of(record: RunRecord, file: str | None = None) -> Attempt:
    """A row of a record's own text. Raises TilegenError where that has no such kernel any more."""
    own = api.from_text(record.text or "", f"<record of {record.name}>", cache=False)
    kernel = own.kernel(record.kernel, **record.constants)
    return attempt(file or record.file or record.name, kernel, record.schedule, dict(record.parameters))


def comparison_json(result: Comparison, rows: Mapping[str, Attempt], runs_on: Engine) -> dict[str, Any]:
    """The comparison with its rows as records, and with what else a row says."""
    from tilegen.lab.records.records import to_dict

    pairs = zip(records_of(result, rows, runs_on), result.rows, strict=True)
    return {**asdict(result), "rows": [{**to_dict(record), "dependent": row.dependent} for record, row in pairs]}


def records_of(result: Comparison, rows: Mapping[str, Attempt], runs_on: Engine) -> list[RunRecord]:
    """A record for each row of a comparison; `rows` by their names, without those of libraries."""
    from tilegen.lab.measure.conditions import compiler_name, device_of

    shared = (result, device_of(runs_on), compiler_name())
    return [_record(row, rows.get(row.name), *shared) for row in result.rows]


def _record(row: Row, tried: Attempt | None, result: Comparison, device: Device, compiler: str | None) -> RunRecord:
    """The record of a row; of a library's one nothing was `tried`."""
    from tilegen.lab.measure.timing import SEED
    from tilegen.lab.records.records import RunRecord

    own: dict[str, Any] = {"notes": {"beside": result.beside}}
    predicted = {"predicted": row.predicted, "limit": row.limit, "machine": result.machine and result.machine.name}
    if tried:
        own = {
            "text": tried.written,
            "file": tried.file,
            "schedule": tried.schedule,
            "parameters": dict(tried.applied.core.parameters if tried.applied else tried.given),
            "constants": dict(tried.kernel.values),
            "compiler": compiler,
            "arch": result.arch,
            "notes": predicted if result.machine else {},
        }
    if row.accuracy:
        own["notes"] = {**own.get("notes", {}), "errors": asdict(row.accuracy)}
    same = ("name", "outcome", "error", "exit_code", "proof", "launches", "registers", "shared", "spills", "samples")
    return RunRecord(
        **{name: getattr(row, name) for name in same},
        **own,
        kernel=tried.kernel.ir.name if tried else result.kernel,
        sizes=dict(result.sizes),
        trials=tuple(asdict(trial) for trial in row.trials),
        device=device,
        conditions=result.conditions if row.samples else None,
        seed=SEED,
        steady=result.steady,
        time=asdict(row.time) if row.time else None,
        rate=row.rate if row.samples else None,
        unit=result.unit if row.samples else None,
        doubts=(*row.doubts, *(result.doubts if row.samples else ())),
        command=command_line(),
    )
