"""Tuning: candidates are asked for, evaluated, recorded and reported, until the budget is spent or none is left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

from tilegen.errors import TilegenError
from tilegen.lab.measure.timing import Time, summarise
from tilegen.tune.search import Search
from tilegen.tune.space import Candidate
from tilegen.tune.task import LOST, Outcome, Samples

_SHOWN = 5
_MOST_LOST = 20  # candidates in a row, by faults, limits of time or memory, or ends of their processes
_TOGETHER = 3  # of the fastest, timed in turns at the end, beside the best default
_SHARE_OF_END = 0.15  # of the budget that is kept for this, but no more than
_LONGEST_END = 20.0  # seconds


class Evaluator(Protocol):
    """What evaluates candidates: `width` of them at once."""

    @property
    def width(self) -> int: ...

    def submit(self, candidate: Candidate, best: float | None) -> Future[Outcome]:
        """What will become of a candidate, beside `best` milliseconds so far."""

    def time_together(self, candidates: Sequence[Candidate]) -> Samples:
        """Candidates timed in turns. Raises DeviceError."""

    def abandon(self) -> None:
        """Ends what is under way; no more candidates are evaluated, and some can be timed in turns."""


@dataclass
class Tuning:
    """A run under way, and what has come of it.

    Attributes:
        defaults: the candidates that the schedules are as written.
        budget: seconds.
        outcomes: all that is known, that of earlier runs too.
        new: those of this run.
        note: why the run, or its end, is not as it should be.
        together: samples of the fastest, taken in turns at the end.
        seconds: how long this run has taken.
    """

    search: Search
    evaluator: Evaluator
    defaults: Sequence[Candidate]
    budget: float
    keep: Callable[[Outcome], None]
    progress: Callable[[Tuning], None] = lambda tuning: None
    outcomes: dict[Candidate, Outcome] = field(default_factory=dict)
    new: list[Outcome] = field(default_factory=list)
    together: Mapping[Candidate, tuple[float, ...]] = field(default_factory=dict)
    note: str = ""
    seconds: float = 0.0
    exhausted: bool = False

    def take(self, earlier: Iterable[Outcome]) -> None:
        """Takes up what earlier runs have found."""
        for outcome in earlier:
            self.outcomes[outcome.candidate] = outcome
            self.search.tell(outcome.candidate, outcome.milliseconds)

    def run(self) -> None:
        """Searches until the budget is spent, then times the fastest in turns.

        Raises:
            KeyboardInterrupt: from outside; `outcomes` has all that was finished. DeviceError: no record can be kept.
        """
        start = monotonic()
        end = start + self.budget - min(_SHARE_OF_END * self.budget, _LONGEST_END)
        pending: dict[Future[Outcome], Candidate] = {}
        try:
            while monotonic() < end and not self._is_in_vain():
                self.seconds = monotonic() - start
                self.progress(self)
                self._submit_more(pending)
                if not pending:
                    self.exhausted = True
                    break
                self._take_results(pending, min(0.5, end - monotonic()))
            self._end(pending, start + self.budget)
        finally:
            self.seconds = monotonic() - start

    def _is_in_vain(self) -> bool:
        """True where one candidate after the other is lost: then it is not theirs."""
        last = self.new[-_MOST_LOST:]
        if len(last) < _MOST_LOST or any(each.state not in LOST for each in last):
            return False
        self.note = f"ended: the last {_MOST_LOST} candidates were all lost: {last[-1].message}"
        return True

    def _end(self, pending: dict[Future[Outcome], Candidate], end: float) -> None:
        """Takes what is about to be finished, gives up the rest, and times the fastest in turns until `end`."""
        for each in [each for each in pending if each.cancel()]:
            del pending[each]
        grace = monotonic() + (end - monotonic()) / 3
        while pending and monotonic() < grace:
            self._take_results(pending, grace - monotonic())
        if pending:
            self.evaluator.abandon()
        self._time_together()

    def _take_results(self, pending: dict[Future[Outcome], Candidate], seconds: float) -> None:
        """Takes the results that are there within this number of seconds, if there are any."""
        done, _ = wait(pending, timeout=max(0.0, seconds), return_when=FIRST_COMPLETED)
        for each in done:
            del pending[each]
            self._take_result(each.result())

    def _submit_more(self, pending: dict[Future[Outcome], Candidate]) -> None:
        while len(pending) < self.evaluator.width:
            candidate = self.search.ask()
            if candidate is None:
                return
            best = self.fastest[0].milliseconds if self.fastest else None
            pending[self.evaluator.submit(candidate, best)] = candidate

    def _take_result(self, outcome: Outcome) -> None:
        self.keep(outcome)
        self.outcomes[outcome.candidate] = outcome
        self.new.append(outcome)
        self.search.tell(outcome.candidate, outcome.milliseconds)

    def _time_together(self) -> None:
        timed = [each.candidate for each in self.fastest if each.samples]
        chosen = timed[:_TOGETHER] + [each for each in timed if each in self.defaults][:1]
        if len(set(chosen)) < 2:
            return
        try:
            found = self.evaluator.time_together(list(dict.fromkeys(chosen)))
        except TilegenError as error:
            self.note = f"the fastest were not timed in turns: {error.message}"
            return
        self.together = dict(found)

    @property
    def fastest(self) -> list[Outcome]:
        """Those that were timed, or predicted where nothing is timed, the fastest first."""
        timed = [each for each in self.outcomes.values() if each.milliseconds]
        return sorted(timed, key=lambda each: each.milliseconds or 0.0)

    @property
    def times(self) -> dict[Candidate, Time]:
        """The times of the fastest, those that were taken in turns where there are any."""
        found = self.together or {
            each.candidate: each.samples or (each.milliseconds or 0.0,) for each in self.fastest[:_SHOWN]
        }
        return {candidate: summarise(samples) for candidate, samples in found.items()}

    @property
    def best(self) -> tuple[Candidate, Time] | None:
        """The fastest, by the times taken in turns where there are any; None where nothing has a time."""
        found = self.times.items()
        return min(found, key=lambda each: each[1].median) if self.together else next(iter(found), None)
