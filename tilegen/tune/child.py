"""What a child of a run does: it prepares, checks and times candidates, one at a time."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

from tilegen.errors import DeviceError, TilegenError, first_line
from tilegen.lab.records.records import outcome_of
from tilegen.tune.measure import find_device, is_working, measure, measure_together, require_memory
from tilegen.tune.prepare import prepare
from tilegen.tune.task import Outcome, Task

OUT_OF_MEMORY = 77  # the exit code of a child that takes more than it may
_LOOK = 0.1  # seconds between two looks at the memory, and at the parent
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def begin(environment: Mapping[str, str], memory: float, parent: int, folder: str) -> None:
    """Makes a process that has just been started a child.

    Args:
        memory: bytes that it may take.
        folder: for what it writes to its standard error, in a file that its number names.
    """
    os.environ.update(environment)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # it ends at once, whatever runs
    for stream, path in ((1, os.devnull), (2, f"{folder}/{os.getpid()}")):
        file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(file, stream)
        os.close(file)
    Thread(target=_watch, args=(memory, parent), daemon=True).start()


def _watch(memory: float, parent: int) -> None:
    """Ends this process where it takes too much memory, or where its parent has ended, whatever runs."""
    while os.getppid() == parent:
        if _resident_bytes() > memory:
            os._exit(OUT_OF_MEMORY)
        sleep(_LOOK)
    os._exit(1)


def _resident_bytes() -> int:
    """The memory that this process has in use; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def answer(what: str, task: Task, *arguments: Any) -> Any:
    """The answer to one request: what becomes of a candidate, or a value; an error for the user is one, too."""
    match what:
        case "device":
            return _plainly(lambda: find_device(task))
        case "memory":
            return _plainly(lambda: require_memory(task))
        case "together":
            return _plainly(lambda: measure_together(task, *arguments))
        case "prepare":
            return _outcome(prepare, task, *arguments)
        case "measure":
            return _outcome(measure, task, *arguments)
        case _:
            raise ValueError(what)


def _plainly(work: Callable[[], object]) -> object:
    """The value, or the error for the user."""
    try:
        return work()
    except TilegenError as error:
        return DeviceError(error.message, notes=error.notes)
    except Exception as error:  # libraries fail in ways of their own
        return DeviceError(f"the device fails: {first_line(error)}")


def _outcome(work: Callable[..., Outcome], task: Task, candidate: Any, best: float | None) -> Outcome:
    """What `work` makes of the candidate, with what it fails by."""
    seconds: dict[str, float] = {}
    try:
        return replace(work(task, candidate, best, seconds), seconds=seconds)
    except TilegenError as error:
        state, message = outcome_of(error), error.message + (f"; {error.witness}" if error.witness else "")
        if state == "fault" and (work is prepare or is_working(task)):
            state = "refused"
    except MemoryError as error:
        state, message = "memory", f"out of memory: {first_line(error)}"
    except Exception as error:  # libraries fail in ways of their own
        state, message = "fault", first_line(error)
    return Outcome(candidate, state, message, seconds=seconds)
