"""The rows of comparisons: where each comes from, and the record that it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tilegen import api
from tilegen.cli import printing
from tilegen.cli.interrupt import run_interruptibly
from tilegen.cli.records import command_line
from tilegen.cli.request import Attempt
from tilegen.errors import TilegenError
from tilegen.ir.nodes import Tree

if TYPE_CHECKING:
    from tilegen.backends.engine import Engine
    from tilegen.lab.compare import Comparison, Row
    from tilegen.lab.records import Device, RunRecord


@dataclass(frozen=True)
class Entry:
    """A row to be: a schedule of a file, which messages call `source`, with values for its parameters."""

    file: str
    source: str
    attempt: Attempt

    @property
    def applied(self) -> api.Scheduled | None:
        """None where it cannot be applied."""
        return None if isinstance(self.attempt.result, TilegenError) else self.attempt.result

    @property
    def tree(self) -> Tree | TilegenError:
        """The tree, or why there is none."""
        return self.attempt.result if isinstance(self.attempt.result, TilegenError) else self.attempt.result.tree


def entry_of(record: RunRecord, file: str | None = None) -> Entry:
    """A row of a record's own text. Raises TilegenError where that has no such kernel any more."""
    own = api.from_text(record.text or "", f"<record of {record.name}>", cache=False)
    kernel = own.kernel(record.kernel, **record.constants)
    result: api.Scheduled | TilegenError
    try:
        result = kernel.schedule(record.schedule, **record.parameters)
    except TilegenError as error:
        result = error
    attempt = Attempt(record.schedule or "unscheduled", dict(record.parameters), kernel, result)
    return Entry(file or record.file or record.name, own.source.name, attempt)


def run_comparison(
    entries: Mapping[str, Entry], runs_on: Engine, sizes: Mapping[str, int], **options: Any
) -> tuple[Comparison, bool]:
    """The comparison of the rows, and whether someone has interrupted it; `options` are those of a ComparisonRun."""
    from tilegen.lab.compare import ComparisonRun

    stopped = False
    with printing.progress() as progress:
        run = ComparisonRun({n: each.tree for n, each in entries.items()}, runs_on, sizes, progress, **options)
        printing.print_note(run.outlook)
        try:
            run_interruptibly(run.run)
        except KeyboardInterrupt:
            stopped = True
    return run.result(), stopped


def to_json(result: Comparison, entries: Mapping[str, Entry], runs_on: Engine) -> dict[str, Any]:
    """The comparison with its rows as records, and with what else a row says."""
    from tilegen.lab.records import to_dict

    rows = [
        {**to_dict(record), "dependent": row.dependent}
        for record, row in zip(records_of(result, entries, runs_on), result.rows, strict=True)
    ]
    return {**asdict(result), "rows": rows}


def records_of(result: Comparison, entries: Mapping[str, Entry], runs_on: Engine) -> list[RunRecord]:
    """A record for each row of a comparison; `entries` by the names of the rows, without those of libraries."""
    from tilegen.lab.conditions import compiler_name, device_of

    shared = (result, device_of(runs_on), compiler_name())
    return [_record(row, entries.get(row.name), *shared) for row in result.rows]


def _record(row: Row, entry: Entry | None, result: Comparison, device: Device, compiler: str | None) -> RunRecord:
    """The record of a row; of a library's one without an entry."""
    from tilegen.lab.records import RunRecord
    from tilegen.lab.timing import SEED

    own: dict[str, Any] = {"notes": {"beside": result.beside}}
    predicted = {"predicted": row.predicted, "limit": row.limit, "machine": result.machine and result.machine.name}
    if entry:
        tried = entry.attempt
        own = {
            "text": tried.written,
            "file": entry.file,
            "schedule": tried.name if tried.name != "unscheduled" else None,
            "parameters": dict(entry.applied.core.parameters if entry.applied else tried.given),
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
        kernel=tried.kernel.ir.name if entry else result.kernel,
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
