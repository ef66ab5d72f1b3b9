"""A child of a tuning run on GPUs that are not there: what it times takes a tenth of a second, which it writes down."""

from __future__ import annotations

import os
from pathlib import Path
from time import monotonic, sleep

from tilegen.lab.records import Device
from tilegen.tune import child
from tilegen.tune.task import Outcome

GPU = os.environ.get("CUDA_VISIBLE_DEVICES", "")


def measure(task, candidate, best, seconds) -> Outcome:
    start = monotonic()
    sleep(0.1)
    with Path(os.environ["FAKE_GPUS_LOG"]).open("a") as log:
        log.write(f"{GPU} {start} {monotonic()}\n")
    return Outcome(candidate, "measured", samples=(1.0,))


def prepare(task, candidate, best, seconds) -> Outcome:
    return Outcome(candidate, "measured")


if __name__ == "__main__":
    child.require_memory = lambda task: None
    child.find_device = lambda task: Device("another fake GPU" if GPU == "other" else "a fake GPU", True, "sm_90")
    child.prepare, child.measure = prepare, measure
    child.main()
