"""The command replay: the schedules of records, run again from the records alone."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from tilegen import api
from tilegen.cli import printing
from tilegen.cli.commands import DEVICE, UNPROVED, tilegen
from tilegen.cli.interrupt import INTERRUPTED, run_interruptibly
from tilegen.cli.output import JSON, check_output
from tilegen.cli.request import Attempt
from tilegen.cli.rows import Entry, records_of
from tilegen.cli.streams import read_input
from tilegen.cli.trust import trust_lines
from tilegen.errors import TilegenError, join_errors
from tilegen.frontend.files import read_text
from tilegen.ir.nodes import Tree

if TYPE_CHECKING:
    from tilegen.backends.engine import Engine
    from tilegen.lab.compare import Comparison
    from tilegen.lab.records import RunRecord
    from tilegen.lab.replay import Replayed

    Recorded = tuple[RunRecord, Entry]  # a record, and the row that its text makes


@tilegen.command("replay")
@click.argument("file")
@click.option("--name", "names", multiple=True, metavar="ROW", help="The record of this name; may be given repeatedly.")
@click.option(
    "--best", type=click.IntRange(1), default=20, show_default=True, metavar="N", help="Of more, the N fastest."
)
@click.option("--json", "json_file", metavar="F", help="The new records as JSON into F; - for standard output.")
@DEVICE
@UNPROVED
def replay_command(
    file: str, names: Sequence[str], best: int, json_file: str | None, device: str, unproved: bool
) -> int:
    """Run again what the records of FILE are of, and say what differs by more than the spread.

    FILE is what `compare --json` wrote, or lines of records. The texts of kernel and schedules are those in it.
    """
    from tilegen.backends.devices import engine
    from tilegen.lab.record_files import read_records
    from tilegen.lab.records import to_dict
    from tilegen.lab.replay import choose, require_device

    check_output(json_file, JSON)
    recorded = read_records(read_file_or_input(file), file)
    entries = [(record, _entry(record)) for record in choose(recorded, names, best)]
    runs_on, found, stopped = engine(device), list["Replayed"](), False
    rivals = [each for each in recorded if each.text is None]
    for record, _ in entries:
        require_device(record, device, on_gpu=runs_on.on_gpu)
    for group in _groups(entries):
        again, result, stopped = _run_again(group, rivals, runs_on, unproved)
        found += again
        if json_file != "-":
            _show(printing.console(), again, result)
        if stopped:
            break
    if json_file:
        rows = [to_dict(each.now) for each in found]
        printing.write_json({"rows": rows, "differences": [*map(_to_json, found)], "interrupted": stopped}, json_file)
    if stopped:
        print("interrupted: these are the rows so far", file=sys.stderr)
        return INTERRUPTED
    return max((each.now.exit_code for each in found), default=0)


def read_file_or_input(file: str) -> str:
    """The text of a file, or of standard input for "-". Raises UsageError where there is none."""
    return read_input() if file == "-" else read_text(file)


def _groups(entries: Sequence[Recorded]) -> list[list[Recorded]]:
    """What one table has: records of one kernel, at the same sizes, timed or predicted in the same way."""
    groups: list[list[Recorded]] = []
    for record, entry in entries:
        for group in groups:
            first, kernel = group[0][0], group[0][1].attempt.kernel.ir
            if _way_of(first) == _way_of(record) and kernel == entry.attempt.kernel.ir:
                group.append((record, entry))
                break
        else:
            groups.append([(record, entry)])
    return groups


def _way_of(record: RunRecord) -> object:
    return record.sizes, record.steady, record.notes.get("machine")


def _run_again(
    group: Sequence[Recorded], rivals: Sequence[RunRecord], runs_on: Engine, unproved: bool
) -> tuple[list[Replayed], Comparison, bool]:
    """(pairs, the comparison, it was interrupted) of a group; of a library's call, too.

    Raises a TilegenError where no schedule of the group can be applied any more.
    """
    from tilegen.lab.compare import ComparisonRun
    from tilegen.lab.replay import find_pair, machine_of

    first, kernel = group[0][0], group[0][1].attempt.kernel.ir
    entries = {record.name: entry for record, entry in group}
    trees = {name: _tree(entry.attempt.result) for name, entry in entries.items()}
    errors = [each for each in trees.values() if isinstance(each, TilegenError)]
    if len(errors) == len(trees):
        raise join_errors(errors)
    sizes = {name: value for name, value in first.sizes.items() if name in kernel.sizes}
    machine, stopped = machine_of(first), False
    with printing.progress() as progress:
        options: dict[str, Any] = {"unproved": unproved, "steady": first.steady, "machine": machine}
        run = ComparisonRun(trees, runs_on, sizes, progress, **options)
        printing.print_note(run.outlook)
        try:
            run_interruptibly(run.run)
        except KeyboardInterrupt:
            stopped = True
    result = run.result()
    now = {record.name: record for record in records_of(result, entries, runs_on)}
    same = [each for each in rivals if each.name in now and _way_of(each) == _way_of(first)]
    return [find_pair(then, now[then.name]) for then in (*(record for record, _ in group), *same)], result, stopped


def _tree(result: api.Scheduled | TilegenError) -> Tree | TilegenError:
    return result if isinstance(result, TilegenError) else result.tree


def _entry(record: RunRecord) -> Entry:
    """A row of the record's own text. Raises TilegenError where that has no such kernel any more."""
    assert record.text is not None
    file = api.from_text(record.text, f"<record of {record.name}>", cache=False)
    kernel = file.kernel(record.kernel, **record.constants)
    result: api.Scheduled | TilegenError
    try:
        result = kernel.schedule(record.schedule, **record.parameters)
    except TilegenError as error:
        result = error
    attempt = Attempt(record.schedule or "unscheduled", dict(record.parameters), kernel, result)
    return Entry(record.file or record.name, file.source.name, attempt)


# -- what is shown


def _show(out: Console, found: Sequence[Replayed], result: Comparison) -> None:
    from tilegen.lab.replay import find_surroundings
    from tilegen.lab.timing import CPU_NOTE

    sizes = " ".join(f"{n}={v}" for n, v in found[0].then.sizes.items())
    out.print(f"{found[0].then.kernel}  {sizes}  {result.place}", style="bold")
    out.print(_table(found))
    around = dict.fromkeys(line for each in found for line in find_surroundings(each.then, each.now))
    for line in around:
        out.print(line, soft_wrap=True)
    if any(line.startswith("device: ") for line in around):
        out.print("times on two devices are no repetition of each other")
    for each in found if result.on_gpu else ():
        for line in each.then.doubts:
            out.print(f"not to be trusted then: {each.then.name}: {line}", soft_wrap=True)
    if not result.on_gpu and not result.machine:
        out.print(CPU_NOTE)
    for line in trust_lines(result.conditions, result.doubts, {row.name: row.doubts for row in result.rows}):
        out.print(line, soft_wrap=True)
    for each in found:
        if each.now.error and each.now.error != each.then.error:
            out.print(f"\n{each.now.name}: {each.now.error}", style="red", soft_wrap=True)


def _table(found: Sequence[Replayed]) -> Table:
    table = Table(header_style="bold")
    table.add_column("record")
    for name in ("ms then", "p20..p80", "ms now", "p20..p80", "now / then"):
        table.add_column(name, justify="right")
    table.add_column("what differs", overflow="fold")
    for each in found:
        ratio = "" if each.ratio is None else f"{each.ratio:.3f}"
        what = "; ".join(filter(None, [each.verdict, *each.changes])) or "nothing"
        table.add_row(each.then.name, *_times(each.then), *_times(each.now), ratio, what)
    return table


def _times(record: RunRecord) -> tuple[str, str]:
    from tilegen.lab.replay import time_of

    time = time_of(record)
    return ("", "") if time is None else (f"{time.median:.4g}", f"{time.p20:.4g}..{time.p80:.4g}")


def _to_json(each: Replayed) -> dict[str, object]:
    from tilegen.lab.replay import find_surroundings

    return {
        "name": each.then.name,
        "ratio": each.ratio,
        "apart": each.apart,
        "verdict": each.verdict,
        "changes": list(each.changes),
        "surroundings": list(find_surroundings(each.then, each.now)),
    }
