"""Candidates on other hosts: a Dask cluster, in which each worker has a station of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar

from tilegen.errors import DeviceError, TilegenError, UsageError, first_line
from tilegen.installation import install_extra
from tilegen.lab.records import Device
from tilegen.tune.children import COMMAND
from tilegen.tune.space import Candidate
from tilegen.tune.station import Limits, Station, Timings, require_same
from tilegen.tune.task import Outcome, Task

T = TypeVar("T")

_CONNECT = 10.0  # seconds


class Cluster:
    """The workers of a Dask cluster that runs already: each evaluates as many candidates at once as it has threads.

    A worker times on the GPU that it sees first: where a host has several, it has a worker for each, which
    CUDA_VISIBLE_DEVICES tells apart, as `dask cuda worker` starts them.
    """

    def __init__(self, address: str, device: str, limits: Limits, *, command: Sequence[str] = COMMAND) -> None:
        """Connects to the scheduler. Raises DeviceError where Dask is not installed, or nothing answers."""
        try:
            from distributed import Client
        except ImportError:
            notes = (install_extra("dask"),)
            raise DeviceError(
                "several hosts need Dask's package distributed, which is not installed", notes=notes
            ) from None
        self._station = (device, limits, tuple(command))
        try:
            self._client: Any = Client(address, timeout=_CONNECT)
        except (OSError, TimeoutError, ValueError) as error:
            raise DeviceError(f"no Dask scheduler answers at {address}: {first_line(error)}") from None

    @property
    def workers(self) -> dict[str, int]:
        """The workers that are there now by their addresses, with the threads that each has."""
        found: dict[str, int] = self._client.nthreads()
        return found

    def find_device(self) -> Device:
        """The device of all workers. Raises DeviceError where there is none, UsageError where they differ."""
        if not self.workers:
            raise DeviceError("the Dask cluster has no workers", notes=("dask worker ADDRESS starts one",))
        asked = [self._executor(worker).submit(_find_device, self._station) for worker in self.workers]
        return require_same([each.result() for each in asked])

    def require_memory(self, task: Task) -> None:
        """Raises DeviceError where a worker's device has too little memory for the sizes of the task."""
        for worker in self.workers:
            self._executor(worker).submit(_require_memory, self._station, task).result()

    def evaluator(self, task: Task) -> Remote:
        """What evaluates the candidates of a task."""
        return Remote(self, task)

    def submit(self, task: Task, candidate: Candidate, best: float | None) -> Future[Outcome]:
        return _with_failure_as_outcome(
            self._executor().submit(_evaluate, self._station, task, candidate, best), candidate
        )

    def time_together(self, task: Task, candidates: Sequence[Candidate]) -> Timings:
        """Candidates timed in turns by one of the workers. Raises DeviceError."""
        found: Timings = (
            self._executor(next(iter(self.workers))).submit(_time_together, self._station, task, candidates).result()
        )
        return found

    def abandon(self) -> None:
        """Ends what is under way."""
        self._client.run(_abandon, self._station)

    def close(self) -> None:
        """Ends the children of all workers; the cluster itself stays."""
        try:
            self._client.run(_close, self._station)
        finally:
            self._client.close()

    def _executor(self, worker: str | None = None) -> Any:
        pinned = {"workers": [worker], "allow_other_workers": False} if worker else {}
        return self._client.get_executor(pure=False, **pinned)


class Remote:
    """The workers of a cluster behind futures: how a run hands candidates to other hosts."""

    def __init__(self, cluster: Cluster, task: Task) -> None:
        self._cluster, self._task = cluster, task

    @property
    def width(self) -> int:
        """Workers may come and go while a run is under way."""
        return max(1, sum(self._cluster.workers.values()))

    def submit(self, candidate: Candidate, best: float | None) -> Future[Outcome]:
        return self._cluster.submit(self._task, candidate, best)

    def time_together(self, candidates: Sequence[Candidate]) -> Timings:
        return self._cluster.time_together(self._task, candidates)

    def abandon(self) -> None:
        self._cluster.abandon()

    def close(self) -> None:
        self._cluster.close()


def _with_failure_as_outcome(asked: Future[Outcome], candidate: Candidate) -> Future[Outcome]:
    """The same future, of which a worker's failure is an outcome of the candidate."""
    found: Future[Outcome] = Future()
    found.set_running_or_notify_cancel()

    def take(done: Future[Outcome]) -> None:
        error = None if done.cancelled() else done.exception()
        if done.cancelled() or error is not None:
            message = f"its worker failed: {first_line(error)}" if error else "its worker is gone"
            found.set_result(Outcome(candidate, "killed", message))
        else:
            found.set_result(done.result())

    asked.add_done_callback(take)
    return found


# -- what runs in a worker

_Made = tuple[str, Limits, tuple[str, ...]]


@cache
def _stations() -> dict[_Made, Station]:
    """The stations of this worker."""
    return {}


def _station(made: _Made) -> Station:
    if made not in _stations():
        device, limits, command = made
        from distributed import get_worker

        _stations().setdefault(
            made, Station(device, (), limits, preparers=get_worker().state.nthreads, command=command)
        )
    return _stations()[made]


def _find_device(made: _Made) -> Device:
    return _plainly(_station(made).find_device)


def _require_memory(made: _Made, task: Task) -> None:
    _plainly(lambda: _station(made).require_memory(task))


def _evaluate(made: _Made, task: Task, candidate: Candidate, best: float | None) -> Outcome:
    return _station(made).evaluate(task, candidate, best)


def _time_together(made: _Made, task: Task, candidates: Sequence[Candidate]) -> Timings:
    return _plainly(lambda: _station(made).time_together(task, candidates))


def _plainly(work: Callable[[], T]) -> T:
    """What `work` gives; its errors as ones that pickle."""
    try:
        return work()
    except UsageError as error:
        raise UsageError(error.message, notes=error.notes) from None
    except TilegenError as error:
        raise DeviceError(error.message, notes=error.notes) from None


def _abandon(made: _Made) -> None:
    if made in _stations():
        _stations()[made].abandon()


def _close(made: _Made) -> None:
    if made in _stations():
        _stations().pop(made).close()
