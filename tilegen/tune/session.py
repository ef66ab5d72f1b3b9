"""A tuning session: the space, the search, the children and the record of one run, put together."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tilegen import api
from tilegen.backends.devices import cuda
from tilegen.backends.system import gpus
from tilegen.errors import DeviceError, UsageError
from tilegen.ir.steps import Schedule, Setting
from tilegen.lab.checks.sizes import CPU_LIMITS, GPU_LIMITS, power_sizes
from tilegen.lab.predict.machine import H200, Machine, machine_of_device
from tilegen.lab.records.records import Device
from tilegen.tune.child import answer
from tilegen.tune.children import Work
from tilegen.tune.cluster import Cluster
from tilegen.tune.journal import Journal
from tilegen.tune.record import HEAD, check_head, head_line, outcomes_of, result_line
from tilegen.tune.search import search
from tilegen.tune.space import Space, require_candidates
from tilegen.tune.station import Limits, Station
from tilegen.tune.task import Outcome, Task
from tilegen.tune.tuning import Tuning


@dataclass(frozen=True)
class Wish:
    """How a session is to search.

    Attributes:
        budget: seconds.
        search: one of `search.SEARCHES`; None for tpe where Optuna is installed, else random.
        seed: None draws one.
        device: "auto", "cuda" or "cpu".
        gpus: "all", or numbers among those that are visible: "0,1".
        limits: of each process.
        machine: whose roofline prunes; None for that of the device, if it is known. Where "auto" finds no GPU its
            roofline, or that of an H200, ranks the candidates, and nothing is timed.
        dask: the address of a Dask scheduler, whose workers evaluate; None for this machine.
        unproved: take what the proof leaves open, too.
        work: what the children do.
    """

    budget: float = 600.0
    search: str | None = None
    seed: int | None = None
    device: str = "auto"
    gpus: str = "0"
    limits: Limits = field(default_factory=Limits)
    machine: Machine | None = None
    dask: str | None = None
    unproved: bool = False
    work: Work = answer


class Session:
    """One run on the devices of this machine, or of a Dask cluster; `with` ends its processes.

    Attributes:
        processes: how many candidates are evaluated at once.
    """

    def __init__(
        self,
        kernel: api.Kernel,
        schedules: Sequence[Schedule],
        record: str | Path,
        *,
        given: Mapping[str, Sequence[Setting]] = {},
        sizes: Mapping[str, int] = {},
        wish: Wish = Wish(),
        context: Mapping[str, Any] = {},
    ) -> None:
        """Starts the children, and opens the record; nothing is evaluated yet.

        Args:
            schedules: of the kernel, at least one.
            record: a file of JSON lines to begin, or to go on with.
            given: values of parameters, in place of the candidates in the heads of the schedules.
            sizes: to time at; those left out are chosen.
            context: what the head of the record is to say beside.

        Raises:
            UsageError: no candidates, unknown sizes, or the record of another kernel. DeviceError: nothing to time on.
        """
        self.kernel, self._context = kernel, context
        self.space = Space(tuple(schedules), given)
        require_candidates(self.space)
        kind = wish.search or ("tpe" if find_spec("optuna") else "random")
        seed = secrets.randbelow(2**31) if wish.seed is None else wish.seed
        self.wish = replace(wish, search=kind, seed=seed)
        found = search(kind, self.space, seed)
        self.journal = Journal(record, HEAD)
        with ExitStack() as ending:
            ending.callback(self.journal.close)
            workers = _workers(wish)
            ending.callback(workers.close)
            self.device = workers.find_device()
            self.task = _task(kernel, schedules, sizes, self.device, wish)
            if self.task.predicts and self.task.machine:
                self.device = replace(self.device, name=f"{self.device.name}, predicted for {self.task.machine.name}")
            workers.begin(self.task)
            self._begin()
            self._ending = ending.pop_all()
        self.processes = workers.width
        self.tuning = Tuning(found, workers, self.space.defaults(), wish.budget, self._keep)
        self.tuning.take(outcomes_of(self.journal.lines, self.space))

    def run(self, progress: Callable[[Tuning], None] = lambda tuning: None) -> None:
        """Searches, as `Tuning.run` does; the record has what it finds out, and at the end what was timed in turns."""
        self.tuning.progress = progress
        self.tuning.run()
        for candidate, samples in self.tuning.together.items():
            self._keep(Outcome(candidate, "measured", samples=samples), together=True)

    def _keep(self, outcome: Outcome, together: bool = False) -> None:
        self.journal.add(self.record_of(outcome, together))

    def record_of(self, outcome: Outcome, together: bool = False) -> dict[str, Any]:
        """An outcome as a record."""
        command = self._context.get("command")
        return result_line(outcome, self.task, self.device, self.kernel.ir.meant_kernel, command, together)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def _begin(self) -> None:
        """Writes the head of the record, or holds the one that is there against this session."""
        head = head_line(self.task, self.device, self.space, self._context)
        if self.journal.lines:
            check_head(self.journal, head)
        else:
            self.journal.add(head)


def _workers(wish: Wish) -> Station | Cluster:
    """What evaluates. Raises UsageError, DeviceError where there is no such device."""
    if wish.dask:
        return Cluster(wish.dask, wish.device, wish.limits, work=wish.work)
    device = _device(wish.device)
    return Station(device, visible_gpus(wish.gpus) if device == "cuda" else (), wish.limits, work=wish.work)


def _task(
    kernel: api.Kernel, schedules: Sequence[Schedule], sizes: Mapping[str, int], device: Device, wish: Wish
) -> Task:
    """What all candidates share. Raises UsageError for sizes that the kernel does not admit."""
    texts = {s.name: kernel.file.self_contained(s) for s in schedules}
    at = {name: value for name, value in sizes.items() if name in kernel.ir.sizes}
    predicts = wish.device == "auto" and not device.on_gpu and not wish.dask
    chosen = power_sizes(kernel.ir.meant_kernel, at, GPU_LIMITS if device.on_gpu or predicts else CPU_LIMITS)
    machine = wish.machine or (H200 if predicts else machine_of_device(device.name))
    word, arch = "cuda" if device.on_gpu else "cpu", machine.arch if predicts and machine else device.arch
    return Task(kernel.ir.name, texts, kernel.values, chosen, word, arch, machine, wish.unproved, predicts)


def _device(word: str) -> str:
    """`word` as engines know it, with "auto" decided. Raises UsageError for what nothing is timed on."""
    if word == "auto":
        return "cpu" if cuda.unavailable_reason() else "cuda"
    if word in ("gpu", "cuda"):
        if reason := cuda.unavailable_reason():
            raise DeviceError(reason, notes=("--device cpu times on the CPU",))
        return "cuda"
    if word != "cpu":
        raise UsageError(f"tune times on cuda or cpu, not on '{word}'")
    return word


def visible_gpus(words: str) -> tuple[str, ...]:
    """The GPUs that `words` chooses, "all" or "0,1" among those that are visible, as CUDA_VISIBLE_DEVICES names them.

    Raises UsageError for one that is not there.
    """
    there = gpus.visible()
    if words == "all":
        return there
    found = []
    for word in words.split(","):
        if not word.isdecimal() or len(word) > 9 or int(word) >= len(there):
            known = f"there are {len(there)}, counted from 0" if len(there) != 1 else "there is one, number 0"
            raise UsageError(f"--gpus takes all, or numbers of GPUs: there is no GPU '{word}'", notes=(known,))
        found.append(there[int(word)])
    return tuple(dict.fromkeys(found))
