"""The command explain: a schedule's numbers, step by step, without running anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tilegen.cli.commands.plot import check_plot, draw, plot_option
from tilegen.cli.commands.shared import FIX, MACHINE, shared_arguments, size_option, tilegen
from tilegen.cli.looks import explain_printing, printing
from tilegen.cli.shell.arguments import parse_point
from tilegen.cli.shell.interrupt import run_interruptibly
from tilegen.cli.shell.records import origin_of
from tilegen.cli.shell.request import Request, select
from tilegen.ir.steps import Setting
from tilegen.schedule import Derivation

if TYPE_CHECKING:
    from tilegen.lab.choice.family import Choice
    from tilegen.lab.predict.machine import Machine


@tilegen.command("explain")
@shared_arguments
@size_option("M=.. ...", "Sizes to count at.")
@FIX
@MACHINE
@click.option("--last", is_flag=True, help="The whole schedule alone, not each of its steps.")
@click.option("--maps", is_flag=True, help="The 32-lane map of every shared access, not only of those with conflicts.")
@click.option("--hits", type=click.FloatRange(0, 1), default=0.0, help="The share of points that are hits of a list.")
@click.option("--no-compile", is_flag=True, help="Leave the compiler out: fast, but no registers and no spills.")
@plot_option("the roofline with a point for each step")
def explain_command(
    request: Request,
    fix: tuple[str, ...],
    machine: str | None,
    last: bool,
    maps: bool,
    hits: float,
    no_compile: bool,
    plot: str | None,
) -> int:
    """Explain a schedule: traffic, conflicts, occupancy and the roofline, for each step, without a GPU."""
    from tilegen.lab.checks.sizes import GPU_LIMITS, power_sizes
    from tilegen.lab.predict.advice import advise
    from tilegen.lab.predict.explain import explain
    from tilegen.lab.predict.explanation import Explanation
    from tilegen.lab.predict.machine import find_machine

    check_plot(plot)
    ceilings = find_machine(machine)
    fixed = parse_point(fix, "--fix")
    request, choice = _chosen(request, ceilings, fixed)
    scheduled = request.one("explain", fixed)
    counted = power_sizes(scheduled.tree.kernel, request.sizes, GPU_LIMITS)

    def again(values: Mapping[str, Setting]) -> Derivation:
        return request.built_kernel(select(request), fixed).schedule(scheduled.core.name, **values).core

    def work() -> Explanation:
        asked: dict[str, Any] = {"machine": ceilings, "progress": progress}
        found = explain(scheduled.core, counted, compiled=not no_compile, last=last, hits=hits, **asked)
        return replace(
            found, advice=advise(scheduled.core, counted, again=again, built=found.steps[-1].launches, **asked)
        )

    with printing.progress() as progress:
        result = run_interruptibly(work)
    if request.json_file:
        members = {"family": choice.to_json()} if choice else {}
        printing.write_json({**origin_of(scheduled), **explain_printing.to_json(result), **members}, request.json_file)
    if request.json_file != "-":
        if choice:
            explain_printing.choice(printing.console(), choice)
        explain_printing.explanation(printing.console(), result, maps)
    if plot:
        from tilegen.report.roofline import roofline

        draw([roofline(result)], plot)
    return result.steps[-1].exit_code


def _chosen(request: Request, machine: Machine, fixed: Mapping[str, int]) -> tuple[Request, Choice | None]:
    """The request of what a family chooses, and how it has chosen; of a schedule the request as it is."""
    from tilegen.lab.checks.sizes import GPU_LIMITS, power_sizes

    chooser = request.family(machine, fixed)
    if chooser is None:
        return request, None
    request.check_sizes(chooser.kernel)
    choice = chooser.explain(**power_sizes(chooser.kernel, request.sizes, GPU_LIMITS))
    return request.of_member(choice.chosen), choice
