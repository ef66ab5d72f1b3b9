"""The commands show and emit: the trees of a schedule, and its text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from tilegen import api
from tilegen.cli.commands.shared import UNPROVED, shared_arguments, size_option, tilegen
from tilegen.cli.looks import printing
from tilegen.cli.shell.output import CODE, check_output
from tilegen.cli.shell.records import origin_of
from tilegen.cli.shell.request import Request
from tilegen.errors import UsageError
from tilegen.frontend.unparse import text_of_schedule
from tilegen.ir.printing.show import show as show_tree
from tilegen.lowering import Launch, lower_for_some_sizes


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
            for schedule in request.load().schedules:
                if (schedule.name, schedule.kernel) == (name, each.kernel.name) and schedule.form:
                    out.say(f"by form: {schedule.form}")
            out.say(show_tree(each.tree), end="")
    return 0


def _print_texts(request: Request) -> int:
    """Print each schedule with all of its steps, once they are applied."""
    file, found = request.load(), request.schedules(request.sizes)
    texts = [text_of_schedule(file.find_schedule(name, each.kernel.name)) for name, each in found.items()]
    print("\n\n".join(texts))
    return 0


def _print_steps(out: printing.Terminal, scheduled: api.Scheduled) -> None:
    before = ""
    for stage in scheduled.stages:
        after = show_tree(stage.tree)
        if stage.step is None:
            out.say(after)
        else:
            place = f"  {stage.step.span.source.name}:{stage.step.span.line}" if stage.step.span else ""
            out.say(f"{stage.step.text}{place}", style="bold cyan")
            out.say(*printing.difference(before, after))
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
        facts = _emit_json(scheduled, target, vector=not scalar, whole=whole, wide=bits)
        printing.write_json({**facts, "source": text}, request.json_file)
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
