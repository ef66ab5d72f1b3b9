"""The command suggest: a first schedule for a kernel, as a text."""

from __future__ import annotations

import sys

import click

from tilegen.cli import printing
from tilegen.cli.arguments import parse_points, parse_settings
from tilegen.cli.commands import FILE, KERNEL, MACHINE, SETTINGS, size_option, tilegen
from tilegen.cli.files import write_new
from tilegen.cli.request import Request, Selection


@tilegen.command("suggest")
@FILE
@KERNEL
@SETTINGS
@size_option("M=.. ...", "Sizes that decide between several ways.")
@MACHINE
@click.option("-o", "output", metavar="F.tg", help="The file to write; standard output if left out.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def suggest_command(
    file: str,
    kernel: str | None,
    settings: tuple[str, ...],
    sizes: tuple[str, ...],
    machine: str | None,
    output: str | None,
    force: bool,
) -> int:
    """Suggest a first schedule for a kernel: a text with comments, judged and proved, to read and to change."""
    request = Request(file, kernel, (), parse_settings(settings), parse_points(sizes, "--size")[0], None)
    built = request.built_kernel(Selection(request.load(), kernel), {})
    request.check_sizes(built.ir)
    if known := dict.fromkeys(s.name for s in request.load().schedules if s.kernel == built.ir.name):
        print(f"note: somebody has written schedules for {built.ir.name}: {', '.join(known)}", file=sys.stderr)
    suggested = built.suggest(machine, **request.sizes)
    if output is None:
        printing.write_code(suggested.text, None, "tilegen")
    else:
        write_new(suggested.text, output, force)
    return 0
