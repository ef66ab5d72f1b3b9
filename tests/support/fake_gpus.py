"""What children of a tuning run do on GPUs that are not there.

What they time takes a tenth of a second, which they write down. A candidate with T = 0 takes an hour, one with T = 1
waits until a second GPU has one, and the schedule `faults` ends in a fault. A message says which process it was.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import monotonic, sleep

from tests.support.workers import wait_until
from tilegen.lab.records.records import Device
from tilegen.tune.task import Outcome


def answer(what, task, *arguments):
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    match what:
        case "device":
            return Device("another fake GPU" if gpu == "other" else "a fake GPU", True, "sm_90")
        case "memory":
            return None
        case "prepare":
            return Outcome(arguments[0], "measured")
        case "measure":
            measure(gpu, arguments[0])
            state = "fault" if arguments[0].schedule == "faults" else "measured"
            return Outcome(arguments[0], state, str(os.getpid()), samples=(1.0,))
        case "together":
            return {candidate: (1.0, 1.0, 1.0) for candidate in arguments[0]}
        case _:
            raise ValueError(what)


def measure(gpu, candidate) -> None:
    start = monotonic()
    match dict(candidate.parameters)["T"]:
        case 0:
            write(f"{gpu} hangs")
            sleep(3600)
        case 1:
            meet(gpu)
    sleep(0.1)
    write(f"{gpu} {start} {monotonic()}")


def meet(gpu) -> None:
    """Returns when a second GPU has come here."""
    here = Path(os.environ["FAKE_GPUS_LOG"]).with_suffix(".meeting")
    here.mkdir(exist_ok=True)
    (here / gpu).touch()
    wait_until(lambda: len(list(here.iterdir())) > 1)


def write(line: str) -> None:
    with Path(os.environ["FAKE_GPUS_LOG"]).open("a") as log:
        log.write(f"{line}\n")
