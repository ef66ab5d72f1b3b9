"""The children of one machine: some prepare candidates, and for each GPU one checks and times them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib.util import find_spec
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from threading import Lock
from time import perf_counter
from typing import Any

from tilegen.backends.system.store import BOUND, DEFAULT_BOUND, FOLDER, store
from tilegen.errors import DeviceError, UsageError
from tilegen.installation import install_extra
from tilegen.lab.records.records import Device
from tilegen.tune.child import answer
from tilegen.tune.children import ChildLost, Pool, Work
from tilegen.tune.space import Candidate
from tilegen.tune.task import LOST, Outcome, Samples, Task

_MOST_PREPARERS = 16
# A child does not take files of the current folder for modules of Python's; and where all cores have a child, products
# of matrices on several threads each would wait for each other.
_OF_CHILDREN = {"PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Limits:
    """Of each process: seconds for preparing a candidate, as many again for checking and timing it; bytes."""

    seconds: float = 60.0
    memory: float = 8e9


class Station:
    """Evaluates the candidates of a task in children of this machine; several threads may call it at once.

    Attributes:
        task: `begin` sets it.
        width: the number of candidates at once.
    """

    def __init__(
        self,
        device: str,
        gpus: Sequence[str] = (),
        limits: Limits = Limits(),
        *,
        preparers: int | None = None,
        work: Work = answer,
    ) -> None:
        """`gpus` as CUDA_VISIBLE_DEVICES names them; none for the device that is current, or a CPU.

        Raises DeviceError where the package is missing that runs processes within limits.
        """
        if not find_spec("pebble"):
            notes = (install_extra("tune"),)
            raise DeviceError("tune needs the package pebble, which is not installed", notes=notes)
        self.task, self._limits = Task("", {}, {}, {}, device), limits
        self._folder = folder = TemporaryDirectory(prefix="tilegen-tune-")
        shared: dict[str, str] = {}
        if store().reason_not_used():  # what one child finds out the others take from the cache
            shared = {FOLDER: folder.name, BOUND: str(DEFAULT_BOUND)}
        environments = [{**shared, "CUDA_VISIBLE_DEVICES": gpu} for gpu in gpus] or [shared]
        timers = [Pool(1, work, each, limits.memory, folder.name) for each in environments]
        preparers = preparers or max(1, min(_MOST_PREPARERS, (os.cpu_count() or 1) - 1))
        self._preparing = Pool(preparers, work, shared, limits.memory, folder.name)
        self._pools = (self._preparing, *timers)
        self._idle = SimpleQueue[Pool]()  # timers with nothing to do
        for timer in timers:
            self._idle.put(timer)
        self.timers, self.width, self._over = len(timers), preparers + len(timers), False
        self._threads = ThreadPoolExecutor(self.width)
        # What else runs on a CPU that is timed makes its times longer.
        self._one_at_a_time: AbstractContextManager[Any] = nullcontext()
        self._environment = {name: os.environ.get(name) for name in _OF_CHILDREN}
        os.environ.update(_OF_CHILDREN)

    def find_device(self) -> Device:
        """The device that is timed on. Raises DeviceError where it cannot be, UsageError where GPUs differ."""
        asked = [self._threads.submit(self._ask_plainly, "device") for _ in range(self.timers)]
        found = require_same([each.result() for each in asked])
        if not found.on_gpu:
            self._one_at_a_time = Lock()
        return found

    def begin(self, task: Task) -> None:
        """Takes up a task. Raises DeviceError where the device has too little memory for its sizes."""
        self.task = task
        self._ask_plainly("memory")

    def submit(self, candidate: Candidate, best: float | None) -> Future[Outcome]:
        """What will become of a candidate; `best` milliseconds are the fewest so far."""
        return self._threads.submit(self.evaluate, candidate, best)

    def evaluate(self, candidate: Candidate, best: float | None) -> Outcome:
        """What becomes of a candidate."""
        start = perf_counter()
        with self._one_at_a_time:
            ready = self._ask(self._preparing, "prepare", candidate, best)
            if ready.state != "measured":
                return ready
            timer = self._idle.get()
            try:
                found = self._ask(timer, "measure", candidate, best)
            finally:
                self._idle.put(timer)
        parts = {
            name: ready.seconds.get(name, 0.0) + found.seconds.get(name, 0.0)
            for name in (*ready.seconds, *found.seconds)
        }
        parts["waiting"] = max(0.0, perf_counter() - start - sum(parts.values()))
        return replace(found, predicted=ready.predicted, modelled=ready.modelled, built=ready.built, seconds=parts)

    def time_together(self, candidates: Sequence[Candidate]) -> Samples:
        """The milliseconds of candidates that take turns, of those that can run. Raises DeviceError."""
        found: Samples = self._ask_plainly("together", list(candidates))
        return found

    def abandon(self) -> None:
        """Ends what is under way; no more candidates are evaluated."""
        self._over = True
        self._end(Pool.give_up)

    def close(self) -> None:
        """Ends all children at once."""
        self._over = True
        self._end(Pool.close)
        self._threads.shutdown(cancel_futures=True)
        self._folder.cleanup()
        for name, value in self._environment.items():
            os.environ.pop(name)
            os.environ.update({} if value is None else {name: value})

    def _end(self, end: Callable[[Pool], None]) -> None:
        with ThreadPoolExecutor(len(self._pools)) as threads:
            list(threads.map(end, self._pools))

    def _ask(self, pool: Pool, what: str, candidate: Candidate, best: float | None) -> Outcome:
        start = perf_counter()
        try:
            if self._over:
                raise ChildLost("killed", "the run has ended")
            found: Outcome = pool.ask(what, self.task, candidate, best, seconds=self._limits.seconds)
        except ChildLost as lost:
            part = "compile" if what == "prepare" else "time"
            return Outcome(candidate, lost.state, lost.message, seconds={part: perf_counter() - start})
        if what == "measure" and found.state in LOST:
            pool.give_up()
        return found

    def _ask_plainly(self, what: str, *arguments: Any) -> Any:
        """What the timer answers that has had nothing to do for the longest time. Raises DeviceError."""
        timer = self._idle.get()
        try:
            found = timer.ask(what, self.task, *arguments, seconds=10 * self._limits.seconds)
            if isinstance(found, DeviceError):
                timer.give_up()
                raise found
            return found
        except ChildLost as lost:
            raise DeviceError(f"the device cannot be timed on: {lost.message}") from None
        finally:
            self._idle.put(timer)


def require_same(found: Sequence[Device]) -> Device:
    """The device that all of these are. Raises UsageError where they differ."""
    names = sorted({each.name for each in found})
    if len(names) > 1:
        notes = (f"they are {', '.join(names)}; --gpus chooses among those of one machine",)
        raise UsageError("times of different devices cannot be compared", notes=notes)
    return found[0]
