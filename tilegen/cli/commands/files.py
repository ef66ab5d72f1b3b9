"""The commands list, cat and new: which kernels and schedules there are, their texts, and a copy to begin with."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

import click

from tilegen import api
from tilegen.cli.commands.shared import FILE, KERNEL, tilegen
from tilegen.cli.looks import printing
from tilegen.cli.shell import completion
from tilegen.cli.shell.output import JSON, check_new, check_output, write
from tilegen.cli.shell.request import Request, select, split_target
from tilegen.errors import UsageError
from tilegen.frontend.data import shipped_text
from tilegen.frontend.files import shorten
from tilegen.frontend.unparse import text_of_parameters
from tilegen.ir.steps import Schedule
from tilegen.lab.predict.machine import machine_names, machine_text

_LINE = 110  # characters, where no terminal has fewer


@tilegen.command("list")
@click.argument("file", required=False, shell_complete=completion.files)
@click.option("--json", "json_file", metavar="F", help="The list as JSON into F; - for standard output.")
def list_command(file: str | None, json_file: str | None) -> int:
    """List the stock files with their kernels and schedules; or those of one FILE, with what is said of each."""
    check_output(json_file, JSON)
    names = [file] if file else list(api.stock_names())
    files = {name: _request(name).load() for name in names}
    if json_file:
        printing.write_json([_to_json(name, each) for name, each in files.items()], json_file)
        return 0
    for name, each in files.items():
        print("\n".join(_details(name, each) if file else _overview(name, each)))
    if not file:
        print("\ntilegen list FILE says more of one, tilegen cat FILE shows its text.")
    return 0


def _overview(name: str, file: api.File) -> Iterator[str]:
    """A file in few lines: its title, and the names of its kernels with those of their schedules."""
    yield from _wrapped(f"{name}: {first_sentence(file.title)}" if file.title else name, "", "    ")
    kernels: dict[tuple[str, ...], list[str]] = {}
    for kernel in file.kernels:
        kernels.setdefault(tuple(s.name for s in file.schedules if s.kernel == kernel), []).append(kernel)
    for schedules, names in kernels.items():
        known = f": {' '.join(schedules)}" if schedules else ""
        yield from _wrapped(f"{' '.join(names)}{known}", "    ", "        ")


def _details(name: str, file: api.File) -> Iterator[str]:
    """A file with the head of each kernel, and the head and the first sentence of each schedule."""
    yield from _wrapped(f"{name}: {file.title}" if file.title else name, "", "    ")
    shown: list[Schedule] = []
    for kernel in file.kernels:
        yield ""
        yield file.signature(kernel)
        own = [s for s in file.schedules if s.kernel == kernel]
        said = [s.name for s in own if any(s.name == other.name for other in shown)]
        for schedule in own:
            if schedule.name not in said:
                yield from _wrapped(f"{schedule.name}{text_of_parameters(schedule)}", "    ", "        ")
                yield from _wrapped(first_sentence(schedule.doc), "        ", "        ")
        if said:
            yield from _wrapped(f"and, as above: {' '.join(said)}", "    ", "        ")
        shown += own


def first_sentence(text: str) -> str:
    """The first sentence of a comment, on one line."""
    sentence, dot, _ = " ".join(text.split()).partition(". ")
    return sentence + dot.strip()


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return wrap(
        text, max(printing.line_width(_LINE), 30), initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )


def _to_json(name: str, file: api.File) -> dict[str, Any]:
    return {
        "file": name,
        "title": file.title,
        "kernels": [{"name": kernel, "head": file.signature(kernel)} for kernel in file.kernels],
        "schedules": [_schedule_json(each) for each in file.schedules],
    }


def _schedule_json(schedule: Schedule) -> dict[str, Any]:
    parameters = {p.name: {"default": p.default, "candidates": p.candidates} for p in schedule.parameters}
    facts = [fact.text for fact in schedule.facts]
    named = {"name": schedule.name, "kernel": schedule.kernel, "parameters": parameters, "where": facts}
    return {**named, "says": schedule.doc}


# -- texts


@tilegen.command("cat")
@FILE
@KERNEL
def cat_command(file: str, kernel: str | None) -> int:
    """Print the text of FILE; or of schedules, gemm:tiled, with those that they extend and the kernel.

    FILE may also be std, the composite steps; instructions; a program among the examples, gemm.py; a machine, t4.toml.
    """
    name, _, ending = file.partition(".")
    text = machine_text(name) if ending == "toml" and name in machine_names() else shipped_text(file)
    if text is not None:
        printing.write_code(text, None, {"py": "python", "toml": "toml"}.get(ending, "tilegen"))
        return 0
    request = _request(file, kernel)
    text = request.load().text
    if request.schedule:
        text = request.load().text_of(request.schedule, select(request).kernel)
    printing.write_code(text.rstrip("\n") + "\n", None, "tilegen")
    return 0


@tilegen.command("new")
@click.argument("path")
@click.option(
    "--from",
    "source",
    required=True,
    metavar="FILE:SCHEDULE",
    help="What to begin with: gemm:tiled.",
    shell_complete=completion.files,
)
@KERNEL
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def new_command(path: str, source: str, kernel: str | None, force: bool) -> int:
    """Write a file of your own at PATH: a kernel and a schedule with all of its steps; or a copy of a whole FILE.

    Where FILE has no schedule, the new one has what tilegen suggest writes.
    A schedule that is refused is not written; a whole FILE is copied as it is.
    """
    request = _request(source, kernel)
    file, names = request.load(), request.schedule
    if not names and not file.schedules:
        file = file.kernel(kernel).suggest()
    if len(names) > 1:
        notes = (f"--from {shlex.quote(f'{request.file}:{names[0]}')}",)
        raise UsageError("a new file begins with one schedule", notes=notes)
    text = file.text
    if names:
        chosen = file.find_schedule(names[0], select(request).kernel).kernel
        text = file.self_contained(names[0], chosen)
        if None not in file.kernels[chosen].constants.values():  # those are given where it is used
            file.kernel(chosen).schedule(names[0])
    if _is_same(path, request.file):
        raise UsageError(f"{shorten(path)} is what the new file would begin with: take another name")
    write_new(text, path, force)
    return 0


def write_new(text: str, path: str, force: bool) -> None:
    """Write a text of one's own. Raises UsageError where there is a file, unless `force` says to write over it."""
    check_new(path, force)
    write(text if text.endswith("\n") else text + "\n", path, None)
    if path != "-":
        print(f"{path}: {_contents(api.load(Path(path)))}; tilegen check {shlex.quote(path)} tries it out")


def _is_same(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except (OSError, ValueError):  # one of them is no file
        return False


def _contents(file: api.File) -> str:
    """What a file has: kernel gemm and its schedule tiled."""
    schedules = list(dict.fromkeys(s.name for s in file.schedules))
    kernels = list(file.kernels)
    return " and ".join(
        _counted(what, names) for what, names in (("kernel", kernels), ("schedule", schedules)) if names
    )


def _counted(what: str, names: Sequence[str]) -> str:
    return f"{what} {names[0]}" if len(names) == 1 else f"{len(names)} {what}s"


def _request(word: str, kernel: str | None = None) -> Request:
    file, schedules = split_target(word)
    return Request(file, kernel, schedules, {}, {}, None)
