"""The command report: what is known of schedules, as one page that opens offline."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilegen.cli.commands.plot import read_measurements
from tilegen.cli.commands.shared import FIX, MACHINE, UNPROVED, shared_arguments, size_option, tilegen
from tilegen.cli.looks import printing
from tilegen.cli.shell.arguments import parse_point
from tilegen.cli.shell.interrupt import run_interruptibly
from tilegen.cli.shell.output import PAGE, check_output, write
from tilegen.cli.shell.request import Request
from tilegen.errors import UsageError
from tilegen.schedule import Derivation

if TYPE_CHECKING:
    from tilegen.report import Study


@tilegen.command("report")
@shared_arguments
@size_option("M=.. ...", "Sizes to count at.")
@FIX
@MACHINE
@click.option("-o", "output", metavar="F.html", default="report.html", show_default=True, help="The page to write.")
@click.option(
    "--measured", multiple=True, metavar="F.json", help="What ladder, compare or tune have written, to show beside it."
)
@click.option("--no-compile", is_flag=True, help="Leave the compiler out: fast, but no machine code and no registers.")
@UNPROVED
def report_command(
    request: Request,
    fix: tuple[str, ...],
    machine: str | None,
    output: str,
    measured: tuple[str, ...],
    no_compile: bool,
    unproved: bool,
) -> int:
    """Write one HTML page of schedules, without a GPU: trees, CUDA beside machine code, banks, roofline."""
    from tilegen.lab.checks.sizes import GPU_LIMITS, power_sizes
    from tilegen.lab.predict.machine import find_machine
    from tilegen.report import LIBRARIES, report, require, study_of

    if request.json_file:
        raise UsageError("report writes a page, and no JSON", notes=("explain --json has the figures",))
    check_output(output, PAGE)
    require(*LIBRARIES)
    found = [read_measurements(path) for path in measured]
    ceilings = find_machine(machine)
    scheduled = list(request.schedules(parse_point(fix, "--fix")).values())
    kernel = scheduled[0].kernel
    counted = power_sizes(kernel, request.sizes, GPU_LIMITS)
    with printing.progress() as progress:

        def study(each: Derivation) -> Study:
            options = {"compiled": not no_compile, "unproved": unproved}
            return study_of(each, counted, machine=ceilings, progress=progress, **options)

        studies = run_interruptibly(lambda: [study(each.core) for each in scheduled])
    words = click.get_current_context().find_root().obj
    text = report(studies, found, shlex.join(["tilegen", *words]) if words else "")
    write(text, output, PAGE)
    if output != "-":
        print(f"{output}: {len(text.encode()) / 1e6:.2g} MB; opens in a browser: {Path(output).resolve().as_uri()}")
    for explanation in (study.explanation for study in studies):
        if error := explanation.steps[-1].error:
            print(f"{explanation.schedule} cannot be launched: {error}", file=sys.stderr)
    return max(study.explanation.steps[-1].exit_code for study in studies)
