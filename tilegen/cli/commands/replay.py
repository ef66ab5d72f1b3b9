"""The commands records and replay: what is in a file of records, and its schedules run again from that alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from tilegen.cli.commands.compare import run_comparison
from tilegen.cli.commands.shared import DEVICE, UNPROVED, tilegen
from tilegen.cli.looks import printing
from tilegen.cli.looks.trust import trust_lines
from tilegen.cli.shell.interrupt import exit_code
from tilegen.cli.shell.output import JSON, METADATA, RESULTS, check_output, write
from tilegen.cli.shell.records import attempt_of, records_of
from tilegen.cli.shell.request import Attempt
from tilegen.cli.shell.streams import read_input
from tilegen.errors import TilegenError, UsageError, join_errors
from tilegen.frontend.files import read_text
from tilegen.ir.printing.shown import size_words

if TYPE_CHECKING:
    from tilegen.backends.calls.engine import Engine
    from tilegen.lab.measure.compare import Comparison
    from tilegen.lab.measure.replay import Replayed
    from tilegen.lab.records.records import RunRecord

    Recorded = tuple[RunRecord, Attempt]  # a record, and the row that its text makes


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
    from tilegen.backends.devices.devices import engine
    from tilegen.lab.measure.replay import choose, require_device
    from tilegen.lab.records.records import read_records, to_dict

    check_output(json_file, JSON)
    recorded = read_records(read_file_or_input(file), file)
    chosen = [(record, attempt_of(record)) for record in choose(recorded, names, best)]
    runs_on, found, stopped = engine(device), list["Replayed"](), False
    rivals = [each for each in recorded if each.text is None]
    for record, _ in chosen:
        require_device(record, device, on_gpu=runs_on.on_gpu)
    for group in _groups(chosen):
        again, result, stopped = _run_again(group, rivals, runs_on, unproved)
        found += again
        if json_file != "-":
            _show(printing.console(), again, result)
        if stopped:
            break
    if json_file:
        rows = [to_dict(each.now) for each in found]
        printing.write_json({"rows": rows, "differences": [*map(_to_json, found)], "interrupted": stopped}, json_file)
    return exit_code((each.now.exit_code for each in found), "rows", stopped=stopped)


def read_file_or_input(file: str) -> str:
    """The text of a file, or of standard input for "-". Raises UsageError where there is none."""
    return read_input() if file == "-" else read_text(file)


def _groups(chosen: Sequence[Recorded]) -> list[list[Recorded]]:
    """What one table has: records of one kernel, at the same sizes, timed or predicted in the same way."""
    groups: list[list[Recorded]] = []
    for record, tried in chosen:
        for group in groups:
            first, kernel = group[0][0], group[0][1].kernel.ir
            if _way_of(first) == _way_of(record) and kernel == tried.kernel.ir:
                group.append((record, tried))
                break
        else:
            groups.append([(record, tried)])
    return groups


def _way_of(record: RunRecord) -> object:
    return record.sizes, record.steady, record.notes.get("machine")


def _run_again(
    group: Sequence[Recorded], rivals: Sequence[RunRecord], runs_on: Engine, unproved: bool
) -> tuple[list[Replayed], Comparison, bool]:
    """(pairs, the comparison, it was interrupted) of a group; of a library's call, too.

    Raises a TilegenError where no schedule of the group can be applied any more.
    """
    from tilegen.lab.measure.replay import find_pair, machine_of

    first, kernel = group[0][0], group[0][1].kernel.ir
    tried = {record.name: each for record, each in group}
    errors = [each.result for each in tried.values() if isinstance(each.result, TilegenError)]
    if len(errors) == len(tried):
        raise join_errors(errors)
    sizes = {name: value for name, value in first.sizes.items() if name in kernel.sizes}
    options: dict[str, Any] = {"unproved": unproved, "steady": first.steady, "machine": machine_of(first)}
    result, stopped = run_comparison(tried, runs_on, sizes, **options)
    now = {record.name: record for record in records_of(result, tried, runs_on)}
    same = [each for each in rivals if each.name in now and _way_of(each) == _way_of(first)]
    return [find_pair(then, now[then.name]) for then in (*(record for record, _ in group), *same)], result, stopped


# -- what is shown


def _show(out: printing.Terminal, found: Sequence[Replayed], result: Comparison) -> None:
    from tilegen.lab.measure.replay import find_surroundings
    from tilegen.lab.measure.timing import CPU_NOTE

    first = found[0].then
    out.print(f"{first.kernel}  {size_words(first.sizes)}  {result.place}", style="bold")
    out.print(_table(found))
    around = dict.fromkeys(line for each in found for line in find_surroundings(each.then, each.now))
    out.say(*around)
    if any(line.startswith("device: ") for line in around):
        out.print("times on two devices are no repetition of each other")
    for each in found if result.on_gpu else ():
        out.say(*(f"not to be trusted then: {each.then.name}: {line}" for line in each.then.doubts))
    if not result.on_gpu and not result.machine:
        out.print(CPU_NOTE)
    out.say(*trust_lines(result.conditions, result.doubts, {row.name: row.doubts for row in result.rows}))
    for each in found:
        if each.now.error and each.now.error != each.then.error:
            out.say(f"\n{each.now.name}: {each.now.error}", style="red")


def _table(found: Sequence[Replayed]) -> Table:
    from tilegen.lab.measure.replay import time_of
    from tilegen.lab.measure.timing import cells_of_time

    heads, rows = ("record", "ms then", "p20..p80", "ms now", "p20..p80", "now / then", "what differs"), []
    for each in found:
        ratio = "" if each.ratio is None else f"{each.ratio:.3f}"
        what = "; ".join(filter(None, [each.verdict, *each.changes])) or "nothing"
        times = (cells_of_time(time_of(record), None)[:2] for record in (each.then, each.now))
        rows.append((each.then.name, *chain(*times), ratio, what))
    left = ("record", "what differs")
    return printing.table(heads, rows, left, columns={"what differs": {"overflow": "fold"}})


def _to_json(each: Replayed) -> dict[str, object]:
    from tilegen.lab.measure.replay import find_surroundings

    return {
        "name": each.then.name,
        "ratio": each.ratio,
        "apart": each.apart,
        "verdict": each.verdict,
        "changes": list(each.changes),
        "surroundings": list(find_surroundings(each.then, each.now)),
    }


# -- the command records


@tilegen.command("records")
@click.argument("file")
@click.option("--best", type=click.IntRange(1), metavar="N", help="The N fastest alone.")
@click.option(
    "--t4", metavar="F", help="All of them in the format T4, which Kernel Tuner writes, into F; - for output."
)
@click.option("--t4-metadata", metavar="F", help="Hardware and software in the format T4 into F; - for output.")
def records_command(file: str, best: int | None, t4: str | None, t4_metadata: str | None) -> int:
    """Show the records of FILE: outcomes, times with their spreads, and what speaks against them."""
    from tilegen.lab.records import t4 as formats
    from tilegen.lab.records.records import read_records

    wanted = ((t4, RESULTS, formats.t4_results), (t4_metadata, METADATA, formats.t4_metadata))
    for path, kind, _ in wanted:
        check_output(path, kind)
    if t4 == t4_metadata == "-":
        raise UsageError("standard output takes one of --t4 and --t4-metadata")
    found = read_records(read_file_or_input(file), file)
    for path, kind, make in wanted:
        if path:
            write(json.dumps(make(found), indent=2) + "\n", path, kind)
    if not (t4 or t4_metadata):
        _show_records(found, best)
    return 0


def _show_records(found: Sequence[RunRecord], best: int | None) -> None:
    from tilegen.report.comparison import record_table

    shown = list(found)
    if best:
        shown = sorted((each for each in found if each.milliseconds), key=lambda each: each.milliseconds or 0.0)[:best]
    out, records = printing.console(), record_table(shown)
    heads = [head for head in records.heads if head]  # the last one, of remarks, has none: these stand below
    several = len({size_words(each.sizes) for each in shown}) > 1
    places = [f" at {size_words(each.sizes)}" if several else "" for each in shown]
    rows = zip(records.rows, places, strict=True)
    remarks = [f"{row[0]}{place}: {row[-1]}" for row, place in rows if len(heads) < len(row) and row[-1]]
    first, sizes = found[0], size_words(found[0].sizes)
    device = f"  on {first.device.name}" if first.device else ""
    out.print(f"{first.kernel}  {sizes}{device}, {first.date}", style="bold")
    out.print(printing.table(heads, [row[: len(heads)] for row in records.rows], ("name", "outcome", "proof")))
    counts = Counter(each.outcome for each in found)
    out.print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    out.say(*remarks, *records.notes)
