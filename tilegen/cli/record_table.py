"""The command records: what is in a file of records, as a table, and as other tuners read it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from tilegen.cli import printing
from tilegen.cli.commands import tilegen
from tilegen.cli.output import METADATA, RESULTS, check_output, write
from tilegen.cli.replay import read_file_or_input
from tilegen.errors import UsageError

if TYPE_CHECKING:
    from tilegen.lab.records import RunRecord


@tilegen.command("records")
@click.argument("file")
@click.option("--best", type=click.IntRange(1), metavar="N", help="The N fastest alone.")
@click.option(
    "--t4", metavar="F", help="All of them in the format T4, which Kernel Tuner writes, into F; - for output."
)
@click.option("--t4-metadata", metavar="F", help="Hardware and software in the format T4 into F; - for output.")
def records_command(file: str, best: int | None, t4: str | None, t4_metadata: str | None) -> int:
    """Show the records of FILE: outcomes, times with their spreads, and what speaks against them."""
    from tilegen.lab import t4 as formats
    from tilegen.lab.record_files import read_records

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
        _show(found, best)
    return 0


def _show(found: Sequence[RunRecord], best: int | None) -> None:
    from tilegen.report.comparison import record_table

    shown = list(found)
    if best:
        shown = sorted((each for each in found if each.milliseconds), key=lambda each: each.milliseconds or 0.0)[:best]
    out, told = printing.console(), record_table(shown)
    table = Table(header_style="bold")
    heads = [head for head in told.heads if head]  # the last one, of remarks, has none: these stand below
    for head in heads:
        table.add_column(head, justify="left" if head in ("name", "outcome", "proof") else "right")
    for row in told.rows:
        table.add_row(*map(Text, row[: len(heads)]))
    remarks = [f"{row[0]}: {row[-1]}" for row in told.rows if len(heads) < len(row) and row[-1]]
    first = found[0]
    sizes = " ".join(f"{name}={value}" for name, value in first.sizes.items())
    device = f"  on {first.device.name}" if first.device else ""
    out.print(f"{first.kernel}  {sizes}{device}, {first.date}", style="bold")
    out.print(table)
    counts = Counter(each.outcome for each in found)
    out.print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    for line in (*remarks, *told.notes):
        out.print(line, soft_wrap=True)
