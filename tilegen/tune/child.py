"""A child of a run: `python -m tilegen.tune.child PIPE PARENT` prepares, checks and times candidates, one at a time."""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from threading import Thread
from time import sleep
from typing import Any

from tilegen.errors import DeviceError, LimitError, ProofError, TilegenError, WrongResult, first_line
from tilegen.lab.records import Outcome as State
from tilegen.tune.measure import find_device, is_working, measure, measure_together, require_memory
from tilegen.tune.prepare import prepare
from tilegen.tune.task import LOST, Answer, Outcome, Task


def main() -> None:
    """Answers requests until the parent closes the pipe, or is no more."""
    faulthandler.enable()
    connection: Connection[Any, Any] = Connection(int(sys.argv[1]))
    Thread(target=_end_with, args=(int(sys.argv[2]),), daemon=True).start()
    connection.send("ready")
    while True:
        try:
            what, *arguments = connection.recv()
        except EOFError:
            return
        connection.send(answer(what, *arguments))


def _end_with(parent: int) -> None:
    """Ends this process where its parent has, whatever runs."""
    while os.getppid() == parent:
        sleep(0.5)
    os._exit(1)


def answer(what: str, task: Task, *arguments: Any) -> Answer:
    """The answer to one request."""
    match what:
        case "device":
            return _answer_plainly(lambda: find_device(task))
        case "memory":
            return _answer_plainly(lambda: require_memory(task))
        case "together":
            return _answer_plainly(lambda: measure_together(task, *arguments))
        case "prepare":
            return Answer(_outcome(prepare, lambda: True, task, *arguments))
        case "measure":
            outcome = _outcome(measure, lambda: is_working(task), task, *arguments)
            return Answer(outcome, outcome.state in LOST)
        case _:
            raise ValueError(what)


def _answer_plainly(work: Callable[[], object]) -> Answer:
    """The value, or the error: what is a TilegenError for the user."""
    try:
        return Answer(work())
    except TilegenError as error:
        return Answer(DeviceError(error.message, notes=error.notes), lost=True)
    except Exception as error:  # libraries fail in ways of their own
        return Answer(DeviceError(f"the device fails: {first_line(error)}"), lost=True)


def _outcome(
    work: Callable[..., Outcome], works_on: Callable[[], bool], task: Task, candidate: Any, best: float | None
) -> Outcome:
    """What `work` makes of the candidate, with what it fails by; `works_on` asks whether the device still does."""
    seconds: dict[str, float] = {}
    try:
        return replace(work(task, candidate, best, seconds), seconds=seconds)
    except TilegenError as error:
        state, message = _state_of(error, works_on), error.message + (f"; {error.witness}" if error.witness else "")
    except MemoryError as error:
        state, message = "memory", f"out of memory: {first_line(error)}"
    except Exception as error:  # libraries fail in ways of their own
        state, message = "fault", first_line(error)
    return Outcome(candidate, state, message, seconds=seconds)


def _state_of(error: TilegenError, works_on: Callable[[], bool]) -> State:
    match error:
        case LimitError():
            return "limits"
        case ProofError():
            return "unproved"
        case WrongResult():
            return "wrong"
        case DeviceError():
            return "refused" if works_on() else "fault"
        case _:
            return "illegal"


if __name__ == "__main__":
    main()
