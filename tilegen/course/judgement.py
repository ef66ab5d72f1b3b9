"""Is a puzzle solved? Right, proved, and within what the puzzle asks of traffic and time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilegen import api
from tilegen.course.puzzles import Puzzle
from tilegen.errors import LimitError, TilegenError, UsageError
from tilegen.ir.comparison.tolerance import tolerance_of
from tilegen.lab.predict.explain import explain
from tilegen.lab.predict.explanation import LaunchReport, StepReport
from tilegen.lab.predict.machine import Machine, find_machine
from tilegen.lowering import lower
from tilegen.proof import demand, prove

if TYPE_CHECKING:
    from tilegen.backends.calls.engine import Engine


class UnmetDemand(TilegenError):
    """A schedule is right, and not yet what the puzzle asks for."""


@dataclass(frozen=True)
class Figure:
    """A limit of the puzzle, and what a schedule takes of it."""

    what: str
    found: float
    most: float

    @property
    def is_met(self) -> bool:
        return self.found <= self.most * 1.001  # limits are written with three digits

    def __str__(self) -> str:
        return f"{_rounded(self.found)} {self.what} (at most {_rounded(self.most)})"


def _rounded(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


@dataclass(frozen=True)
class Judgement:
    """What is known of a schedule that solves a puzzle.

    `checks` is how many inputs it was right on; `figures` are the limits with what it takes of them.
    """

    checks: int
    device: str
    machine: Machine
    figures: tuple[Figure, ...]


def judge(puzzle: Puzzle, scheduled: api.Scheduled, engine: Engine) -> Judgement:
    """Whether the schedule solves the puzzle.

    Raises:
        UsageError: it is of another kernel.
        ProofError: it is not proved. WrongResult: it computes something else.
        LimitError: it cannot be launched. UnmetDemand: it is right, and a limit of the puzzle is not met.
    """
    _check_kernel(puzzle, scheduled)
    tree = scheduled.tree
    demand(prove(tree.kernel, lower(tree), tree.reassociated), scheduled.kernel.name)
    checks = _count_checks(scheduled, engine)
    machine = find_machine(puzzle.machine)
    report = explain(scheduled.core, puzzle.sizes, machine=machine, compiled=False, last=True).steps[-1]
    if report.error:
        raise LimitError(report.error, notes=(puzzle.hint,))
    found = Judgement(checks, engine.name, machine, tuple(_figures(puzzle, report, machine)))
    if unmet := [figure for figure in found.figures if not figure.is_met]:
        raise _unmet(puzzle, scheduled, unmet, report)
    return found


def _check_kernel(puzzle: Puzzle, scheduled: api.Scheduled) -> None:
    if scheduled.core.kernel != puzzle.kernel:
        number = puzzle.name.removeprefix("puzzle")
        raise UsageError(
            f"kernel '{scheduled.kernel.name}' is not the one of the puzzle",
            notes=(f"tilegen learn {number} --start FILE.tg writes that; only its schedule may change",),
        )


def _count_checks(scheduled: api.Scheduled, engine: Engine) -> int:
    """Runs the schedule beside the reference; on how many inputs it was right. Raises WrongResult."""
    from tilegen.backends.devices.devices import program
    from tilegen.lab.checks.check import cases, check
    from tilegen.lab.checks.sizes import limits_of_check, sizes_to_check

    tree = scheduled.tree
    sizes = sizes_to_check([tree], {}, limits_of_check(engine))
    return len(check(program(tree, engine), cases(scheduled.kernel, sizes, tolerance_of(tree))))


def _figures(puzzle: Puzzle, report: StepReport, machine: Machine) -> Iterator[Figure]:
    launches = report.launches
    if puzzle.milliseconds is not None:
        yield Figure(f"ms by the roofline of {machine.name}", report.milliseconds, puzzle.milliseconds)
    if puzzle.gigabytes is not None:
        yield Figure("GB through global memory", sum(each.global_bytes for each in launches) / 1e9, puzzle.gigabytes)
    if puzzle.loads is not None:
        elements = sum(each.loads("global").evaluate(puzzle.sizes) for each in launches)
        yield Figure("elements loaded from global memory", float(elements), puzzle.loads)
    if puzzle.conflict is not None:
        worst = max(each.conflicts for each in launches)
        yield Figure("wavefronts of shared memory for each one needed", worst, puzzle.conflict)
    if puzzle.launches is not None:
        yield Figure("launches", len(launches), puzzle.launches)


def _unmet(puzzle: Puzzle, scheduled: api.Scheduled, figures: list[Figure], report: StepReport) -> UnmetDemand:
    slowest = max(report.launches, key=lambda launch: launch.prediction.milliseconds)
    message = f"'{scheduled.core.name}' is right and proved, but takes {' and '.join(map(str, figures))}"
    look = f"tilegen explain shows where that is, with --machine {puzzle.machine} --size {puzzle.size_words}"
    return UnmetDemand(message, witness=_witness(slowest), notes=(puzzle.hint, look))


def _witness(launch: LaunchReport) -> str:
    """What a launch spends most on."""
    bounds = sorted(launch.prediction.bounds.items(), key=lambda item: -item[1])[:2]
    parts = " and ".join(f"{_rounded(ms)} ms for {name}" for name, ms in bounds)
    return f"'{launch.name}' takes {parts}, and moves {_rounded(launch.global_bytes / 1e9)} GB"
