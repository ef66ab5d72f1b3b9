"""Jobs in processes of their own, of which one may crash or hang: the run goes on, and says which job it was."""

from __future__ import annotations

import math
import signal
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import wait
from time import monotonic, sleep


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


def run_jobs(function, jobs, processes, *, seconds, split=lambda job: (), end=math.inf, clock=monotonic):
    """Yields (job, its result, None), as they end, or (job, None, what became of its process).

    Args:
        function: of a job; both are found by name in another process.
        seconds: after which a job's process is killed, by `clock`.
        end: when to leave what is not done, by `monotonic`.
        split: the smaller jobs that one is made of, which are tried in its place where it fails; none for a single one.
    """
    todo, workers = list(jobs)[::-1], []
    while (todo or workers) and monotonic() < end:
        workers += [_Worker(function, clock) for _ in range(min(len(todo), processes - len(workers)))]
        for worker in workers:
            if worker.job is None and todo:
                worker.give(todo.pop())
        wait([w.pipe for w in workers if w.job is not None], timeout=min(1.0, end - monotonic()))
        for worker in list(workers):
            if worker.job is not None:
                job, (result, trouble) = worker.job, worker.poll(seconds)
                parts = split(job) if trouble else ()
                todo += parts
                if result is not None or (trouble and not parts):
                    yield job, result, trouble
            if worker.gone or (worker.job is None and not todo):
                worker.end()
                workers.remove(worker)
    for worker in workers:
        worker.end()


class _Worker:
    """A process, and the job that it is at; None where it waits for one."""

    def __init__(self, function, clock):
        context = get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(function, other), daemon=True)
        self.process.start()
        other.close()
        self.job, self.since, self.gone, self.clock = None, 0.0, False, clock

    def give(self, job):
        self.job, self.since = job, self.clock()
        self.pipe.send(job)

    def poll(self, seconds):
        """(the result of the job, None), (None, what became of the process), or None twice as long as it is at it."""
        if self.pipe.poll():
            try:
                result = self.pipe.recv()
            except EOFError:
                self.process.join()
                self.gone = True
                return None, f"the process ended with {self.process.exitcode}"
            self.job = None
            return result, None
        if self.clock() - self.since > seconds:
            self.process.kill()
            self.gone = True
            return None, f"killed after {seconds} s"
        return None, None

    def end(self):
        self.pipe.close()
        if self.job is not None:
            self.process.kill()
        self.process.join()


def _serve(function, pipe):
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        pipe.send(function(job))
