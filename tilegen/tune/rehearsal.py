"""Searches held against each other without a device: each asks a recording what its candidates came to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from statistics import fmean

from tilegen import api
from tilegen.errors import UsageError
from tilegen.frontend.stock import shorten
from tilegen.tune.journal import values_of
from tilegen.tune.record import HEAD, outcomes_of
from tilegen.tune.search import search
from tilegen.tune.space import Candidate, Space
from tilegen.tune.task import Outcome

# Budgets, as shares of what the whole recording took.
SHARES = (0.05, 0.1, 0.25)
_LEAST = 1e-3  # seconds that a candidate costs at least


@dataclass(frozen=True)
class RecordedSpace(Space):
    """The candidates of a space that a recording has outcomes of."""

    outcomes: Mapping[Candidate, Outcome] = field(default_factory=dict)

    def allows(self, candidate: Candidate) -> bool:
        return candidate in self.outcomes

    def shuffled(self, random: Random) -> Iterator[Candidate]:
        found = list(self.outcomes)
        random.shuffle(found)
        yield from found


@dataclass(frozen=True)
class Recording:
    """A recorded run: its kernel, sizes and device, and what became of each candidate."""

    kernel: str
    sizes: Mapping[str, int]
    device: str
    space: RecordedSpace
    whole: int

    @cached_property
    def least(self) -> float:
        """The fewest milliseconds of all candidates."""
        return min(time for each in self.space.outcomes.values() if (time := each.milliseconds) is not None)

    @cached_property
    def seconds(self) -> float:
        """What all of the candidates took, one after the other."""
        return sum(map(cost, self.space.outcomes.values()))


def cost(outcome: Outcome) -> float:
    """Seconds that a candidate took, without those that it waited."""
    return max(_LEAST, sum(value for name, value in outcome.seconds.items() if name != "waiting"))


def read_recording(path: str | Path) -> Recording:
    """The recording in a file of `tilegen tune`. Raises UsageError where there is none, or none with a time."""
    try:
        lines, _ = values_of(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {shorten(str(path))}: {error.strerror}") from None
    if not lines or lines[0].get("schema") != HEAD:
        raise UsageError(f"{shorten(str(path))} is no record of a run of tilegen tune")
    head = lines[0]
    schedules = tuple(api.from_text(text).find_schedule(name, head["kernel"]) for name, text in head["texts"].items())
    all_of_them = Space(schedules, head["given"])
    found = {each.candidate: each for each in outcomes_of(lines, all_of_them)}
    if not any(each.samples for each in found.values()):
        raise UsageError(f"{path} has no time of a candidate")
    space = RecordedSpace(schedules, head["given"], found)
    whole = sum(1 for _ in all_of_them) if all_of_them.combinations < 1_000_000 else all_of_them.combinations
    return Recording(head["kernel"], head["sizes"], head["device"], space, whole)


@dataclass(frozen=True)
class Course:
    """How a search with one seed went: after how many seconds it knew of which milliseconds, ever fewer."""

    steps: tuple[tuple[float, float], ...]

    def best_within(self, seconds: float) -> float | None:
        """The fewest milliseconds that it knew of then; None where it knew of none."""
        return next((time for spent, time in reversed(self.steps) if spent <= seconds), None)


def rehearse(recording: Recording, kind: str, seed: int) -> Course:
    """One search on a recording, one candidate after the other, until the largest of the budgets is spent."""
    asked = search(kind, recording.space, seed)
    spent, steps = 0.0, list[tuple[float, float]]()
    while spent < max(SHARES) * recording.seconds and (candidate := asked.ask()):
        outcome = recording.space.outcomes[candidate]
        spent += cost(outcome)
        time = outcome.milliseconds
        asked.tell(candidate, time)
        if time is not None and (not steps or time < steps[-1][1]):
            steps.append((spent, time))
    return Course(tuple(steps))


@dataclass(frozen=True)
class Rehearsal:
    """How a search did with several seeds, for each share of SHARES.

    Attributes:
        ratios: the mean of the best time as a multiple of the least one there is.
        beats: the share of seeds with which it was no slower than random search with the same seed.
    """

    search: str
    ratios: tuple[float | None, ...]
    beats: tuple[float, ...]


def compare_searches(
    recording: Recording,
    kinds: Sequence[str],
    seeds: int,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> list[Rehearsal]:
    """Each of the searches with seeds from 0 on, and random search."""
    every = tuple(dict.fromkeys((*kinds, "random")))
    courses: dict[str, list[Course]] = {kind: [] for kind in every}
    for seed in range(seeds):
        for number, kind in enumerate(every):
            progress(kind, seed * len(every) + number, seeds * len(every))
            courses[kind].append(rehearse(recording, kind, seed))
    return [_summary(recording, kind, courses[kind], courses["random"]) for kind in every]


def _summary(recording: Recording, kind: str, courses: Sequence[Course], random: Sequence[Course]) -> Rehearsal:
    ratios: list[float | None] = []
    beats = []
    for share in SHARES:
        seconds = share * recording.seconds
        mine, theirs = ([course.best_within(seconds) for course in each] for each in (courses, random))
        known = [time for time in mine if time is not None]
        ratios.append(fmean(known) / recording.least if len(known) == len(mine) else None)
        pairs = zip(mine, theirs, strict=True)
        beats.append(fmean(a is not None and (b is None or a <= b) for a, b in pairs))
    return Rehearsal(kind, tuple(ratios), tuple(beats))
