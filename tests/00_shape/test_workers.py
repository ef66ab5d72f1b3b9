"""Jobs in processes: one that crashes and one that hangs are named, and the others are done."""

from __future__ import annotations

import os
import time

import pytest

from tests.support.workers import TookTooLong, run_jobs, within


def job(numbers):
    for number in numbers:
        match number:
            case 2:
                time.sleep(1)  # of a process that ends before pebble has heard that the job began, nobody is told
                os._exit(9)
            case 4:
                time.sleep(3600)
    return len(numbers)


def one_by_one(numbers):
    return [[number] for number in numbers] if len(numbers) > 1 else []


def test_what_crashes_is_named():
    found = list(run_jobs(job, [[0, 1], [2, 3], [6, 7, 8]], 2, seconds=3600, split=one_by_one))
    crashed = ([2], None, "the process ended with 9")
    assert sorted(found, key=str) == sorted([([0, 1], 2, None), crashed, ([3], 1, None), ([6, 7, 8], 3, None)], key=str)


def test_what_hangs_is_named():
    """It alone has little time, for a machine may be slow."""
    assert list(run_jobs(job, [[4]], 1, seconds=0.1)) == [([4], None, "killed after 0.1 s")]


def forever():
    while True:
        pass


def test_an_alarm_ends_a_case():
    with pytest.raises(TookTooLong), within(0.1):
        forever()
