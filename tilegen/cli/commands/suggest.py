"""The command suggest: a first schedule for a kernel, as a text."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from tilegen import api
from tilegen.cli.commands.files import write_new
from tilegen.cli.commands.shared import FILE, KERNEL, MACHINE, SETTINGS, size_option, tilegen
from tilegen.cli.commands.tune import parse_duration
from tilegen.cli.looks import printing
from tilegen.cli.shell.arguments import parse_points, parse_settings
from tilegen.cli.shell.request import Request, Selection, by_form
from tilegen.errors import TilegenError
from tilegen.frontend.stock import schedules_by_form


@tilegen.command("suggest")
@FILE
@KERNEL
@SETTINGS
@size_option("M=.. ...", "One schedule, for these sizes; without them also what others want.")
@MACHINE
@click.option(
    "--budget", metavar="60s", help="How long to try values of its parameters, timed on a GPU, else predicted."
)
@click.option("-o", "output", metavar="F.tg", help="The file to write; standard output if left out.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def suggest_command(
    file: str,
    kernel: str | None,
    settings: tuple[str, ...],
    sizes: tuple[str, ...],
    machine: str | None,
    budget: str | None,
    output: str | None,
    force: bool,
) -> int:
    """Suggest a first schedule for a kernel: a text with comments, judged and proved, to read and to change.

    Where sizes decide, and neither --size nor --budget is there, several, and the family that chooses among them.
    """
    from tilegen.suggest import sizes_beside

    request = Request(file, kernel, (), parse_settings(settings), parse_points(sizes, "--size")[0], None)
    built = request.built_kernel(Selection(request.load(), kernel), {})
    request.check_sizes(built.ir)
    if known := dict.fromkeys(s.name for s in request.load().schedules if s.kernel == built.ir.name):
        print(f"note: somebody has written schedules for {built.ir.name}: {', '.join(known)}", file=sys.stderr)
    else:
        _note_stock(request, built)
    suggested = built.suggest(machine, **(sizes_beside(built.ir, request.sizes) if budget else request.sizes))
    text = _tuned(suggested, built, request.sizes, machine, parse_duration(budget)) if budget else suggested.text
    if output is None:
        printing.write_code(text, None, "tilegen")
    else:
        write_new(text, output, force)
    return 0


def _note_stock(request: Request, kernel: api.Kernel) -> None:
    """Says on standard error which stock schedule serves the kernel, too, by what it computes, if one does."""
    for name in schedules_by_form(kernel.ir):
        file = by_form(request.load(), kernel.ir.name, [name])
        schedule = file.find_schedule(name.replace(".", "_"), kernel.ir.name)
        with suppress(TilegenError):
            file.kernel(kernel.ir.name, **kernel.values).schedule(schedule.name)
            names = schedule.form.partition(" with ")[2]
            way = f"tilegen compare {shlex.quote(request.file)} --schedule {name} --suggest"
            print(f"note: {name} serves this kernel, too{names and f', with {names}'}", file=sys.stderr)
            print(f"note: {way} sets it beside", file=sys.stderr)
            return


def _tuned(file: api.File, kernel: api.Kernel, sizes: Mapping[str, int], machine: str | None, seconds: float) -> str:
    """The text with the values of parameters that are fastest of those tried, and the time that says so."""
    from tilegen.lab.predict.machine import find_machine
    from tilegen.tune.session import Session, Wish

    if not any(parameter.candidates for parameter in file.schedules[0].parameters):
        print("note: it has no parameters with several values: there is nothing to try", file=sys.stderr)
        return file.text
    made = file.kernel(kernel.ir.name, **kernel.values)
    wish = Wish(seconds, "random", seed=1, machine=find_machine(machine) if machine else None)
    with TemporaryDirectory() as folder:
        with Session(made, file.schedules, Path(folder) / "tried.jsonl", sizes=sizes, wish=wish) as session:
            session.run()
        tried, found, device = len(session.tuning.outcomes), session.tuning.best, session.device.name
    if found is None:
        print("note: no values of its parameters ran: these are the ones that it began with", file=sys.stderr)
        return file.text
    candidate, time = found
    text = file.text
    for name, value in candidate.parameters:
        text = re.sub(rf"(?<=[(, ]){name}=\w+(?=[ ,)])", f"{name}={value}", text, count=1)
    said = f"# Its parameters are the best of {tried} candidates: {time.median:.4g} ms on {device}.\n"
    return text.replace("schedule suggested for", f"{said}schedule suggested for", 1)
