"""The command report: what is known of schedules, as one page that opens offline."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from tilegen.cli import printing
from tilegen.cli.commands import UNPROVED, shared_arguments, size_option, tilegen
from tilegen.cli.interrupt import run_interruptibly
from tilegen.cli.plot import read_measurements
from tilegen.cli.request import Request
from tilegen.errors import UsageError


@tilegen.command("report")
@shared_arguments
@size_option("M=.. ...", "Sizes to count at.")
@click.option("-o", "output", metavar="F.html", default="report.html", show_default=True, help="The page to write.")
@click.option(
    "--measured", multiple=True, metavar="F.json", help="What ladder, compare or tune have written, to show beside it."
)
@click.option("--no-compile", is_flag=True, help="Leave the compiler out: fast, but no machine code and no registers.")
@UNPROVED
def report_command(request: Request, output: str, measured: tuple[str, ...], no_compile: bool, unproved: bool) -> int:
    """Write one HTML page of schedules, without a GPU: trees, CUDA beside machine code, banks, roofline."""
    from tilegen.lab.cost import require_addressable
    from tilegen.lab.sizes import GPU_LIMITS, power_sizes
    from tilegen.report import LIBRARIES, report, require, study_of

    if request.json_file:
        raise UsageError("report writes a page, and no JSON", notes=("explain --json has the figures",))
    require(*LIBRARIES)
    found = [read_measurements(path) for path in measured]
    scheduled = list(request.schedules({}).values())
    kernel = scheduled[0].kernel
    request.check_sizes(kernel)
    counted = power_sizes(kernel, request.sizes, GPU_LIMITS)
    require_addressable(kernel, counted)
    with printing.progress() as progress:
        studies = run_interruptibly(
            lambda: [
                study_of(each.core, counted, compiled=not no_compile, unproved=unproved, progress=progress)
                for each in scheduled
            ]
        )
    words = click.get_current_context().find_root().obj
    text = report(studies, found, shlex.join(["tilegen", *words]) if words else "")
    printing.write(text, output)
    if output != "-":
        print(f"{output}: {len(text.encode()) / 1e6:.2g} MB; opens in a browser: {Path(output).resolve().as_uri()}")
    return 0
