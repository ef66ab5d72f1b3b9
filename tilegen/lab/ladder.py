"""Checks and times the program after every step of a schedule, and predicts its time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tilegen.backends.device_program import Program
from tilegen.backends.devices import InterpreterEngine, program
from tilegen.backends.engine import Engine
from tilegen.errors import TilegenError, UsageError
from tilegen.ir.nodes import Kernel, Tree
from tilegen.ir.shown import ShownAsTable, Table
from tilegen.ir.tolerance import tolerance_of
from tilegen.lab.check import Case, Trial, cases_by_tolerance, check
from tilegen.lab.conditions import Watch
from tilegen.lab.cost import require_memory_of_machine, require_timing_memory
from tilegen.lab.explain import MOST_KEPT, LaunchReport, StepReport, explain, stages_by_line
from tilegen.lab.machine import Machine, machine_here
from tilegen.lab.metric import rate, unit
from tilegen.lab.records import Conditions
from tilegen.lab.sizes import CPU_LIMITS, GPU_LIMITS, limits_of_check, points, power_sizes, sizes_to_check
from tilegen.lab.timing import CPU_NOTE, Progress, Time, Timings, cells_of_time, summarise, time_programs
from tilegen.lab.trust import doubts_of_conditions, doubts_of_samples
from tilegen.schedule import Derivation

# A prefix is not timed if one run is expected to take longer, in milliseconds.
GPU_LIMIT = 100.0
CPU_LIMIT = 2000.0
# Iterations that a core executes in a millisecond: an order of magnitude is enough here.
_CPU_POINTS = 1e6


@dataclass(frozen=True)
class Rung:
    """The program after one line of the schedule.

    Attributes:
        step: the line, None for the kernel as written.
        launches: what is known of it without running it; empty where it cannot be launched.
        same: it is the program of the rung before, whose figures hold.
        error: why it cannot be launched, or what is wrong with it. `exit_code` is that of the error, 0 for a
            prefix of the schedule that merely cannot be launched.
        untimed: why it was not timed; where it has no `trials`, it was not checked either.
        time: one run; `rate` in the ladder's unit.
        gain: times as fast as the last rung that was timed; 1 where the spreads of both overlap. Of a ladder that is
            not timed, `rate` and `gain` are those of the predicted time.
        samples: milliseconds in their order; `doubts` say why their median is not to be trusted.
    """

    step: str | None
    place: str
    launches: tuple[LaunchReport, ...] = ()
    same: bool = False
    trials: tuple[Trial, ...] = ()
    error: str | None = None
    exit_code: int = 0
    untimed: str | None = None
    time: Time | None = None
    rate: float | None = None
    gain: float | None = None
    samples: tuple[float, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def predicted_time(self) -> float | None:
        """Milliseconds that the roofline allows at best."""
        return sum(launch.prediction.milliseconds for launch in self.launches) if self.launches else None

    @property
    def limit(self) -> str:
        """The part of the machine that its slowest launch waits for."""
        slowest = max(self.launches, key=lambda launch: launch.prediction.milliseconds, default=None)
        return slowest.prediction.limit if slowest else ""


@dataclass(frozen=True, repr=False)
class Ladder(ShownAsTable):
    """The rungs in the order of the schedule's lines, then the library's time where there is one.

    `limit` is the time in milliseconds past which a prefix was not timed; `beside` says what the library's call is.
    One that is not `timed` has predictions alone. `doubts` say why no time is to be trusted, under the `conditions`
    that the GPU was in.
    """

    kernel: str
    schedule: str
    sizes: Mapping[str, int]
    device: str
    on_gpu: bool
    machine: Machine
    unit: str
    limit: float
    rungs: tuple[Rung, ...]
    rival: str | None = None
    rival_time: Time | None = None
    rival_rate: float | None = None
    beside: tuple[str, ...] = ()
    timed: bool = True
    conditions: Conditions | None = None
    doubts: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where it ran, for the head of a table; if it is not timed, the machine that it is predicted for."""
        return f"on {self.device}" if self.timed else f"for one {self.machine.name}, checked on {self.device}"

    def table(self) -> Table:
        """A row for each step."""
        sizes = " ".join(f"{name}={value}" for name, value in self.sizes.items())
        heads = ("step", "check", "registers", "predicted ms", "ms", "p20..p80", self.unit, "gain", "")
        rows = [*map(_cells, self.rungs)]
        if self.rival:
            rows.append((self.rival, "", "", "", *cells_of_time(self.rival_time, self.rival_rate), "", ""))
        notes = self.beside if self.on_gpu or not self.timed else (*self.beside, CPU_NOTE)
        return Table(f"{self.kernel}, schedule {self.schedule}  {sizes}  {self.place}", heads, rows, notes)


def _cells(rung: Rung) -> tuple[str, ...]:
    step = rung.step or "as written"
    if rung.same:
        return (step, *[""] * 7, "the same program")
    if rung.error and not rung.exit_code:
        return (step, *[""] * 7, f"cannot be launched: {rung.error}")
    check = "failed" if rung.error else "ok" if rung.trials else ""
    registers = [launch.resources.registers for launch in rung.launches if launch.resources]
    figures = (str(max(registers)) if registers else "", f"{rung.predicted_time or 0:.3g}")
    gain = f"x {rung.gain:.2f}" if rung.gain else ""
    return (step, check, *figures, *cells_of_time(rung.time, rung.rate), gain, rung.error or rung.untimed or "")


class LadderRun:
    """A ladder under way: `result` gives the rungs so far at any time, while `run` fills them."""

    def __init__(
        self,
        derivation: Derivation,
        engine: Engine,
        given: Mapping[str, int],
        *,
        limit: float | None = None,
        machine: Machine | None = None,
        progress: Progress = lambda what, done, total: None,
        unproved: bool = False,
    ) -> None:
        """Chooses sizes; nothing is compiled yet.

        Args:
            given: sizes to time at; the others are chosen. The checks are at small sizes of their own.
            limit: milliseconds that a run of a prefix may be expected to take.
            progress: gets what is going on, how many parts of it are done, and of how many.
            unproved: True lets run what the proof leaves open.
            machine: whose times are predicted; then nothing is timed. None predicts beside the times, for the GPU here.

        Raises:
            UsageError: sizes that the kernel does not admit, or a limit that is no time.
            DeviceError: too little memory for them.
        """
        if limit is not None and not limit >= 0:
            raise UsageError(f"limit is {limit}, and it is milliseconds, from 0 on")
        self._derivation, self._engine, self._timed = derivation, engine, machine is None
        self._machine = machine or machine_here()
        self._limit = (GPU_LIMIT if engine.on_gpu else CPU_LIMIT) if limit is None else limit
        self._sizes = power_sizes(derivation.kernel, given, GPU_LIMITS if engine.on_gpu or machine else CPU_LIMITS)
        if machine:
            require_memory_of_machine([derivation.tree], self._sizes, machine)
        else:
            require_timing_memory([derivation.tree], self._sizes, engine)
        self._progress, self._unproved = progress, unproved
        self._rungs: list[Rung] = []
        self._samples: dict[str, list[float]] = {}
        self._done = Timings()
        self._watch = Watch(engine)

    def run(self) -> Ladder:
        """Predicts, checks and times all rungs: the whole `result`.

        Raises:
            DeviceError: the device fails. A prefix that is wrong does not raise: its rung says so.
        """
        engine, sizes = self._engine, self._sizes
        explanation = explain(self._derivation, sizes, machine=self._machine, progress=self._progress)
        trees = [stage.tree for stage in stages_by_line(self._derivation.stages)]
        self._rungs = [_skip_if_large(rung, engine) for rung in _rungs_of(explanation.steps)]
        programs = {
            n: program(trees[n], engine, unproved=self._unproved)
            for n, rung in enumerate(self._rungs)
            if rung.launches and not rung.same and not rung.untimed
        }
        self._check(trees, programs)
        if not self._timed:
            return self.result()
        self._rungs = [_skip_if_slow(r, self._derivation.kernel, engine, sizes, self._limit) for r in self._rungs]
        chosen = {str(n): p for n, p in programs.items() if not self._rungs[n].error and not self._rungs[n].untimed}
        self._done = time_programs(chosen, engine, sizes, self._progress, self._samples, watch=self._watch)
        for name, error in self._done.errors.items():
            self._rungs[int(name)] = _with_error(self._rungs[int(name)], error)
        return self.result()

    def _check(self, trees: list[Tree], programs: Mapping[int, Program]) -> None:
        if not programs:
            return
        self._progress("reference", 0, 1)
        sizes = sizes_to_check([trees[n] for n in programs], {}, limits_of_check(self._engine))
        tried = cases_by_tolerance(trees[0].kernel, (each.tree for each in programs.values()), sizes)
        for number, (n, each) in enumerate(programs.items()):
            self._progress(f"check {self._rungs[n].step or 'as written'}", number, len(programs))
            self._rungs[n] = _check_rung(self._rungs[n], each, tried[tolerance_of(each.tree)])

    def result(self) -> Ladder:
        """All rungs, with the results so far."""
        kernel, sizes, engine, done = self._derivation.kernel, self._sizes, self._engine, self._done
        shown = unit(kernel, sizes, engine.on_gpu or not self._timed)
        rungs = list(self._rungs)
        if not self._timed:
            settings = (engine.name, engine.on_gpu, self._machine, shown, self._limit)
            found = _with_predicted_gains(rungs, lambda milliseconds: rate(kernel, sizes, milliseconds, shown))
            return Ladder(kernel.name, self._derivation.name, sizes, *settings, found, timed=False)
        for name, samples in list(self._samples.items()):
            if name.isdecimal() and samples:
                time, doubts = summarise(samples), doubts_of_samples(samples)
                rung = replace(rungs[int(name)], time=time, rate=rate(kernel, sizes, time.median, shown))
                rungs[int(name)] = replace(rung, samples=tuple(samples), doubts=doubts)
        best = done.times.get(done.rival) if done.rival else None
        best_rate = rate(kernel, sizes, best.median, shown) if best else None
        settings = (engine.name, engine.on_gpu, self._machine, shown, self._limit)
        named = (kernel.name, self._derivation.name, sizes, *settings, _with_gains(rungs))
        conditions = self._watch.conditions()
        state = (True, conditions, doubts_of_conditions(conditions, 0.0))
        return Ladder(*named, done.rival, best, best_rate, done.beside, *state)


def _rungs_of(steps: tuple[StepReport, ...]) -> list[Rung]:
    """A rung for each step; one with the same launches as the step before is marked."""
    rungs: list[Rung] = []
    before: tuple[LaunchReport, ...] = ()
    for step in steps:
        same = bool(step.launches) and step.launches is before
        code = step.exit_code if step is steps[-1] else 0
        rungs.append(Rung(step.step, step.place, step.launches, same, error=step.error, exit_code=code))
        before = step.launches
    return rungs


def _skip_if_large(rung: Rung, engine: Engine) -> Rung:
    """`rung`; with a reason, if a compiler for GPUs takes minutes for what its threads keep."""
    kept = max((launch.kept for launch in rung.launches), default=0)
    if not engine.on_gpu or kept <= MOST_KEPT:
        return rung
    return replace(rung, untimed=f"not compiled: a thread keeps {kept} bytes in registers")


def _check_rung(rung: Rung, each: Program, tried: list[Case]) -> Rung:
    try:
        return replace(rung, trials=check(each, tried))
    except TilegenError as error:
        return _with_error(rung, error)


def _with_error(rung: Rung, error: TilegenError) -> Rung:
    return replace(rung, error=error.render(), exit_code=error.exit_code)


def _skip_if_slow(rung: Rung, kernel: Kernel, engine: Engine, sizes: Mapping[str, int], limit: float) -> Rung:
    """`rung`; with a reason, if it is too slow to be timed."""
    if rung.same or rung.error or rung.untimed or rung.predicted_time is None:
        return rung
    if isinstance(engine, InterpreterEngine):
        return replace(rung, untimed="the interpreter is not timed")
    expected = rung.predicted_time if engine.on_gpu else points(kernel, sizes) / _CPU_POINTS
    if expected <= limit:
        return rung
    return replace(rung, untimed=f"not timed: {expected / 1e3:.3g} s or more")


def _with_predicted_gains(rungs: list[Rung], rate_of: Callable[[float], float]) -> tuple[Rung, ...]:
    """The rungs with the rates and the gains of their predicted times."""
    found: list[Rung] = []
    before: float | None = None
    for rung in rungs:
        if (least := rung.predicted_time) and not rung.same:
            rung = replace(rung, rate=rate_of(least), gain=before / least if before else None)
            before = least
        found.append(rung)
    return tuple(found)


def _with_gains(rungs: list[Rung]) -> tuple[Rung, ...]:
    """The rungs with their gain over the last one that was timed, 1 where the spreads overlap."""
    found: list[Rung] = []
    before: Time | None = None
    for rung in rungs:
        if rung.time and before:
            apart = rung.time.p80 < before.p20 or before.p80 < rung.time.p20
            rung = replace(rung, gain=before.median / rung.time.median if apart else 1.0)
        before = rung.time or before
        found.append(rung)
    return tuple(found)
