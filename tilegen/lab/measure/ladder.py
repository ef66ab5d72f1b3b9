"""Checks and times the program after every step of a schedule, and predicts its time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tilegen.backends.calls.engine import Engine
from tilegen.backends.devices.devices import InterpreterEngine, program
from tilegen.errors import TilegenError, UsageError
from tilegen.ir.nodes import Kernel
from tilegen.ir.printing.shown import ShownAsTable, Table, size_words
from tilegen.lab.checks.sizes import points
from tilegen.lab.measure.timing import CPU_NOTE, Progress, Time, Timings, cells_of_time, time_programs
from tilegen.lab.measure.tried import Run, Tried
from tilegen.lab.measure.trust import doubts_of_conditions
from tilegen.lab.predict.explain import MOST_KEPT, explain, stages_by_line
from tilegen.lab.predict.explanation import Explanation, StepReport
from tilegen.lab.predict.machine import Machine, machine_here
from tilegen.lab.records.records import Conditions
from tilegen.schedule import Derivation

# A prefix is not timed if one run is expected to take longer, in milliseconds.
GPU_LIMIT = 100.0
CPU_LIMIT = 2000.0
# Iterations that a core executes in a millisecond: an order of magnitude is enough here.
_CPU_POINTS = 1e6


@dataclass(frozen=True)
class Rung(Tried, StepReport):
    """The program after one line of the schedule, None for the kernel as written.

    Attributes:
        error: why it cannot be launched, or what is wrong with it. `exit_code` is 0 for a prefix of the schedule that
            merely cannot be launched.
        untimed: why it was not timed; where it has no `trials`, it was not checked either.
        gain: times as fast as the last rung that was timed; 1 where the spreads of both overlap. Of a ladder that is
            not timed, it is that of the predicted time.
    """

    untimed: str | None = None
    gain: float | None = None

    @property
    def predicted_time(self) -> float | None:
        """Milliseconds that the roofline allows at best."""
        return self.milliseconds if self.launches else None

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
        word = "ms" if self.on_gpu else f"{self.device.split()[0]} ms"
        times = (word, "p20..p80", self.unit) if self.timed else ("limit", f"{self.unit} at most")
        heads = ("step", "check", "grid x block", "regs", "predicted ms", *times, "gain", "")
        rows = [self._cells(rung, before) for rung, before in zip(self.rungs, (None, *self.rungs), strict=False)]
        if self.rival:
            rows.append((self.rival, "", "", "", "", *cells_of_time(self.rival_time, self.rival_rate), "", ""))
        notes = self.beside if self.on_gpu or not self.timed else (*self.beside, CPU_NOTE)
        title = f"{self.kernel}, schedule {self.schedule}  {size_words(self.sizes)}  {self.place}"
        return Table(title, heads, rows, notes)

    def _cells(self, rung: Rung, before: Rung | None) -> tuple[str, ...]:
        """The cells of a rung after another one, whose reasons are not said again."""
        empty = [""] * (8 if self.timed else 7)
        if rung.same:
            return (rung.name, *empty, "the same program")
        if rung.error and not rung.exit_code:
            again = before is not None and before.error == rung.error
            return (rung.name, *empty, f"cannot be launched{', as before' if again else f': {rung.error}'}")
        shape = ", ".join(f"{launch.blocks} x {launch.threads}" for launch in rung.launches)
        registers = [launch.resources.registers for launch in rung.launches if launch.resources]
        least = f"{rung.predicted_time or 0:.3g}" if rung.launches else ""
        rate = f"{rung.rate:.4g}" if rung.rate else ""
        times = cells_of_time(rung.time, rung.rate) if self.timed else (rung.limit, rate)
        gain = f"x {rung.gain:.2f}" if rung.gain else ""
        slower = "" if not self.on_gpu or rung.gain is None or rung.gain > 1 else "slower"
        remark = rung.untimed or ("no faster" if rung.gain == 1 and slower else slower)
        return (rung.name, rung.verdict, shape, str(max(registers, default="")), least, *times, gain, remark)


class LadderRun(Run):
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
        super().__init__(derivation.kernel, [derivation.tree], engine, given, progress, machine)
        self._derivation, self._unproved = derivation, unproved
        self._limit = (GPU_LIMIT if engine.on_gpu else CPU_LIMIT) if limit is None else limit
        self._rungs: list[Rung] = []
        self._done = Timings()

    def run(self) -> Ladder:
        """Predicts, checks and times all rungs: the whole `result`.

        Raises:
            DeviceError: the device fails. A prefix that is wrong does not raise: its rung says so.
        """
        engine, sizes, machine = self._engine, self._sizes, self._machine or machine_here()
        explanation = explain(self._derivation, sizes, machine=machine, progress=self._progress)
        trees = [stage.tree for stage in stages_by_line(self._derivation.stages)]
        self._rungs = [_skip_if_large(rung, engine) for rung in rungs_of(explanation)]
        programs = {
            n: program(trees[n], engine, unproved=self._unproved)
            for n, rung in enumerate(self._rungs)
            if rung.launches and not rung.same and not rung.untimed
        }
        for n, found in self._check(programs, lambda n: self._rungs[n].name):
            rung = self._rungs[n]
            self._rungs[n] = rung.with_error(found) if isinstance(found, TilegenError) else replace(rung, trials=found)
        if self._machine:
            return self.result()
        self._rungs = [_skip_if_slow(rung, self._kernel, engine, sizes, self._limit) for rung in self._rungs]
        chosen = {str(n): p for n, p in programs.items() if not self._rungs[n].error and not self._rungs[n].untimed}
        self._done = time_programs(chosen, engine, sizes, self._progress, self._samples, watch=self._watch)
        for name, error in self._done.errors.items():
            self._rungs[int(name)] = self._rungs[int(name)].with_error(error)
        return self.result()

    def result(self) -> Ladder:
        """All rungs, with the results so far."""
        engine, done, rungs = self._engine, self._done, list(self._rungs)
        named = (self._kernel.name, self._derivation.name, self._sizes, engine.name, engine.on_gpu)
        settings = (self._machine or machine_here(), self._unit, self._limit)
        if self._machine:
            return Ladder(*named, *settings, _with_predicted_gains(rungs, self._rate), timed=False)
        for name, samples in list(self._samples.items()):
            if name.isdecimal() and samples:
                rungs[int(name)] = replace(rungs[int(name)], **self._figures(samples))
        best = done.times.get(done.rival) if done.rival else None
        best_rate = self._rate(best.median) if best else None
        conditions = self._watch.conditions()
        state = (True, conditions, doubts_of_conditions(conditions, 0.0))
        return Ladder(*named, *settings, _with_gains(rungs), done.rival, best, best_rate, done.beside, *state)


def rungs_of(found: Explanation) -> list[Rung]:
    """A rung for each step."""
    codes = [0] * (len(found.steps) - 1) + [found.steps[-1].exit_code]
    return [
        Rung(step.step, step.place, step.launches, step.same, error=step.error, exit_code=code)
        for step, code in zip(found.steps, codes, strict=True)
    ]


def _skip_if_large(rung: Rung, engine: Engine) -> Rung:
    """`rung`; with a reason, if a compiler for GPUs takes minutes for what its threads keep."""
    kept = max((launch.kept for launch in rung.launches), default=0)
    if not engine.on_gpu or kept <= MOST_KEPT:
        return rung
    return replace(rung, untimed=f"not compiled: a thread keeps {kept} bytes in registers")


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
