"""The command ladder: every step of a schedule timed, its prediction beside it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from tilegen.cli.commands.plot import check_plot, draw, plot_option
from tilegen.cli.commands.shared import DEVICE, MACHINE_INSTEAD, UNPROVED, shared_arguments, size_option, tilegen
from tilegen.cli.looks import explain_printing, printing
from tilegen.cli.looks.trust import trust_lines
from tilegen.cli.shell.arguments import Finite
from tilegen.cli.shell.interrupt import exit_code, run_until_interrupted
from tilegen.cli.shell.records import environment_of, origin_of
from tilegen.cli.shell.request import Request

if TYPE_CHECKING:
    from tilegen.lab.measure.ladder import Ladder


@tilegen.command("ladder")
@shared_arguments
@size_option("M=.. ...", "Sizes to time at.")
@click.option("--limit", type=Finite(min=0), metavar="MS", help="Do not time a prefix that is expected to take longer.")
@DEVICE
@UNPROVED
@MACHINE_INSTEAD
@plot_option("a waterfall of the steps")
def ladder_command(
    request: Request, limit: float | None, device: str, unproved: bool, machine: str | None, plot: str | None
) -> int:
    """Check and time every prefix of a schedule, its prediction beside it: what does each step bring?

    Without a GPU times are predicted alone, unless --device cpu asks for those of the CPU.
    """
    from tilegen.backends.devices.devices import engine
    from tilegen.lab.measure.ladder import LadderRun
    from tilegen.lab.predict.machine import machine_instead

    check_plot(plot)
    runs_on = engine(device)
    predicts = machine_instead(machine, device, on_gpu=runs_on.on_gpu)
    scheduled = request.one("ladder", fixed={})
    options: dict[str, Any] = {"limit": limit, "unproved": unproved, "machine": predicts}
    with printing.progress() as progress:
        given = (scheduled.core, runs_on, request.sizes)
        run = LadderRun(*given, progress=progress, **options)
        stopped = run_until_interrupted(run.run)
    result = run.result()
    if request.json_file != "-":
        _show(printing.console(), result)
    if request.json_file:
        rungs = {**origin_of(scheduled), **environment_of(runs_on), **explain_printing.to_json(result)}
        rungs["interrupted"] = stopped
        printing.write_json(rungs, request.json_file)
    if plot:
        from tilegen.report.ladder import measured_ladder, waterfall

        draw([waterfall(measured_ladder(result))], plot)
    return exit_code((rung.exit_code for rung in result.rungs), "rungs", stopped=stopped)


def _show(out: printing.Terminal, found: Ladder) -> None:
    shown = found.table()
    style = partial(_style, on_gpu=found.on_gpu)
    out.print(shown.title, style="bold")
    out.print(printing.table(shown.heads, shown.rows, _LEFT, columns=_COLUMNS, style=style, **printing.PLAIN))
    predicted = any(rung.launches for rung in found.rungs)
    if found.timed and predicted:
        out.print(f"predicted: the roofline of one {found.machine.name} at these sizes; no launch is faster than that.")
    elif predicted:
        out.say(printing.prediction_note(found.machine))
    if not found.on_gpu:
        if found.timed:
            out.print(f"measured: on {found.device}; such times say nothing of a GPU, nor of the prediction.")
        out.say(printing.proof_note(found.device))
        launches = [launch for rung in found.rungs for launch in rung.launches]
        names = dict.fromkeys(count.name for launch in launches for count in launch.work.by_warps)
        out.say(*printing.meaning_notes(names))
    if found.timed:
        out.say(
            f"all that were timed took turns; a gain inside the spread (p20..p80) is none. A prefix that is expected "
            f"to take more than {found.limit:g} ms is checked and not timed (--limit)."
        )
    doubts = {rung.name: rung.doubts for rung in found.rungs}
    out.say(*found.beside, *trust_lines(found.conditions, found.doubts, doubts))
    for rung in found.rungs:
        if rung.exit_code:
            out.say(Text(f"\n{rung.name}: {rung.error}", style="red"))


_LEFT = ("step", "check", "limit", "")
_COLUMNS = {"step": {"overflow": "fold", "min_width": 20, "max_width": 44}, "": {"overflow": "fold", "max_width": 46}}


def _style(head: str, cell: str, on_gpu: bool) -> str:
    if head == "gain" and cell and on_gpu:  # what a CPU makes of it is neither good nor bad
        gain = float(cell.removeprefix("x "))
        return "green" if gain > 1 else "yellow" if gain == 1 else "red"
    return "yellow" if cell.startswith("cannot be launched") else printing.check_style(head, cell)
