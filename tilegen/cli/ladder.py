"""The command ladder: every step of a schedule timed, its prediction beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tilegen.cli import explain_printing, printing
from tilegen.cli.arguments import Finite
from tilegen.cli.commands import DEVICE, MACHINE_INSTEAD, UNPROVED, shared_arguments, size_option, tilegen
from tilegen.cli.interrupt import exit_code, run_until_interrupted
from tilegen.cli.plot import check_plot, draw, plot_option
from tilegen.cli.records import environment_of, origin_of
from tilegen.cli.request import Request
from tilegen.cli.trust import trust_lines

if TYPE_CHECKING:
    from tilegen.lab.ladder import Ladder, Rung


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
    from tilegen.backends.devices import engine
    from tilegen.lab.ladder import LadderRun
    from tilegen.lab.machine import machine_instead

    check_plot(plot)
    runs_on = engine(device)
    predicts = machine_instead(machine, device, on_gpu=runs_on.on_gpu)
    scheduled = request.one("ladder", fixed={})
    request.check_sizes(scheduled.kernel)
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


def _show(out: Console, found: Ladder) -> None:
    sizes = " ".join(f"{n}={v}" for n, v in found.sizes.items())
    out.print(f"{found.kernel}, schedule {found.schedule}  {sizes}  {found.place}", style="bold")
    out.print(_table(found))
    predicted = any(rung.launches for rung in found.rungs)
    if found.timed and predicted:
        out.print(f"predicted: the roofline of one {found.machine.name} at these sizes; no launch is faster than that.")
    elif predicted:
        out.print(printing.prediction_note(found.machine), soft_wrap=True)
    if not found.on_gpu:
        if found.timed:
            out.print(f"measured: on {found.device}; such times say nothing of a GPU, nor of the prediction.")
        out.print(printing.proof_note(found.device), soft_wrap=True)
        launches = [launch for rung in found.rungs for launch in rung.launches]
        names = dict.fromkeys(count.name for launch in launches for count in launch.work.by_warps)
        for line in printing.meaning_notes(names):
            out.print(line, soft_wrap=True)
    if found.timed:
        out.print(
            f"all that were timed took turns; a gain inside the spread (p20..p80) is none. A prefix that is expected "
            f"to take more than {found.limit:g} ms is checked and not timed (--limit).",
            soft_wrap=True,
        )
    doubts = {rung.step or "as written": rung.doubts for rung in found.rungs}
    for line in (*found.beside, *trust_lines(found.conditions, found.doubts, doubts)):
        out.print(line, soft_wrap=True)
    for rung in found.rungs:
        if rung.exit_code:
            out.print(Text(f"\n{rung.step or 'as written'}: {rung.error}", style="red"), soft_wrap=True)


def _table(found: Ladder) -> Table:
    table = Table(header_style="bold", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("step", overflow="fold", min_width=20, max_width=44)
    table.add_column("check")
    word = "ms" if found.on_gpu else f"{found.device.split()[0]} ms"
    times = (word, "p20..p80", found.unit) if found.timed else ("limit", f"{found.unit} at most")
    for name in ("grid x block", "regs", "predicted ms", *times, "gain"):
        table.add_column(name, justify="left" if name == "limit" else "right")
    table.add_column("", overflow="fold", max_width=46)
    error = None
    for rung in found.rungs:
        table.add_row(*_cells(rung, found, same_error=rung.error == error))
        error = rung.error
    if found.rival and found.rival_time:
        t = found.rival_time
        spread = f"{t.p20:.4g}..{t.p80:.4g}"
        table.add_row(found.rival, "", "", "", "", f"{t.median:.4g}", spread, f"{found.rival_rate or 0:.4g}", "", "")
    return table


def _cells(rung: Rung, found: Ladder, same_error: bool) -> list[Text]:
    name, empty = rung.step or "as written", [Text("")] * (8 if found.timed else 7)
    if rung.same:
        return [Text(name), *empty, Text("the same program")]
    if rung.error and not rung.exit_code:
        reason = ", as before" if same_error else f": {rung.error}"
        return [Text(name), *empty, Text(f"cannot be launched{reason}", style="yellow")]
    verdict = Text(printing.FAILURES.get(rung.exit_code, "failed"), style="red") if rung.error else Text("ok", "green")
    verdict = verdict if rung.error or rung.trials else Text("")
    shape = ", ".join(f"{launch.blocks} x {launch.threads}" for launch in rung.launches)
    registers = [launch.resources.registers for launch in rung.launches if launch.resources]
    least = f"{rung.predicted_time or 0:.3g}" if rung.launches else ""
    cells = [shape, str(max(registers)) if registers else "", least, *_times(rung, found)]
    remark = Text(rung.untimed or _remark(rung, found.on_gpu))
    return [Text(name), verdict, *map(Text, cells), _gain(rung, found.on_gpu), remark]


def _times(rung: Rung, found: Ladder) -> list[str]:
    if not found.timed:
        return [rung.limit, f"{rung.rate:.4g}" if rung.rate else ""]
    if not rung.time:
        return ["", "", ""]
    return [f"{rung.time.median:.4g}", f"{rung.time.p20:.4g}..{rung.time.p80:.4g}", f"{rung.rate or 0:.4g}"]


def _gain(rung: Rung, on_gpu: bool) -> Text:
    if rung.gain is None:
        return Text("")
    if not on_gpu:  # what a CPU makes of it is neither good nor bad
        return Text(f"x {rung.gain:.2f}")
    style = "green" if rung.gain > 1 else "yellow" if rung.gain == 1 else "red"
    return Text(f"x {rung.gain:.2f}", style=style)


def _remark(rung: Rung, on_gpu: bool) -> str:
    if not on_gpu or rung.gain is None or rung.gain > 1:
        return ""
    return "no faster" if rung.gain == 1 else "slower"
