"""The children of one machine: some prepare candidates, and for each GPU one checks and times them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from threading import Lock
from time import perf_counter
from typing import Any

from tilegen.backends.store import BOUND, DEFAULT_BOUND, FOLDER, store
from tilegen.errors import DeviceError, UsageError
from tilegen.lab.records import Device
from tilegen.tune.children import COMMAND, ChildLost, Pool
from tilegen.tune.space import Candidate
from tilegen.tune.task import Outcome, Task

_MOST_PREPARERS = 16


@dataclass(frozen=True)
class Limits:
    """Of each process: seconds for preparing a candidate, as many again for checking and timing it; bytes."""

    seconds: float = 60.0
    memory: float = 8e9


@dataclass(frozen=True)
class Timings:
    """Several candidates timed in turns: the milliseconds of each that could run."""

    samples: Mapping[Candidate, tuple[float, ...]]


class Station:
    """Evaluates candidates in children of this machine; several threads may call it at once."""

    def __init__(
        self,
        device: str,
        gpus: Sequence[str] = (),
        limits: Limits = Limits(),
        *,
        preparers: int | None = None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        """`gpus` as CUDA_VISIBLE_DEVICES names them; none for the device that is current, or a CPU."""
        self._device, self._limits = device, limits
        self._folder: TemporaryDirectory[str] | None = None
        shared: dict[str, str] = {}
        if store().reason_not_used():  # what one child finds out the others take from the cache
            self._folder = TemporaryDirectory(prefix="tilegen-tune-")
            shared = {FOLDER: self._folder.name, BOUND: str(DEFAULT_BOUND)}
        timers = [{**shared, "CUDA_VISIBLE_DEVICES": gpu} for gpu in gpus] or [shared]
        self.timers = len(timers)
        self.preparers = preparers or max(1, min(_MOST_PREPARERS, (os.cpu_count() or 1) - 1))
        self._timing = Pool(command, timers, limits.memory)
        self._preparing = Pool(command, [shared] * self.preparers, limits.memory)
        # What else runs on a CPU that is timed makes its times longer.
        self._one_at_a_time: AbstractContextManager[Any] = nullcontext()

    def find_device(self) -> Device:
        """The device that is timed on. Raises DeviceError where it cannot be, UsageError where GPUs differ."""
        task = Task("", {}, {}, {}, self._device)
        with ThreadPoolExecutor(self.timers) as threads:
            asked = [threads.submit(self._ask_plainly, ("device", task)) for _ in range(self.timers)]
        found = require_same([each.result() for each in asked])
        if not found.on_gpu:
            self._one_at_a_time = Lock()
        return found

    def require_memory(self, task: Task) -> None:
        """Raises DeviceError where the device has too little memory for the sizes of the task."""
        self._ask_plainly(("memory", task))

    def evaluator(self, task: Task) -> Local:
        """What evaluates the candidates of a task."""
        return Local(self, task)

    def evaluate(self, task: Task, candidate: Candidate, best: float | None) -> Outcome:
        """What becomes of a candidate; `best` milliseconds are the fewest so far."""
        start = perf_counter()
        with self._one_at_a_time:
            ready = self._ask(self._preparing, ("prepare", task, candidate, best), candidate)
            if ready.state != "measured":
                return ready
            found = self._ask(self._timing, ("measure", task, candidate, best), candidate)
        parts = {
            name: ready.seconds.get(name, 0.0) + found.seconds.get(name, 0.0)
            for name in (*ready.seconds, *found.seconds)
        }
        parts["waiting"] = max(0.0, perf_counter() - start - sum(parts.values()))
        return replace(found, predicted=ready.predicted, built=ready.built, seconds=parts)

    def time_together(self, task: Task, candidates: Sequence[Candidate]) -> Timings:
        """Times candidates in turns. Raises DeviceError."""
        return Timings(self._ask_plainly(("together", task, list(candidates))))

    def abandon(self) -> None:
        """Ends what is under way."""
        self._timing.abandon()
        self._preparing.abandon()

    def close(self) -> None:
        """Ends all children at once."""
        self._timing.close()
        self._preparing.close()
        if self._folder:
            self._folder.cleanup()

    def _ask(self, pool: Pool, request: tuple[Any, ...], candidate: Candidate) -> Outcome:
        start = perf_counter()
        try:
            found: Outcome = pool.ask(request, self._limits.seconds).value
        except ChildLost as lost:
            part = "compile" if request[0] == "prepare" else "time"
            return Outcome(candidate, lost.state, lost.message, seconds={part: perf_counter() - start})
        return found

    def _ask_plainly(self, request: tuple[Any, ...]) -> Any:
        try:
            found = self._timing.ask(request, 10 * self._limits.seconds).value
        except ChildLost as lost:
            raise DeviceError(f"the device cannot be timed on: {lost.message}") from None
        if isinstance(found, DeviceError):
            raise found
        return found


def require_same(found: Sequence[Device]) -> Device:
    """The device that all of these are. Raises UsageError where they differ."""
    names = sorted({each.name for each in found})
    if len(names) > 1:
        notes = (f"they are {', '.join(names)}; --gpus chooses among those of one machine",)
        raise UsageError("times of different devices cannot be compared", notes=notes)
    return found[0]


class Local:
    """A station behind threads: how a run hands candidates to the machine that it runs on."""

    def __init__(self, station: Station, task: Task) -> None:
        self._station, self._task = station, task
        self.width = station.preparers + station.timers
        self._threads = ThreadPoolExecutor(self.width)

    def submit(self, candidate: Candidate, best: float | None) -> Future[Outcome]:
        return self._threads.submit(self._station.evaluate, self._task, candidate, best)

    def time_together(self, candidates: Sequence[Candidate]) -> Timings:
        return self._station.time_together(self._task, candidates)

    def abandon(self) -> None:
        self._station.abandon()

    def close(self) -> None:
        self._station.close()
        self._threads.shutdown(wait=True, cancel_futures=True)
