"""The command tilegen itself, and the arguments that its commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import click

from tilegen import api
from tilegen.cli.shell import completion
from tilegen.cli.shell.arguments import parse_list, parse_points, parse_settings
from tilegen.cli.shell.interrupt import closed_pipes_end_well
from tilegen.cli.shell.output import JSON, check_output
from tilegen.cli.shell.request import Request, split_target
from tilegen.errors import UsageError
from tilegen.ir.steps import Setting
from tilegen.version import __version__

Command = Callable[..., int]

FILE = click.argument("file", shell_complete=completion.files)
FILES = click.argument("file", nargs=-1, required=True, shell_complete=completion.files)
KERNEL = click.option(
    "--kernel", metavar="K", help="The kernel, where there are several.", shell_complete=completion.kernels
)
_SCHEDULES = click.option(
    "--schedule",
    metavar="A,B,...",
    help="Schedules by name, or stock ones, gemm.across, by form; all of the kernel's if left out.",
    shell_complete=completion.schedules,
)
SETTINGS = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="TM=64 ...",
    help="Schedule parameters and kernel attributes.",
    shell_complete=completion.settings,
)
_ANY_VALUE = click.option("--any-value", is_flag=True, help="Take values of --set that are no candidates, too.")
_JSON = click.option("--json", "json_file", metavar="F", help="The result as JSON into F; - for standard output.")
FIX = click.option(
    "--fix",
    multiple=True,
    metavar="K=64 ...",
    help="Sizes to compile into the kernels.",
    shell_complete=completion.sizes,
)
DEVICE = click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar="auto|cuda|cpu",
    help="Where kernels run.",
    shell_complete=completion.devices,
)

MACHINE = click.option(
    "--machine",
    metavar="M",
    help="Whose ceilings predict: t4, a100, rtx4090, h100, h200, b200, auto for the GPU here, or a FILE.toml; "
    "left out, the GPU here, or an h200.",
    shell_complete=completion.machines,
)

MACHINE_INSTEAD = click.option(
    "--machine",
    metavar="M",
    help="Predict times of t4, a100, rtx4090, h100, h200, b200, auto or a FILE.toml, and time nothing; without a GPU "
    "h200, unless --device cpu asks for the CPU's times.",
    shell_complete=completion.machines,
)

UNPROVED = click.option("--unproved", is_flag=True, help="Take what the proof leaves open, too.")


def size_option(metavar: str, help: str) -> Callable[[Command], Command]:
    """The option --size, as a command takes it."""
    return click.option("--size", "sizes", multiple=True, metavar=metavar, help=help, shell_complete=completion.sizes)


def shared_arguments(command: Command, several: bool = False) -> Command:
    """The arguments that commands have, which `command` gets as one Request; with `several` values to try for --set."""

    @wraps(command)
    def call_with_request(file: str, settings: tuple[str, ...], **others: Any) -> int:
        given = parse_settings(settings, several)
        return _call(lambda requests, **own: command(*requests, **own), [file], given, others)

    return _with_options(call_with_request, FILE)


def shared_arguments_with_values(command: Command) -> Command:
    """The same, with several values for --set."""
    return shared_arguments(command, several=True)


def shared_arguments_of_files(command: Command) -> Command:
    """The same of a command that takes several files, each with a Request of its own, values to try for --set, and
    sizes to go through."""

    @wraps(command)
    def call_with_requests(file: tuple[str, ...], settings: tuple[str, ...], **others: Any) -> int:
        return _call(command, file, parse_settings(settings, several=True), others, sweep=True)

    return _with_options(call_with_requests, FILES)


def _with_options(command: Command, file: Callable[[Command], Command]) -> Command:
    for decorate in (_JSON, _ANY_VALUE, SETTINGS, _SCHEDULES, KERNEL, file):
        command = decorate(command)
    return command


def _call(
    command: Command,
    files: Sequence[str],
    settings: Mapping[str, Sequence[Setting]],
    others: dict[str, Any],
    sweep: bool = False,
) -> int:
    """Calls `command` with the requests that the shared arguments make, and with its own."""
    shared = {name: others.pop(name) for name in ("kernel", "schedule", "sizes", "json_file", "any_value")}
    points = parse_points(shared["sizes"], "--size", several=sweep)
    names = parse_list(shared["schedule"])
    json_file = shared["json_file"]
    check_output(json_file, JSON)
    found = [split_target(file) for file in files]
    if names and all(own for _, own in found):
        raise UsageError(f"{files[0]} names its schedule, and so does --schedule", notes=("say it once",))
    loaded: dict[str, api.File] = {}
    requests = [
        Request(
            file, shared["kernel"], own or names, settings, points[0], json_file, shared["any_value"], loaded, points
        )
        for file, own in found
    ]
    return command(requests, **others)


class _Commands(click.Group):
    """The commands, which end well where the reader of a pipe has seen enough: `tilegen show ... | head`.

    click would end them with 1.
    """

    def make_context(self, *arguments: Any, **keywords: Any) -> click.Context:
        with closed_pipes_end_well():
            return super().make_context(*arguments, **keywords)

    def invoke(self, context: click.Context) -> Any:
        with closed_pipes_end_well():
            result = super().invoke(context)
            sys.stdout.flush()
            return result


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, package_name="tilegen")
def tilegen() -> None:
    """Tensor programs and schedules of a few lines become readable, proven, fast CUDA kernels.

    FILE is a path, - for standard input, or the name of a stock file: gemm, conv2d, transpose, ... (tilegen list).
    Behind a colon it has the names of schedules: gemm:naive,tiled.

    To begin: tilegen new mine.tg --from vector_add:plain writes a file of your own, tilegen check mine.tg tries it out,
    and tilegen suggest FILE writes a first schedule for a kernel. tilegen help lists the steps, tilegen help language
    the sections of the reference, tilegen learn the chapters of a course; tilegen doctor says what is missing.
    """
