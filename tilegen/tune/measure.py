"""Checks and times a candidate on the device, which nothing else may time on meanwhile."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from tilegen import api
from tilegen.backends.calls.device_program import Program
from tilegen.backends.calls.engine import Engine
from tilegen.backends.devices.devices import InterpreterEngine, engine
from tilegen.errors import DeviceError
from tilegen.ir.comparison.tolerance import Tolerance, tolerance_of
from tilegen.ir.nodes import Kernel
from tilegen.lab.checks.agreement import Agreement
from tilegen.lab.checks.check import Case, cases, check
from tilegen.lab.checks.sizes import limits_of_check, sizes_to_check
from tilegen.lab.measure.beside import Library
from tilegen.lab.measure.conditions import Watch, device_of
from tilegen.lab.measure.timing import Runs, check_agreement, hold_library, random_sets, time_programs
from tilegen.lab.measure.trust import is_known
from tilegen.lab.predict.cost import require_memory_of_machine, require_timing_memory
from tilegen.lab.records.records import Device
from tilegen.tune.prepare import Seconds, apply, clock
from tilegen.tune.space import Candidate
from tilegen.tune.task import Outcome, Task

_SAMPLES = 15
_FEW = 3  # samples of a candidate that is far from the best
_FAR = 1.5  # times the best
_HOPELESS = 4.0  # times the best: one run tells enough of what takes
_LONG = 2.0  # milliseconds and more; of a shorter one, most may be its launch


def find_device(task: Task) -> Device:
    """The device that candidates are timed on here. Raises DeviceError where there is none to time on."""
    found = engine(task.device)
    if isinstance(found, InterpreterEngine):
        raise DeviceError("nothing can be timed here: there is neither a GPU nor OpenCL", notes=("tilegen doctor",))
    return device_of(found)


def require_memory(task: Task) -> None:
    """Raises DeviceError where the device, or the machine of predictions, has too little memory at these sizes."""
    kernel = api.from_text(next(iter(task.texts.values()))).kernel(task.kernel, **task.values)
    trees = [kernel.schedule().tree]
    if task.predicts and task.machine:
        require_memory_of_machine(trees, task.sizes, task.machine)
    else:
        require_timing_memory(trees, task.sizes, engine(task.device))


def is_working(task: Task) -> bool:
    """True if the device still works: after a fault, a GPU refuses everything of the process."""
    try:
        engine(task.device).synchronize()
    except Exception:  # a library's own
        return False
    return True


def measure(task: Task, candidate: Candidate, best: float | None, seconds: Seconds) -> Outcome:
    """The times of a candidate, once its results are right.

    Args:
        best: milliseconds; a candidate far from it gets few samples.

    Raises:
        WrongResult: they are not. DeviceError: the device fails.
    """
    with clock(seconds, "judge"):
        scheduled = apply(task, candidate)
    runs_on = engine(task.device)
    with clock(seconds, "compile"):
        program = scheduled.compile(task.device, unproved=task.unproved)
    with alone_on(runs_on):
        with clock(seconds, "check"):
            tried = _cases_of(program, runs_on)
            trials = check(program, tried)
        checks = tuple(asdict(trial) for trial in trials)
        if task.predicts:
            return Outcome(candidate, "unmeasured", checks=checks)
        with clock(seconds, "time"):
            bench = _bench(scheduled.kernel.written_kernel, task.device, tuple(task.sizes.items()))
            with Watch(runs_on) as watch:
                samples = bench.time(program, best)
    return Outcome(candidate, "measured", samples=tuple(samples), checks=checks, conditions=watch.conditions())


def measure_together(task: Task, candidates: Sequence[Candidate]) -> Mapping[Candidate, tuple[float, ...]]:
    """The milliseconds of several candidates, which take turns; of those that can run."""
    runs_on = engine(task.device)
    programs = {str(each): apply(task, each).compile(task.device, unproved=task.unproved) for each in candidates}
    samples: dict[str, list[float]] = {}
    with alone_on(runs_on):
        time_programs(programs, runs_on, task.sizes, lambda what, done, total: None, samples)
    return {each: tuple(samples[str(each)]) for each in candidates if samples.get(str(each))}


# -- checks


def _cases_of(program: Program, runs_on: Engine) -> list[Case]:
    kernel = program.kernel.meant_kernel
    sizes = sizes_to_check([program.tree], {}, limits_of_check(runs_on))
    tolerance = tolerance_of(program.tree)
    return [case for each in sizes for case in _cases_at(kernel, tuple(each.items()), tolerance)]


@lru_cache(maxsize=16)
def _cases_at(kernel: Kernel, sizes: tuple[tuple[str, int], ...], tolerance: Tolerance) -> list[Case]:
    return cases(kernel, [dict(sizes)], tolerance)


# -- times


class Bench:
    """The arrays that all candidates of a kernel, as written, are timed on, and what their results have to be."""

    def __init__(self, kernel: Kernel, runs_on: Engine, sizes: Mapping[str, int]) -> None:
        self._engine, self._sizes = runs_on, sizes
        self._sets = random_sets(runs_on, kernel.meant_kernel, sizes)
        self._agreement = Agreement(kernel, runs_on.xp, sizes, self._sets)
        hold_library(Library(kernel, runs_on, sizes), self._agreement)

    def time(self, program: Program, best: float | None) -> list[float]:
        """Milliseconds of samples, until their median is known to within 1 %; the fewer, the farther from `best`.

        Raises:
            WrongResult: a result is not right at these sizes. DeviceError: the device fails.
        """
        require_timing_memory([program.tree], self._sizes, self._engine)
        first = program.bind(self._sizes, self._sets[0])
        self._engine.time([first])
        once = self._engine.time([first])
        if best is not None and once > max(_LONG, _HOPELESS * best):
            return [once]
        runs = Runs(self._engine, [program.bind(self._sizes, arrays) for arrays in self._sets])
        check_agreement(self._agreement, runs, tolerance_of(program.tree))
        samples: list[float] = []
        for round_ in range(_SAMPLES):
            samples.append(runs.sample(round_))
            far = len(samples) >= _FEW and best is not None and min(samples) > _FAR * best
            if far or is_known(samples):
                break
        return samples


@lru_cache(maxsize=1)
def _bench(kernel: Kernel, device: str, sizes: tuple[tuple[str, int], ...]) -> Bench:
    return Bench(kernel, engine(device), dict(sizes))


# -- one at a time


@contextmanager
def alone_on(runs_on: Engine) -> Iterator[None]:
    """Waits until no other process of tilegen's tuning checks or times on the device, and keeps others waiting."""
    try:
        import fcntl
    except ImportError:  # a system without such locks
        yield
        return
    name = hashlib.sha256(_key_of(runs_on).encode()).hexdigest()[:16]
    path = Path(gettempdir(), f"tilegen-{os.getuid()}-{name}.lock")
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _key_of(runs_on: Any) -> str:
    """What tells the device from others of this machine."""
    if not runs_on.on_gpu:
        return str(runs_on.name)
    ordinal = runs_on.ordinal
    return str(runs_on.xp.cuda.runtime.deviceGetPCIBusId(ordinal))
