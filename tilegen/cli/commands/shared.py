"""The command tilegen itself, and the arguments that its commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import click

from tilegen.cli.shell import completion
from tilegen.cli.shell.arguments import parse_list, parse_points, parse_settings
from tilegen.cli.shell.interrupt import closed_pipes_end_well
from tilegen.cli.shell.output import JSON, check_output
from tilegen.cli.shell.request import Request, split_target
from tilegen.errors import UsageError
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


def shared_arguments(command: Command, *, values: bool = False, files: bool = False) -> Command:
    """The arguments that commands have, which `command` gets as one Request.

    With `values`, --set may give several for a name. With `files` that is so, too, there may be several sizes and
    several files, and the command gets a list with a Request for each file.
    """

    @wraps(command)
    def call(
        file: str | tuple[str, ...],
        settings: tuple[str, ...],
        schedule: str | None,
        sizes: tuple[str, ...],
        json_file: str | None,
        **others: Any,
    ) -> int:
        given = parse_settings(settings, values or files)
        points, names = parse_points(sizes, "--size", several=files), parse_list(schedule)
        check_output(json_file, JSON)
        found = [split_target(each) for each in ((file,) if isinstance(file, str) else file)]
        if names and all(own for _, own in found):
            named = file if isinstance(file, str) else file[0]
            raise UsageError(f"{named} names its schedule, and so does --schedule", notes=("say it once",))
        shared = {name: others.pop(name) for name in ("kernel", "any_value")}
        shared |= {"settings": given, "sizes": points[0], "points": points, "json_file": json_file, "loaded": {}}
        requests = [Request(each, asked=own or names, **shared) for each, own in found]
        return command(requests if files else requests[0], **others)

    decorated: Command = call
    for decorate in (_JSON, _ANY_VALUE, SETTINGS, _SCHEDULES, KERNEL, FILES if files else FILE):
        decorated = decorate(decorated)
    return decorated


shared_arguments_with_values = partial(shared_arguments, values=True)
shared_arguments_of_files = partial(shared_arguments, files=True)


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
    After a colon it has the names of schedules: gemm:naive,tiled.

    To begin: tilegen new mine.tg --from vector_add:plain writes a file of your own, tilegen check mine.tg tries it out,
    and tilegen suggest FILE writes a first schedule for a kernel. tilegen help lists the steps, tilegen help language
    the sections of the reference, tilegen learn the chapters of a course; tilegen doctor says what is missing.
    """
