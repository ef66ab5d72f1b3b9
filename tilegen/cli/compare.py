"""The command compare: schedules of one kernel side by side, each checked first."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import click

from tilegen import api
from tilegen.cli import printing
from tilegen.cli.arguments import parse_numbers
from tilegen.cli.commands import DEVICE, FIX, UNPROVED, shared_arguments_of_files, size_option, tilegen
from tilegen.cli.interrupt import INTERRUPTED, run_interruptibly
from tilegen.cli.request import Request, select
from tilegen.cli.rows import Entry, to_json
from tilegen.errors import TilegenError, UsageError, join_errors
from tilegen.ir.alike import find_difference
from tilegen.ir.nodes import Tree


@tilegen.command("compare")
@shared_arguments_of_files
@size_option("M=.. ...", "Sizes to time at.")
@FIX
@DEVICE
@UNPROVED
@click.option(
    "--steady", type=click.FloatRange(0, 60), default=0.0, metavar="S", help="Samples of S seconds, without a pause."
)
def compare_command(
    requests: Sequence[Request], fix: tuple[str, ...], device: str, unproved: bool, steady: float
) -> int:
    """Check several schedules of one kernel, of one FILE or of several, then time them side by side.

    --set TS=16,32 gives a row for each value.
    """
    from tilegen.backends.devices import engine
    from tilegen.lab.compare import ComparisonRun

    fixed, (first, *_) = parse_numbers(fix, "--fix"), requests
    entries = _entries(requests, fixed)
    trees = {name: _tree(entry.attempt.result) for name, entry in entries.items()}
    first.check_sizes(next(e.applied.kernel for e in entries.values() if e.applied))
    runs_on, stopped = engine(device), False
    with printing.progress() as progress:
        comparison_run = ComparisonRun(trees, runs_on, first.sizes, progress, unproved=unproved, steady=steady)
        printing.print_note(comparison_run.outlook)
        try:
            run_interruptibly(comparison_run.run)
        except KeyboardInterrupt:
            stopped = True
    result = comparison_run.result()
    result = replace(result, sizes={**fixed, **result.sizes})
    if first.json_file:
        printing.write_json({**to_json(result, entries, runs_on), "interrupted": stopped}, first.json_file)
    if first.json_file != "-":
        printing.comparison(printing.console(), result)
    if stopped:
        print("interrupted: these are the rows so far", file=sys.stderr)
        return INTERRUPTED
    return max((row.exit_code for row in result.rows), default=0)


def _tree(result: api.Scheduled | TilegenError) -> Tree | TilegenError:
    return result if isinstance(result, TilegenError) else result.tree


def _entries(requests: Sequence[Request], fixed: Mapping[str, int]) -> dict[str, Entry]:
    """The rows by their names.

    Raises:
        UsageError: they are not of one kernel. Another TilegenError where none can be applied, which says why.
    """
    own = _own_settings(_own_kernels(requests))
    found = [Entry(r.file, r.load().source.name, attempt) for r in own for attempt in r.tried(fixed)]
    applied = [entry for entry in found if entry.applied]
    if not applied:
        raise join_errors([e.attempt.result for e in found if isinstance(e.attempt.result, TilegenError)])
    for entry in applied[1:]:
        _check_kernels(applied[0], entry)
    varied = {n for r in requests for n, values in r.settings.items() if len(values) > 1}
    files = len({entry.file for entry in found}) > 1
    return {_name(entry, varied, with_file=files): entry for entry in found}


def _own_kernels(requests: Sequence[Request]) -> Sequence[Request]:
    """The requests, where some file has the kernel of --kernel without that for the files that do not have it."""
    there = [request.kernel in request.load().kernels for request in requests]
    if not any(there):
        return requests
    return [r if known else replace(r, kernel=None) for r, known in zip(requests, there, strict=True)]


def _own_settings(requests: Sequence[Request]) -> list[Request]:
    """The requests, each with those settings that it knows, and with those that none knows, for it to say so."""
    known = [{*(s := select(request)).attributes, *s.parameters} for request in requests]
    return [
        replace(r, settings={n: v for n, v in r.settings.items() if n in own or not any(n in k for k in known)})
        for r, own in zip(requests, known, strict=True)
    ]


def _check_kernels(one: Entry, other: Entry) -> None:
    """Raises UsageError where two schedules are not of kernels that compute the same."""
    assert one.applied
    assert other.applied
    difference = find_difference(one.applied.kernel.written_kernel, other.applied.kernel.written_kernel)
    if difference:
        names = [f"'{e.applied.kernel.name}' of {e.source}" for e in (one, other) if e.applied]
        notes = (difference, "a table has rows of one kernel; its name and those of its loops may differ")
        raise UsageError(f"the kernels {' and '.join(names)} are not the same", notes=notes)


def _name(entry: Entry, varied: set[str], with_file: bool) -> str:
    file = f"{entry.file}:" if with_file else ""
    values = [f" {name}={value}" for name, value in entry.attempt.given.items() if name in varied]
    return f"{file}{entry.attempt.name}{''.join(values)}"
