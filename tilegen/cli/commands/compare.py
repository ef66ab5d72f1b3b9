"""The command compare: schedules of one kernel side by side, each checked first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tilegen import api
from tilegen.cli.commands.plot import check_plot, draw, plot_option
from tilegen.cli.commands.shared import (
    DEVICE,
    FIX,
    MACHINE_INSTEAD,
    UNPROVED,
    shared_arguments_of_files,
    size_option,
    tilegen,
)
from tilegen.cli.looks import printing
from tilegen.cli.shell.arguments import Finite, parse_point
from tilegen.cli.shell.interrupt import exit_code, run_until_interrupted
from tilegen.cli.shell.records import attempt_of, comparison_json, records_of
from tilegen.cli.shell.request import Attempt, Request, select, suggested
from tilegen.errors import TilegenError, UsageError, join_errors
from tilegen.ir.comparison.alike import find_difference
from tilegen.ir.printing.shown import size_words

if TYPE_CHECKING:
    from tilegen.backends.calls.engine import Engine
    from tilegen.lab.choice.family import Chooser
    from tilegen.lab.measure.compare import Comparison
    from tilegen.lab.records.records import RunRecord


@tilegen.command("compare")
@shared_arguments_of_files
@size_option("M=.. ...", "Sizes to time at; M=N=512..8192x2 goes through several.")
@FIX
@DEVICE
@UNPROVED
@MACHINE_INSTEAD
@click.option("--tuned", metavar="F", help="A row for the fastest in a record of tune, at each size, on this device.")
@click.option("--steady", type=Finite(0, 60), default=0.0, metavar="S", help="Samples of S seconds, without a pause.")
@click.option("--suggest", is_flag=True, help="A row for what the command suggest writes.")
@click.option("--errors", is_flag=True, help="Measure how far products are from exact ones, too.")
@plot_option("the rates, over the sizes where they vary,")
def compare_command(
    requests: Sequence[Request],
    fix: tuple[str, ...],
    device: str,
    unproved: bool,
    machine: str | None,
    steady: float,
    errors: bool,
    suggest: bool,
    tuned: str | None,
    plot: str | None,
) -> int:
    """Check several schedules of one kernel, of one FILE or of several, then time them side by side.

    --set TS=16,32 gives a row for each value, --size M=N=512..8192x2 a table for each size. Without a GPU times are
    predicted, unless --device cpu asks for those of the CPU.
    """
    from tilegen.backends.devices.devices import engine
    from tilegen.lab.predict.machine import machine_instead

    check_plot(plot)
    runs_on = engine(device)
    predicts = machine_instead(machine, device, on_gpu=runs_on.on_gpu)
    if predicts and steady:
        notes = ("without --machine, --device cpu takes the times of the CPU",)
        raise UsageError(f"--steady is of times, and those of {predicts.name} are predicted here", notes=notes)
    fixed, (first, *_) = parse_point(fix, "--fix"), requests
    alone = (chooser := first.family(predicts, fixed)) is not None and [chooser.name] == list(first.schedule)
    family = partial(_family_row, first, chooser, fixed)
    tried = ({} if alone and len(requests) == 1 else _rows(requests[alone:], fixed)) | family(first.sizes)
    if suggest:
        kernel = next(each.kernel for each in tried.values() if each.applied)
        tried["suggested"] = suggested(first.file, kernel, machine, first.sizes)
    printing.print_remarks({name: each.applied for name, each in tried.items() if each.applied})
    options = {"unproved": unproved, "errors": errors, "steady": steady, "machine": predicts}
    sweep = _Sweep(tried, runs_on, fixed, tuned, family, **options)
    for sizes in first.points:
        sweep.compare_at(sizes, shown=first.json_file != "-")
        if sweep.stopped:
            break
    if first.json_file:
        printing.write_json(sweep.to_json(), first.json_file)
    if plot:
        from tilegen.report.comparison import record_pictures

        draw(record_pictures(sweep.records()), plot)
    codes = (row.exit_code for result in sweep.results for row in result.rows)
    return exit_code((sweep.exit_code, *codes), "rows", stopped=sweep.stopped)


class _Sweep:
    """The comparisons at one size after the other: the `results` so far, and whether someone has `stopped` it."""

    def __init__(
        self,
        tried: Mapping[str, Attempt],
        runs_on: Engine,
        fixed: Mapping[str, int],
        tuned: str | None,
        family: Callable[[Mapping[str, int]], dict[str, Attempt]],
        **options: Any,
    ) -> None:
        """`options` are those of a ComparisonRun."""
        self.results: list[Comparison] = []
        self.stopped = False
        self.exit_code = 0
        self._tried, self._runs_on, self._fixed, self._tuned, self._options = tried, runs_on, fixed, tuned, options
        self._family = family

    def compare_at(self, sizes: Mapping[str, int], *, shown: bool) -> None:
        """Compares at these sizes, and prints the table.

        Raises what a comparison raises if it is the first one; of a later one, the error is printed.
        """
        try:
            result = self._compare_at(sizes)
        except TilegenError as error:
            if not self.results:
                raise
            print(error.render(), file=sys.stderr)
            self.exit_code = error.exit_code
            return
        self.results.append(replace(result, sizes={**self._fixed, **result.sizes}))
        if shown:
            printing.comparison(printing.console(), self.results[-1])

    def _compare_at(self, sizes: Mapping[str, int]) -> Comparison:
        tried = {name: each for name, each in self._tried.items() if each.file != self._tuned and not each.chosen}
        tried |= (row := self._family(sizes))
        self._tried = {**self._tried, **row}
        if self._tuned:
            row = _tuned_row(self._tuned, next(iter(tried.values())).kernel, sizes, self._runs_on)
            tried, self._tried = tried | row, {**self._tried, **row}
        result, self.stopped = run_comparison(tried, self._runs_on, sizes, **self._options)
        return result

    def records(self) -> list[RunRecord]:
        return [record for result in self.results for record in records_of(result, self._tried, self._runs_on)]

    def to_json(self) -> dict[str, Any]:
        """The comparison; of several the first one, with all of the rows, and their sizes as `points`."""
        first, *others = [comparison_json(result, self._tried, self._runs_on) for result in self.results]
        if others:
            first["rows"] = [row for each in (first, *others) for row in each["rows"]]
            first["points"] = [each["sizes"] for each in (first, *others)]
        return {**first, "interrupted": self.stopped}


def run_comparison(
    tried: Mapping[str, Attempt], runs_on: Engine, sizes: Mapping[str, int], **options: Any
) -> tuple[Comparison, bool]:
    """The comparison of the rows, and whether someone has interrupted it; `options` are those of a ComparisonRun."""
    from tilegen.lab.measure.compare import ComparisonRun

    with printing.progress() as progress:
        run = ComparisonRun({n: each.tree for n, each in tried.items()}, runs_on, sizes, progress, **options)
        printing.print_note(run.outlook)
        stopped = run_until_interrupted(run.run)
    return run.result(), stopped


def _family_row(
    request: Request, chooser: Chooser | None, fixed: Mapping[str, int], sizes: Mapping[str, int]
) -> dict[str, Attempt]:
    """The row of what a family chooses at these sizes; none without a family."""
    from tilegen.lab.checks.sizes import GPU_LIMITS, power_sizes

    if chooser is None:
        return {}
    request.check_sizes(chooser.kernel)
    try:
        member = chooser.choose(**power_sizes(chooser.kernel, sizes, GPU_LIMITS))
    except UsageError:
        if request.schedule:
            raise
        return {}
    (found,) = request.of_member(member).tried(fixed)
    return {f"{chooser.name}: {member.name}": replace(found, chosen=True)}


def _tuned_row(path: str, kernel: api.Kernel, given: Mapping[str, int], runs_on: Engine) -> dict[str, Attempt]:
    """The row of the fastest schedule in a record of tuning for this kernel, on this device, at the sizes timed at.

    Raises:
        UsageError: it has none.
    """
    from tilegen.lab.checks.sizes import CPU_LIMITS, GPU_LIMITS, power_sizes
    from tilegen.lab.choice.tuned import find_fastest

    sizes = power_sizes(kernel.ir.meant_kernel, given, GPU_LIMITS if runs_on.on_gpu else CPU_LIMITS)
    records = kernel.records_of(path)
    sizes |= {name: int(value) for name, value in kernel.values.items() if name in records[0].sizes}
    found = find_fastest(records, runs_on.name, sizes)
    if found is None:
        there = dict.fromkeys(f"{size_words(r.sizes)} on {r.device.name}" for r in records if r.device)
        notes = (f"it has {'; '.join(there)}",)
        raise UsageError(f"{path} has no time at {size_words(sizes)} on {runs_on.name}", notes=notes)
    return {f"tuned: {found.name}": attempt_of(found, path)}


def _rows(requests: Sequence[Request], fixed: Mapping[str, int]) -> dict[str, Attempt]:
    """What there is to compare, by the names of the rows.

    Raises:
        UsageError: they are not of one kernel. Another TilegenError where none can be applied, which says why.
    """
    found = [attempt for r in _own_settings(_own_kernels(requests)) for attempt in r.tried(fixed)]
    applied = [each for each in found if each.applied]
    if not applied:
        raise join_errors([each.result for each in found if isinstance(each.result, TilegenError)])
    for other in applied[1:]:
        _check_kernels(applied[0], other)
    varied = {n for r in requests for n, values in r.settings.items() if len(values) > 1}
    files = len({each.file for each in found}) > 1
    return {_name(each, varied, with_file=files): each for each in found}


def _own_kernels(requests: Sequence[Request]) -> Sequence[Request]:
    """The requests, where some file has the kernel of --kernel without that for the files that do not have it."""
    there = [request.kernel in request.load().kernels for request in requests]
    if not any(there):
        return requests
    return [r if known else replace(r, kernel=None) for r, known in zip(requests, there, strict=True)]


def _own_settings(requests: Sequence[Request]) -> list[Request]:
    """The requests, each with those settings that it knows, and with those that none knows, for it to say so."""
    known = [{*(s := select(request)).attributes, *s.parameters} for request in requests]
    return [
        replace(r, settings={n: v for n, v in r.settings.items() if n in own or not any(n in k for k in known)})
        for r, own in zip(requests, known, strict=True)
    ]


def _check_kernels(one: Attempt, other: Attempt) -> None:
    """Raises UsageError where two schedules are not of kernels that compute the same."""
    assert one.applied
    assert other.applied
    difference = find_difference(one.applied.kernel.meant_kernel, other.applied.kernel.meant_kernel)
    if difference:
        names = [f"'{each.kernel.ir.name}' of {each.kernel.file.source.name}" for each in (one, other)]
        notes = (difference, "a table has rows of one kernel; its name and those of its loops may differ")
        raise UsageError(f"the kernels {' and '.join(names)} are not the same", notes=notes)


def _name(tried: Attempt, varied: set[str], with_file: bool) -> str:
    file = f"{tried.file}:" if with_file else ""
    values = [f" {name}={value}" for name, value in tried.given.items() if name in varied]
    return f"{file}{tried.name}{''.join(values)}"
