"""The commands show and emit, and the arguments that commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import click

from tilegen import api
from tilegen.cli import completion, printing
from tilegen.cli.arguments import parse_list, parse_points, parse_settings
from tilegen.cli.interrupt import closed_pipes_end_well
from tilegen.cli.output import CODE, JSON, check_output
from tilegen.cli.records import origin_of
from tilegen.cli.request import Request, split_target
from tilegen.errors import UsageError
from tilegen.frontend.unparse import text_of_schedule
from tilegen.ir.show import show as show_tree
from tilegen.ir.steps import Setting
from tilegen.lowering import Launch, lower_for_some_sizes
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
    help="Schedules by name; all of the kernel's if left out.",
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


@tilegen.command("show")
@shared_arguments
@size_option("K=64 ...", "Sizes to fix as constants.")
@click.option("--steps", is_flag=True, help="The tree after each step, as a difference.")
@click.option("--flat", is_flag=True, help="The text of the schedule with the steps that it inherits, and no tree.")
def show_command(request: Request, steps: bool, flat: bool) -> int:
    """Show the loop tree after the steps of a schedule: those named, or the only one; else of the kernel as written."""
    if flat:
        return _print_texts(request)
    offered = [s for s in request.load().schedules if request.kernel in (None, s.kernel)]
    if not request.schedule and not steps and len(offered) != 1:
        wanted = {"unscheduled": request.written_kernel().schedule()}
    else:
        wanted = request.schedules(request.sizes)
    if request.json_file:
        printing.write_json([_stages(name, each) for name, each in wanted.items()], request.json_file)
        return 0
    out = printing.console()
    for name, each in wanted.items():
        if len(wanted) > 1:
            out.print(f"schedule {name}", style="bold")
        if steps:
            _print_steps(out, each)
        else:
            out.print(show_tree(each.tree), end="", soft_wrap=True)
    return 0


def _print_texts(request: Request) -> int:
    """Print each schedule with all of its steps, once they are applied."""
    file, found = request.load(), request.schedules(request.sizes)
    texts = [text_of_schedule(file.find_schedule(name, each.kernel.name)) for name, each in found.items()]
    print("\n\n".join(texts))
    return 0


def _print_steps(out: Any, scheduled: api.Scheduled) -> None:
    before = ""
    for stage in scheduled.stages:
        after = show_tree(stage.tree)
        if stage.step is None:
            out.print(after, soft_wrap=True)
        else:
            place = f"  {stage.step.span.source.name}:{stage.step.span.line}" if stage.step.span else ""
            out.print(f"{stage.step.text}{place}", style="bold cyan", soft_wrap=True)
            for line in printing.difference(before, after):
                out.print(line, soft_wrap=True)
            out.print()
        before = after


def _stages(name: str, scheduled: api.Scheduled) -> dict[str, Any]:
    stages = [{"step": s.step.text if s.step else None, "tree": show_tree(s.tree)} for s in scheduled.stages]
    return {"kernel": scheduled.kernel.name, **origin_of(scheduled), "schedule": name, "stages": stages}


@tilegen.command("emit")
@shared_arguments
@size_option("K=64 ...", "Sizes to fix as constants.")
@click.option("--target", type=click.Choice(["cuda", "opencl"]), default="cuda", show_default=True)
@click.option("-o", "output", metavar="F", help="The file to write; standard output if left out.")
@click.option("--scalar", is_flag=True, help="The version without vectors that need an alignment, for any size.")
@click.option("--whole", is_flag=True, help="The version for sizes that the tiles divide.")
@click.option("--wide", is_flag=True, help="The version with 64-bit offsets, also where 32 bits are enough.")
@click.option("--arch", metavar="sm_80", help="Say so where this architecture lacks an instruction of the text.")
@click.option("--lines", is_flag=True, help="Say in #line directives which line of the schedule each line is of.")
@UNPROVED
def emit_command(
    request: Request,
    target: str,
    output: str | None,
    scalar: bool,
    whole: bool,
    wide: bool,
    arch: str | None,
    lines: bool,
    unproved: bool,
) -> int:
    """Write the text of a scheduled kernel, stand-alone."""
    check_output(output, CODE)
    if lines and target != "cuda":
        raise UsageError("--lines is for CUDA", notes=("no profiler reads the lines of OpenCL",))
    scheduled = request.one("emit", request.sizes)
    printing.print_remarks({scheduled.core.name: scheduled})
    bits = wide or None  # without the flag, what the sizes need
    file = (output or f"{scheduled.kernel.name}.cu") if lines else None
    text = scheduled.source(target, vector=not scalar, whole=whole, wide=bits, unproved=unproved, arch=arch, lines=file)
    if request.json_file:
        told = _emit_json(scheduled, target, vector=not scalar, whole=whole, wide=bits)
        printing.write_json({**told, "source": text}, request.json_file)
    if output or not request.json_file:
        printing.write_code(text, output, target)
    return 0


def _emit_json(scheduled: api.Scheduled, target: str, vector: bool, whole: bool, wide: bool | None) -> dict[str, Any]:
    """What a caller of the text has to know; and what the other versions of the same width are for."""
    from tilegen.backends.calls.launch_data import kernel_data, launch_data, needs_data

    cuda = target == "cuda"

    def launches(vector: bool, whole: bool) -> Sequence[Launch]:
        return lower_for_some_sizes(scheduled.tree, vector=vector, whole=whole, wide=wide, instructions=cuda)

    others = {"": launches(True, False), "--whole": launches(True, True), "--scalar": launches(False, False)}
    return {
        **origin_of(scheduled),
        "target": target,
        **kernel_data(scheduled.tree),
        "launches": [launch_data(launch, target) for launch in launches(vector, whole)],
        "versions": [{"option": name, **needs_data(found)} for name, found in others.items()],
    }
