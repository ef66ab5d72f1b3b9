"""The command tune: the fastest of all candidates that schedules allow, within a budget of time."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import click

from tilegen.cli.commands.shared import DEVICE, FIX, UNPROVED, shared_arguments_with_values, size_option, tilegen
from tilegen.cli.looks import printing, tune_printing
from tilegen.cli.shell import completion
from tilegen.cli.shell.arguments import Finite, parse_point
from tilegen.cli.shell.interrupt import INTERRUPTED
from tilegen.cli.shell.output import check_output
from tilegen.cli.shell.records import with_context
from tilegen.cli.shell.request import Request, Selection, select, suggested
from tilegen.errors import DeviceError, UsageError

if TYPE_CHECKING:
    from tilegen.tune.session import Session

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


@tilegen.command("tune")
@shared_arguments_with_values
@size_option("M=.. ...", "Sizes to time at.")
@FIX
@DEVICE
@UNPROVED
@click.option("--budget", default="10m", show_default=True, metavar="10m", help="How long to search: 30s, 10m, 2h.")
@click.option("--search", "kind", metavar="tpe|...", help="tpe, evolution, quasi-random (by Optuna), grid, or random.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    metavar="N",
    help="Of the search; one is drawn and printed if left out.",
)
@click.option("--gpus", default="0", show_default=True, metavar="all|0,1", help="The GPUs to time on.")
@click.option(
    "--machine",
    metavar="M",
    shell_complete=completion.machines,
    help="Whose roofline prunes, as for explain; the GPU's if left out.",
)
@click.option("--dask", metavar="ADDRESS", help="The scheduler of a Dask cluster, whose workers time.")
@click.option("--resume", metavar="F", help="The record to go on with, or to begin.")
@click.option(
    "--timeout",
    type=Finite(min=0.1),
    default=60.0,
    show_default=True,
    metavar="S",
    help="Seconds for one candidate.",
)
@click.option(
    "--memory",
    type=Finite(min=0.1),
    default=8.0,
    show_default=True,
    metavar="GB",
    help="Memory of each process.",
)
def tune_command(
    request: Request,
    fix: tuple[str, ...],
    device: str,
    unproved: bool,
    budget: str,
    kind: str | None,
    seed: int | None,
    gpus: str,
    machine: str | None,
    dask: str | None,
    resume: str | None,
    timeout: float,
    memory: float,
) -> int:
    """Search for the fastest schedule and parameters at given sizes.

    Candidates are TM=64 in {32, 64} of a schedule's head, or --set TM=32,64, as far as its `where` allows them.
    """
    from tilegen.lab.predict.machine import find_machine
    from tilegen.tune.session import Session, Wish
    from tilegen.tune.station import Limits

    ceilings = find_machine(machine) if machine else None
    limits = Limits(timeout, memory * 1e9)
    wish = Wish(parse_duration(budget), kind, seed, device, gpus, limits, ceilings, dask, unproved)
    selection, fixed = select(request), parse_point(fix, "--fix")
    if not selection.schedules:
        selection = _suggested(request, selection, fixed, machine)
    kernel = request.built_kernel(selection, fixed)
    request.check_sizes(kernel.ir)
    given = {name: values for name, values in request.settings.items() if name in selection.parameters}
    record = resume or _new_record(kernel.ir.name)
    check_output(record, None)
    context = with_context({})
    with Session(
        kernel, selection.schedules, record, given=given, sizes=request.sizes, wish=wish, context=context
    ) as session:
        tune_printing.print_beginning(session, resume is not None)
        stopped = _run(session)
    tune_printing.print_result(printing.console(), session)
    if request.json_file:
        printing.write_json(tune_printing.to_json(session, stopped), request.json_file)
    if stopped:
        print(f"interrupted; to go on: {_resuming(request, record)}", file=sys.stderr)
        return INTERRUPTED
    return 0 if session.tuning.best else DeviceError.exit_code


def _suggested(request: Request, selection: Selection, fixed: Mapping[str, int], machine: str | None) -> Selection:
    """What `suggest` writes for a kernel without schedules; --set may set its parameters."""
    attributes = {name: each for name, each in request.settings.items() if name in selection.attributes}
    built = replace(request, settings=attributes).built_kernel(selection, fixed)
    request.check_sizes(built.ir)
    file = suggested(request.file, built, machine, request.sizes).kernel.file
    print(f"{request.file} has no schedule: the candidates are of what tilegen suggest writes", file=sys.stderr)
    return Selection(file, built.ir.name, file.schedules)


def _run(session: Session) -> bool:
    """Runs the session; True if Ctrl-C ended it."""
    with printing.progress() as progress:
        try:
            session.run(lambda tuning: progress(*tune_printing.progress_of(tuning)))
        except KeyboardInterrupt:
            return True
    return False


def _new_record(kernel: str) -> str:
    """A name for a record in the current folder that no file has."""
    return f"tune-{kernel}-{datetime.now():%Y%m%d-%H%M%S}.jsonl"


def _resuming(request: Request, record: str) -> str:
    """The command that goes on with a record."""
    words = ["tilegen", *click.get_current_context().find_root().obj]
    if "--resume" not in words:
        words += ["--resume", record]
    return shlex.join(words)


def parse_duration(text: str) -> float:
    """Seconds of `30s`, `10m`, `2h` or `90`. Raises UsageError for anything else, and for none at all."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d+)?)([smh]?)", text)
    if not found:
        raise UsageError(f"--budget takes a time like 30s, 10m or 2h, not '{text}'")
    seconds = float(found[1]) * _UNITS[found[2]]
    if seconds <= 0:
        raise UsageError("a budget of 0 is none", notes=("--budget 10m searches for ten minutes",))
    return seconds
