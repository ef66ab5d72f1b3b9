"""Processes that work on candidates: pools of pebble's, with what a candidate can do to a process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from multiprocessing import get_context, resource_tracker
from pathlib import Path
from threading import Lock
from typing import Any

from tilegen.lab.records.records import Outcome as State
from tilegen.tune.child import OUT_OF_MEMORY, begin

_START = 180.0  # seconds until a child has to be ready

Work = Callable[..., Any]


class ChildLost(Exception):
    """A child that is no more, and what it died of."""

    def __init__(self, state: State, message: str) -> None:
        super().__init__(message)
        self.state: State = state
        self.message = message


class Pool:
    """Children of one kind, which answer requests; several threads may ask at once.

    One that is lost is replaced, and so are all of them where that cannot be done.
    """

    def __init__(self, count: int, work: Work, environment: Mapping[str, str], memory: float, folder: str) -> None:
        """
        Args:
            work: what they do with a request.
            memory: bytes that each may take.
            folder: for what they write to their standard error.
        """
        self._count, self._work, self._memory, self._folder = count, work, memory, folder
        self._environment = dict(environment)
        self._lock = Lock()
        self._pool: Any = None
        self._asked: set[Any] = set()
        self._closed = False

    def ask(self, *request: Any, seconds: float) -> Any:
        """The answer to a request.

        Raises:
            ChildLost: it takes longer than `seconds` or more memory than it may, or its child ends.
        """
        asked = None
        try:
            asked = self._schedule(request, seconds)
            return asked.result(_START + seconds)
        except (OSError, RuntimeError, CancelledError) as error:
            if asked and not asked.done():  # as where a child was killed in the middle of an answer
                self.give_up()
            raise self._lost_by(error, seconds) from None
        finally:
            with self._lock:
                self._asked.discard(asked)

    def give_up(self) -> None:
        """Ends the children: what they do is lost, and others do what is asked from now on."""
        with self._lock:
            for asked in self._asked:
                asked.cancel()
            self._stop()

    def close(self) -> None:
        """Ends the children, and starts no others."""
        self._closed = True
        self.give_up()

    def _schedule(self, request: tuple[Any, ...], seconds: float) -> Any:
        with self._lock:
            if self._closed:
                raise CancelledError
            if not (self._pool and self._pool.active):  # one has died that had nothing to do, or could not begin
                self._stop()
                self._start()
            asked = self._pool.schedule(self._work, args=request, timeout=seconds)
            self._asked.add(asked)
            return asked

    def _start(self) -> None:
        import pebble

        arguments = (self._environment, self._memory, os.getpid(), self._folder)
        # Ctrl-C is for this process: its children begin with the signals blocked that are blocked here. multiprocessing
        # unblocks them when it starts a process of its own, which happens once.
        resource_tracker.ensure_running()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._pool = pebble.ProcessPool(
                self._count, initializer=begin, initargs=arguments, context=get_context("spawn")
            )
            assert self._pool.active  # which starts it
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _stop(self) -> None:
        pool, self._pool = self._pool, None
        if pool:
            pool.stop()
            pool.join()

    def _lost_by(self, error: Exception, seconds: float) -> ChildLost:
        """What there is to say of a child that is lost; the code of one that has ended is below 0 by a signal."""
        import pebble

        match error:
            case TimeoutError():
                return ChildLost("time", f"it took more than {seconds:g} s")
            case CancelledError():
                return ChildLost("killed", "the run has ended")
            case pebble.ProcessExpired(exitcode=code) if code == OUT_OF_MEMORY:
                return ChildLost("memory", f"it took more than {self._memory / 1e9:.3g} GB of memory")
            case pebble.ProcessExpired(exitcode=code) if -code in set(signal.Signals):
                return ChildLost("killed", f"its process was ended by {signal.Signals(-code).name}")
            case pebble.ProcessExpired(exitcode=code, pid=pid):
                return ChildLost("killed", f"its process ended with {code}{self._last_words(pid)}")
            case _:
                return ChildLost("killed", "its process did not begin")

    def _last_words(self, pid: int) -> str:
        path = Path(self._folder, str(pid))
        said = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
        return f": {said[-1]}" if said else ""
