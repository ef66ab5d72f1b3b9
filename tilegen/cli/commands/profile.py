"""The command profile: a GPU's counters beside what explain says, for each step of a schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from tilegen.api import Scheduled
from tilegen.backends.system import gpus
from tilegen.cli.commands.shared import shared_arguments, size_option, tilegen
from tilegen.cli.looks import printing
from tilegen.cli.shell import completion
from tilegen.cli.shell.arguments import Finite
from tilegen.cli.shell.interrupt import run_interruptibly
from tilegen.cli.shell.output import check_output
from tilegen.cli.shell.records import origin_of
from tilegen.cli.shell.request import Attempt, Request
from tilegen.errors import DeviceError
from tilegen.ir.printing.shown import size_words

if TYPE_CHECKING:
    from tilegen.lab.predict.explanation import Explanation
    from tilegen.profile import ProfiledStep
    from tilegen.profile.child import Task
    from tilegen.profile.counters import Figure


@tilegen.command("profile")
@shared_arguments
@size_option("M=.. ...", "Sizes to run at.")
@click.option(
    "--machine",
    default="auto",
    show_default=True,
    metavar="M",
    help="Whose ceilings predict: auto for the GPU here, or what explain takes.",
    shell_complete=completion.machines,
)
@click.option("--last", is_flag=True, help="The whole schedule alone, not each of its steps.")
@click.option("--keep", metavar="F.ncu-rep", help="Keep Nsight Compute's report, whose source page has the schedule.")
@click.option(
    "--limit", type=Finite(min=0), metavar="MS", help="Do not count a prefix that is expected to take longer."
)
def profile_command(request: Request, machine: str, last: bool, keep: str | None, limit: float | None) -> int:
    """Count on a GPU what explain predicts: Nsight Compute's counters beside it, after each step."""
    from tilegen.backends.devices.devices import engine
    from tilegen.lab.checks.sizes import GPU_LIMITS, power_sizes
    from tilegen.lab.predict.cost import require_timing_memory
    from tilegen.lab.predict.explain import explain
    from tilegen.lab.predict.machine import find_machine
    from tilegen.profile import LIMIT, check_report, find_profiler, profile

    check_report(keep)
    check_output(keep, None)
    _require_gpu()
    find_profiler()
    ceilings = find_machine(machine)
    scheduled = request.one("profile", fixed={})
    (attempt,) = request.tried({})
    counted = power_sizes(scheduled.tree.kernel, request.sizes, GPU_LIMITS)
    require_timing_memory([scheduled.tree], counted, engine("cuda"))
    find_profiler()
    tasks = _tasks(attempt, scheduled, counted, last=last)
    with printing.progress() as progress:

        def work() -> tuple[Explanation, list[ProfiledStep]]:
            found = explain(scheduled.core, counted, machine=ceilings, last=last, progress=progress)
            progress("profile", 0, 1)
            return found, profile(found, tasks, limit=limit or LIMIT, keep=keep)

        found, steps = run_interruptibly(work)
    if request.json_file:
        origin = {"kernel": found.kernel, "sizes": found.sizes, "machine": found.machine.name}
        rows = [_to_json(step) for step in steps]
        printing.write_json({**origin_of(scheduled), **origin, "steps": rows}, request.json_file)
    if request.json_file != "-":
        _show(printing.console(), found, steps)
    return 0


def _require_gpu() -> None:
    """Raises DeviceError where there is no GPU."""
    if lacking := gpus.missing():
        notes = [lacking.way_out] if lacking.way_out else []
        raise DeviceError(lacking.reason, notes=(*notes, "tilegen explain counts and predicts without one"))


def _tasks(
    attempt: Attempt, scheduled: Scheduled, sizes: Mapping[str, int], *, last: bool
) -> Callable[[Sequence[int], str], Task]:
    """What makes the task of a child, from places among the steps that are explained."""
    from tilegen.lab.predict.explain import stages_by_line
    from tilegen.profile.child import Task

    first = len(stages_by_line(scheduled.stages)) - 1 if last else 0
    parameters, constants = dict(scheduled.core.parameters), dict(attempt.kernel.values)

    def make(steps: Sequence[int], answer: str) -> Task:
        numbers = tuple(first + step for step in steps)
        own = (attempt.written, scheduled.kernel.name, attempt.schedule, parameters, constants)
        return Task(*own, dict(sizes), numbers, answer)

    return make


def _show(out: printing.Terminal, found: Explanation, steps: Sequence[ProfiledStep]) -> None:
    from tilegen.profile.counters import APART

    out.print(f"{found.kernel}, schedule {found.schedule}  {size_words(found.sizes)}", style="bold")
    out.print(_table(steps))
    out.say(
        f"expected: what explain counts, and the roofline of one {found.machine.name}; measured: Nsight Compute's "
        f"counters of one launch, with empty caches and clocks left as they are. ! marks what is more than {APART:.0%} "
        "apart."
    )


def _table(steps: Sequence[ProfiledStep]) -> Table:
    heads = ("step", "counter", "expected", "measured", "difference")
    rows = [(step.step if n == 0 else "", *cells) for step in steps for n, cells in enumerate(_rows(step))]
    columns = {"step": {"overflow": "fold", "max_width": 44}}
    return printing.table(heads, rows, heads[:2], columns=columns, **printing.PLAIN)


def _rows(step: ProfiledStep) -> Iterator[list[str | Text]]:
    if step.error:
        yield [step.error, "", "", ""]
    for launch in step.launches:
        yield from (_cells(figure) for figure in launch)


def _cells(figure: Figure) -> list[str | Text]:
    numbers = ["" if value is None else f"{value:.5g}" for value in (figure.expected, figure.measured)]
    difference = "" if figure.difference is None else f"{100 * figure.difference:+.0f} %"
    mark = Text(f"{difference} !" if figure.is_apart else f"{difference}  ", "yellow" if figure.is_apart else "")
    return [figure.name, *numbers, mark]


def _to_json(step: ProfiledStep) -> dict[str, Any]:
    launches = [[{**asdict(figure), "difference": figure.difference} for figure in launch] for launch in step.launches]
    return {**asdict(step), "launches": launches}
