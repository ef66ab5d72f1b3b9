"""Jobs in processes: one that crashes and one that hangs are named, and the others are done."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.support.workers import TookTooLong, run_jobs, within


def job(numbers):
    for number in numbers:
        match number:
            case 2:
                os._exit(9)
            case Path():
                (number / f"{time.monotonic_ns()}").touch()
                time.sleep(3600)
    return len(numbers)


def one_by_one(numbers):
    return [[number] for number in numbers] if len(numbers) > 1 else []


def test_what_crashes_is_named():
    found = list(run_jobs(job, [[0, 1], [2, 3], [6, 7, 8]], 2, seconds=3600, split=one_by_one))
    crashed = ([2], None, "the process ended with 9")
    assert sorted(found, key=str) == sorted([([0, 1], 2, None), crashed, ([3], 1, None), ([6, 7, 8], 3, None)], key=str)


def test_what_hangs_is_named(tmp_path):
    """By a clock that stands still until a job hangs: each that does leaves a file."""
    jobs, hour = [[0, 1], [4, tmp_path], [6]], 3600
    found = list(
        run_jobs(job, jobs, 1, seconds=1, split=one_by_one, clock=lambda: hour * len(list(tmp_path.iterdir())))
    )
    assert found == [([0, 1], 2, None), ([tmp_path], None, "killed after 1 s"), ([4], 1, None), ([6], 1, None)]


def forever():
    while True:
        pass


def test_an_alarm_ends_a_case():
    with pytest.raises(TookTooLong), within(0.1):
        forever()
