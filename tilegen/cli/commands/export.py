"""The command export: a kernel as a folder that is built and called without tilegen."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import click

from tilegen.cli.commands.shared import FIX, UNPROVED, shared_arguments, size_option, tilegen
from tilegen.cli.looks import printing
from tilegen.cli.shell.arguments import parse_list, parse_point
from tilegen.cli.shell.request import Request
from tilegen.errors import UsageError


@tilegen.command("export")
@shared_arguments
@click.option("--arch", default="sm_90", show_default=True, metavar="sm_80,..", help="Architectures to compile for.")
@click.option("-o", "folder", default="out", show_default=True, metavar="DIR", help="The folder to write into.")
@click.option("--name", default="", metavar="N", help="What functions and files are called after; else the kernel.")
@size_option("M=.. ...", "Sizes that the test program computes, too.")
@FIX
@UNPROVED
def export_command(request: Request, arch: str, folder: str, name: str, fix: tuple[str, ...], unproved: bool) -> int:
    """Write a kernel with a C++ launcher, machine code, CMakeLists.txt and a test, to be called without tilegen."""
    from tilegen.export import export

    if not folder:
        raise UsageError("the folder has no name", notes=(". is the one that you are in",))
    fixed = parse_point(fix, "--fix")
    scheduled = request.one("export", fixed)
    request.check_sizes(scheduled.kernel)
    archs = parse_list(arch)
    own = ["--arch", ",".join(archs), *(["--name", name] if name else []), *(["--unproved"] if unproved else [])]
    with printing.progress() as progress:
        files = export(
            scheduled.core,
            Path(folder),
            archs,
            name=name,
            command=shlex.join([*_command(request, scheduled.core.name, fixed), *own, "-o", folder]),
            sizes=request.sizes,
            unproved=unproved,
            progress=progress,
        )
    if request.json_file:
        printing.write_json({"folder": folder, "files": list(files)}, request.json_file)
    if request.json_file != "-":
        print(f"{folder}: {', '.join(files)}")
    return 0


def _command(request: Request, schedule: str, fixed: Mapping[str, int]) -> list[str]:
    """The words of a command that makes the same kernel again."""
    words = ["tilegen", "export", request.file]
    words += ["--kernel", request.kernel] if request.kernel else []
    words += ["--schedule", schedule]
    settings = {name: value for name, (value, *_) in request.settings.items()}
    for option, values in (("--set", settings), ("--size", request.sizes), ("--fix", fixed)):
        words += [option, *(f"{name}={value}" for name, value in values.items())] if values else []
    return words
