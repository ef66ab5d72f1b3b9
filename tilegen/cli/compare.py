"""The command compare: schedules of one kernel side by side, each checked first."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace

import click

from tilegen.cli import printing
from tilegen.cli.arguments import parse_numbers
from tilegen.cli.commands import DEVICE, FIX, UNPROVED, shared_arguments, tilegen
from tilegen.cli.interrupt import INTERRUPTED, run_interruptibly
from tilegen.cli.request import Request
from tilegen.errors import TilegenError


@tilegen.command("compare")
@shared_arguments
@click.option("--size", "sizes", multiple=True, metavar="M=.. ...", help="Sizes to time at.")
@FIX
@DEVICE
@UNPROVED
@click.option(
    "--steady", type=click.FloatRange(0, 60), default=0.0, metavar="S", help="Samples of S seconds, without a pause."
)
def compare_command(request: Request, fix: tuple[str, ...], device: str, unproved: bool, steady: float) -> int:
    """Check several schedules of one kernel, then time them side by side."""
    from tilegen.backends.devices import engine
    from tilegen.lab.compare import ComparisonRun

    given, fixed = request.sizes, parse_numbers(fix, "--fix")
    wanted = request.attempts(fixed)
    trees = {name: each if isinstance(each, TilegenError) else each.tree for name, each in wanted.items()}
    request.check_sizes(next(tree.kernel for tree in trees.values() if not isinstance(tree, TilegenError)))
    stopped = False
    with printing.progress() as progress:
        comparison_run = ComparisonRun(trees, engine(device), given, progress, unproved=unproved, steady=steady)
        printing.print_note(comparison_run.outlook)
        try:
            run_interruptibly(comparison_run.run)
        except KeyboardInterrupt:
            stopped = True
    result = comparison_run.result()
    result = replace(result, sizes={**fixed, **result.sizes})
    if request.json_file:
        printing.write_json(asdict(result), request.json_file)
    if request.json_file != "-":
        printing.comparison(printing.console(), result)
    if stopped:
        print("interrupted: these are the rows so far", file=sys.stderr)
        return INTERRUPTED
    return max((row.exit_code for row in result.rows), default=0)
