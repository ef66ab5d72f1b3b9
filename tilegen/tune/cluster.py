"""Candidates on other hosts: a Dask cluster, in which each worker has a station of its own."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from multiprocessing import current_process
from threading import Lock
from typing import Any
from uuid import uuid4

from tilegen.errors import DeviceError, TilegenError, UsageError, first_line
from tilegen.installation import install_extra
from tilegen.lab.records.records import Device
from tilegen.tune.child import answer
from tilegen.tune.children import Work
from tilegen.tune.space import Candidate
from tilegen.tune.station import Limits, Station, require_same
from tilegen.tune.task import Outcome, Samples, Task

_CONNECT = 10.0  # seconds

# What stations are made of: the name of the run, the device, the limits, and what children do.
_Made = tuple[str, str, Limits, Work]


class Cluster:
    """The workers of a Dask cluster that runs already: each evaluates as many candidates at once as it has threads.

    A worker times on the GPU that it sees first: where a host has several, it has a worker for each, which
    CUDA_VISIBLE_DEVICES tells apart, as `dask cuda worker` starts them.
    """

    def __init__(self, address: str, device: str, limits: Limits, *, work: Work = answer) -> None:
        """Connects to the scheduler. Raises DeviceError where Dask is not installed, or nothing answers."""
        try:
            from distributed import Client
        except ImportError:
            notes = (install_extra("dask"),)
            raise DeviceError(
                "several hosts need Dask's package distributed, which is not installed", notes=notes
            ) from None
        self._made: _Made = (uuid4().hex, device, limits, work)
        self._task: Task | None = None
        try:
            self._client: Any = Client(address, timeout=_CONNECT)
        except (OSError, TimeoutError, ValueError) as error:
            raise DeviceError(f"no Dask scheduler answers at {address}: {first_line(error)}") from None

    @property
    def width(self) -> int:
        """Workers may come and go while a run is under way."""
        return max(1, sum(self._workers.values()))

    @property
    def _workers(self) -> dict[str, int]:
        """The workers that are there now by their addresses, with the threads that each has."""
        found: dict[str, int] = self._client.nthreads()
        return found

    def find_device(self) -> Device:
        """The device of all workers. Raises DeviceError where there is none, UsageError where they differ."""
        if not self._workers:
            raise DeviceError("the Dask cluster has no workers", notes=("dask worker ADDRESS starts one",))
        return require_same(self._of_all("find_device"))

    def begin(self, task: Task) -> None:
        """Takes up a task. Raises DeviceError where a worker's device has too little memory for its sizes."""
        self._task = task
        self._of_all("begin", task)

    def submit(self, candidate: Candidate, best: float | None) -> Future[Outcome]:
        """What will become of a candidate; `best` milliseconds are the fewest so far."""
        return _with_failure_as_outcome(self._ask(None, "evaluate", candidate, best), candidate)

    def time_together(self, candidates: Sequence[Candidate]) -> Samples:
        """Candidates timed in turns by one of the workers. Raises DeviceError."""
        found: Samples = self._ask(next(iter(self._workers)), "time_together", candidates).result()
        return found

    def abandon(self) -> None:
        """Ends what is under way."""
        self._client.run(_end, self._made, "abandon")

    def close(self) -> None:
        """Ends the children of all workers; the cluster itself stays."""
        try:
            self._client.run(_end, self._made, "close")
        finally:
            self._client.close()

    def _of_all(self, method: str, *arguments: Any) -> list[Any]:
        asked = [self._ask(worker, method, *arguments) for worker in self._workers]
        return [each.result() for each in asked]

    def _ask(self, worker: str | None, method: str, *arguments: Any) -> Any:
        """The future of what the station of a worker, or of any of them, gives."""
        pinned = {"workers": [worker], "allow_other_workers": False} if worker else {}
        executor = self._client.get_executor(pure=False, **pinned)
        return executor.submit(_call, self._made, self._task, method, *arguments)


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

_stations: dict[_Made, Station] = {}
_one_at_a_time = Lock()  # of the threads that make stations


def _call(made: _Made, task: Task | None, method: str, *arguments: Any) -> Any:
    """What a method of the station gives, which is made at its first use; its errors as ones that pickle."""
    try:
        with _one_at_a_time:
            if made not in _stations:
                _stations[made] = _station(made)
            station = _stations[made]
        station.task = task or station.task
        return getattr(station, method)(*arguments)
    except UsageError as error:
        raise UsageError(error.message, notes=error.notes) from None
    except TilegenError as error:
        raise DeviceError(error.message, notes=error.notes) from None


def _station(made: _Made) -> Station:
    from distributed import get_worker

    _, device, limits, work = made
    current_process().daemon = False  # else it may start no processes; they end with it all the same
    return Station(device, (), limits, preparers=get_worker().state.nthreads, work=work)


def _end(made: _Made, method: str) -> None:
    """Calls `abandon` or `close` of the station, if there is one."""
    station = _stations.pop(made, None) if method == "close" else _stations.get(made)
    if station:
        getattr(station, method)()
