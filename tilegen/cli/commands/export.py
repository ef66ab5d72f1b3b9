"""The command export: a kernel as a folder that is built and called without tilegen."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilegen.cli.commands.shared import FIX, MACHINE, UNPROVED, shared_arguments, size_option, tilegen
from tilegen.cli.looks import printing
from tilegen.cli.shell.arguments import parse_list, parse_point
from tilegen.cli.shell.request import Request
from tilegen.errors import UsageError

if TYPE_CHECKING:
    from tilegen.lab.predict.machine import Machine


@tilegen.command("export")
@shared_arguments
@click.option("--arch", default="sm_90", show_default=True, metavar="sm_80,..", help="Architectures to compile for.")
@click.option("-o", "folder", default="out", show_default=True, metavar="DIR", help="The folder to write into.")
@click.option("--name", default="", metavar="N", help="What functions and files are called after; else the kernel.")
@size_option("M=.. ...", "Sizes that the test program computes, too.")
@FIX
@MACHINE
@UNPROVED
def export_command(
    request: Request, arch: str, folder: str, name: str, fix: tuple[str, ...], machine: str | None, unproved: bool
) -> int:
    """Write a kernel with a C++ launcher, machine code, CMakeLists.txt and a test, to be called without tilegen.

    Of a family all members that run on the architectures, and the choice among them by times of --machine.
    """
    from tilegen.export import export

    if not folder:
        raise UsageError("the folder has no name", notes=(". is the one that you are in",))
    fixed = parse_point(fix, "--fix")
    archs = parse_list(arch)
    chooser = request.family(_machine(machine, archs), fixed)
    what = chooser or request.one("export", fixed).core
    request.check_sizes(what.kernel)
    words = _command(request, what.name, fixed)
    words += ["--arch", ",".join(archs), *(["--name", name] if name else []), *(["--unproved"] if unproved else [])]
    words += ["--machine", machine] if machine else []
    with printing.progress() as progress:
        given: dict[str, Any] = {"name": name, "command": shlex.join([*words, "-o", folder]), "sizes": request.sizes}
        given |= {"unproved": unproved, "progress": progress}
        files = export(what, Path(folder), archs, **given)
    if request.json_file:
        printing.write_json({"folder": folder, "files": list(files)}, request.json_file)
    if request.json_file != "-":
        print(f"{folder}: {', '.join(files)}")
    return 0


def _machine(word: str | None, archs: list[str]) -> Machine:
    """The machine that --machine names; without it the GPU here, or one of an architecture that is exported for."""
    from tilegen.lab.predict.machine import find_machine, machine_names, stock_machine

    found = find_machine(word)
    there = {arch.rstrip("af") for arch in archs}
    others = (each for each in map(stock_machine, machine_names()) if each.arch in there)
    return found if word or found.arch in there else next(others, found)


def _command(request: Request, schedule: str, fixed: Mapping[str, int]) -> list[str]:
    """The words of a command that makes the same kernel again."""
    words = ["tilegen", "export", request.file]
    words += ["--kernel", request.kernel] if request.kernel else []
    words += ["--schedule", schedule]
    settings = {name: value for name, (value, *_) in request.settings.items()}
    for option, values in (("--set", settings), ("--size", request.sizes), ("--fix", fixed)):
        words += [option, *(f"{name}={value}" for name, value in values.items())] if values else []
    return words
