"""Jobs in processes: one that crashes and one that hangs are named, and the others are done."""

from __future__ import annotations

import os
import time

import pytest

from tests.support.workers import TookTooLong, run_jobs, within


def job(numbers):
    for number in numbers:
        if number == 2:
            os._exit(9)
        if number == 5:
            time.sleep(60)
    return sum(numbers)


def test_what_crashes_or_hangs_is_named():
    jobs = [[0, 1], [2, 3], [4, 5], [6, 7]]
    found = list(run_jobs(job, jobs, 2, seconds=3, split=lambda job: [[n] for n in job] if len(job) > 1 else []))
    assert sorted(found, key=str) == sorted(
        [
            ([0, 1], 1, None),
            ([2], None, "the process ended with 9"),
            ([3], 3, None),
            ([4], 4, None),
            ([5], None, "killed after 3 s"),
            ([6, 7], 13, None),
        ],
        key=str,
    )


def test_an_alarm_ends_a_case():
    with pytest.raises(TookTooLong), within(0.1):
        time.sleep(5)
