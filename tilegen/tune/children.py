"""Processes that work on candidates: each serves many, within limits of time and memory, and is replaced when lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryFile
from threading import Lock
from time import monotonic
from typing import Any

from tilegen.errors import DeviceError
from tilegen.lab.records import Outcome as State

COMMAND = ("-m", "tilegen.tune.child")
_LOOK = 0.05  # seconds between two looks at the memory of a child
_START = 180.0  # seconds until a child has to be ready
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class ChildLost(Exception):
    """A child that is no more, and what it died of."""

    def __init__(self, state: State, message: str) -> None:
        super().__init__(message)
        self.state: State = state
        self.message = message


class Child:
    """A process in a group of its own, which answers one request after the other."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._connection, theirs = Pipe()
        self._errors = TemporaryFile()  # noqa: SIM115  (closed with the child)
        paths = os.pathsep.join(str(Path(path).absolute()) for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", *command, str(theirs.fileno()), str(os.getpid())],
            env={**os.environ, "PYTHONPATH": paths, **environment},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is for the parent
        )
        theirs.close()
        self._ready = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: object, seconds: float, memory: float) -> Any:
        """The answer to a request.

        Raises:
            ChildLost: it takes longer than `seconds` or more than `memory` bytes, or the child ends.
        """
        if not self._ready:
            self._wait(_START, memory)
            self._ready = True
        try:
            self._connection.send(request)
        except OSError:
            raise self._lost() from None
        return self._wait(seconds, memory)

    def _wait(self, seconds: float, memory: float) -> Any:
        deadline = monotonic() + seconds
        try:
            while not self._connection.poll(_LOOK):
                if monotonic() > deadline:
                    raise ChildLost("time", f"it took more than {seconds:g} s")
                if resident_bytes(self.pid) > memory:
                    raise ChildLost("memory", f"it took more than {memory / 1e9:.3g} GB of memory")
            return self._connection.recv()
        except (EOFError, OSError):
            raise self._lost() from None

    def _lost(self) -> ChildLost:
        """What there is to say of a child that has ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        code = self._process.returncode
        if code is not None and code < 0:
            with suppress(ValueError):
                return ChildLost("killed", f"its process was ended by {signal.Signals(-code).name}")
        self._errors.seek(0)
        said = [line for line in self._errors.read().decode(errors="replace").splitlines() if line.strip()]
        return ChildLost("killed", f"its process ended with {code}{f': {said[-1]}' if said else ''}")

    def kill(self) -> None:
        """Ends the process and those that it has started. Who waits for its answer finds it lost."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


def resident_bytes(pid: int) -> int:
    """The memory that a process has in use; 0 where the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


class Pool:
    """Children of one kind: at most one request each at a time, as many at once as there are `environments`."""

    def __init__(self, command: Sequence[str], environments: Sequence[Mapping[str, str]], memory: float) -> None:
        self._command, self._memory = command, memory
        self._idle: SimpleQueue[tuple[Mapping[str, str], Child | None]] = SimpleQueue()
        self._alive: set[Child] = set()
        self._busy: set[Child] = set()
        self._lock, self._closed = Lock(), False
        for environment in environments:
            self._idle.put((environment, None))

    def ask(self, request: object, seconds: float) -> Any:
        """The answer of the next child that is idle; an answer with `lost` ends it. Raises ChildLost."""
        environment, child = self._idle.get()
        try:
            child = child or self._start(environment)
            self._busy.add(child)
            answer = child.ask(request, seconds, self._memory)
            self._busy.discard(child)
        except BaseException:
            self._end(child)
            self._idle.put((environment, None))
            raise
        if getattr(answer, "lost", False):
            self._end(child)
            child = None
        self._idle.put((environment, child))
        return answer

    def abandon(self) -> None:
        """Ends the children that are at work; others take their places."""
        with self._lock:
            for child in self._busy:
                child.kill()

    def close(self) -> None:
        """Ends all children, in the middle of their work too."""
        with self._lock:
            self._closed = True
            for child in self._alive:
                child.kill()
            self._alive.clear()

    def _start(self, environment: Mapping[str, str]) -> Child:
        with self._lock:
            if self._closed:
                raise ChildLost("killed", "the run has ended")
            try:
                child = Child(self._command, environment)
            except OSError as error:
                raise DeviceError(f"no process can be started: {error.strerror}") from None
            self._alive.add(child)
            return child

    def _end(self, child: Child | None) -> None:
        with self._lock:
            if child is not None and child in self._alive:
                child.kill()
                self._alive.remove(child)
                self._busy.discard(child)
