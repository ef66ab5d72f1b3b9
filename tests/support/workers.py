"""Jobs in processes of their own, of which one may crash or hang: the run goes on, and says which job it was."""

from __future__ import annotations

import math
import signal
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import contextmanager
from multiprocessing import get_context
from time import monotonic, sleep

from pebble import ProcessExpired, ProcessPool


class TookTooLong(Exception):
    """A case has not ended in its time."""


@contextmanager
def within(seconds):
    """Raises TookTooLong in the body after so many seconds of this process's CPU time; a call into C ends first."""

    def ring(*_):
        raise TookTooLong(f"not done in {seconds} CPU seconds")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def wait_until(condition):
    """Returns when the condition holds: within ten minutes, for a machine may be slow or have other work."""
    end = monotonic() + 600
    while not condition():
        assert monotonic() < end, "it has not come to this in ten minutes"
        sleep(0.05)


def run_jobs(function, jobs, processes, *, seconds, split=lambda job: (), end=math.inf):
    """Yields (job, its result, None), as they end, or (job, None, what became of its process).

    Args:
        function: of a job; both are found by name in another process.
        seconds: after which a job's process is killed.
        end: when to leave what is not done, by `monotonic`.
        split: the smaller jobs that one is made of, which are tried in its place where it fails; none for a single one.
    """
    pool, todo, running = ProcessPool(processes, context=get_context("spawn")), list(jobs)[::-1], {}
    try:
        while (todo or running) and monotonic() < end:
            while todo and len(running) < processes:
                job = todo.pop()
                running[pool.schedule(function, [job], timeout=seconds)] = job
            done, _ = wait(running, timeout=min(1.0, end - monotonic()), return_when=FIRST_COMPLETED)
            for future in done:
                job, error = running.pop(future), future.exception()
                parts = split(job) if error else ()
                todo += parts
                if not error:
                    yield job, future.result(), None
                elif not parts:
                    yield job, None, _told(error)
    finally:
        pool.stop()
        pool.join()


def _told(error):
    """What became of a process, or the error of a function."""
    match error:
        case ProcessExpired(exitcode=code):
            return f"the process ended with {code}"
        case TimeoutError():
            return f"killed after {error.args[1]} s"
        case _:
            raise error
