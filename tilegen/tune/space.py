"""The candidates: schedules of one kernel, each with all values of its parameters that its head allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import prod
from random import Random

from tilegen.errors import SourceError, UsageError
from tilegen.ir.steps import Parameter, Schedule, Setting

# A space of no more combinations is listed; of a larger one points are drawn.
_LISTED = 100_000
_MOST_DRAWS = 20_000


@dataclass(frozen=True)
class Candidate:
    """A schedule by its name, with a value for each of its parameters in the order of its head."""

    schedule: str
    parameters: tuple[tuple[str, Setting], ...] = ()

    def __str__(self) -> str:
        return " ".join([self.schedule, *(f"{name}={value}" for name, value in self.parameters)])


@dataclass(frozen=True)
class Space:
    """All candidates of `schedules`; `given` has the values of parameters in place of those that the heads list."""

    schedules: tuple[Schedule, ...]
    given: Mapping[str, Sequence[Setting]]

    def values(self, parameter: Parameter) -> tuple[Setting, ...]:
        """The values that a parameter takes: the given ones, else its candidates, else its default alone.

        Of a parameter that is computed the default stands for what the others give.
        """
        return tuple(self.given.get(parameter.name, ())) or parameter.candidates or (parameter.default,)

    @cached_property
    def axes(self) -> dict[str, tuple[Setting, ...]]:
        """The values of each parameter, of all schedules together, ascending; of those with several alone."""
        found: dict[str, set[Setting]] = {}
        for schedule in self.schedules:
            for parameter in schedule.parameters:
                found.setdefault(parameter.name, set()).update(self.values(parameter))
        return {name: tuple(sorted(values, key=_order)) for name, values in found.items() if len(values) > 1}

    @property
    def combinations(self) -> int:
        """How many there are, those that a `where` excludes among them."""
        return sum(self._sizes)

    @cached_property
    def _sizes(self) -> list[int]:
        return [prod(len(self.values(p)) for p in schedule.parameters) for schedule in self.schedules]

    def defaults(self) -> list[Candidate]:
        """Each schedule as it is written: where its default is none of the given values, with the first of them."""
        found = [self._candidate(s, {p.name: self._default(p) for p in s.parameters}) for s in self.schedules]
        return [candidate for candidate in found if self.allows(candidate)]

    def is_written(self, candidate: Candidate) -> bool:
        """True if all values are the defaults of the candidate's schedule."""
        schedule = next(s for s in self.schedules if s.name == candidate.schedule)
        return candidate.parameters == tuple((p.name, p.default) for p in schedule.parameters)

    def _default(self, parameter: Parameter) -> Setting:
        values = self.values(parameter)
        return parameter.default if parameter.default in values else values[0]

    def allows(self, candidate: Candidate) -> bool:
        """True if the values are among those of the candidate's schedule, and as its `where` wants them."""
        schedule = next((s for s in self.schedules if s.name == candidate.schedule), None)
        if schedule is None or [p.name for p in schedule.parameters] != [name for name, _ in candidate.parameters]:
            return False
        values = dict(candidate.parameters)
        known = all(self._is_computed(p) or values[p.name] in self.values(p) for p in schedule.parameters)
        return known and values == self._with_computed(schedule, values) and schedule.admits(values)

    def _is_computed(self, parameter: Parameter) -> bool:
        return bool(parameter.computed) and parameter.name not in self.given

    def _with_computed(self, schedule: Schedule, values: Mapping[str, Setting]) -> dict[str, Setting]:
        """These values, and what the head computes from them; none where a division does not come out even."""
        with suppress(SourceError):
            return schedule.values({p.name: values[p.name] for p in schedule.parameters if not self._is_computed(p)})
        return {}

    def _candidate(self, schedule: Schedule, values: Mapping[str, Setting]) -> Candidate:
        return Candidate(schedule.name, tuple(self._with_computed(schedule, values).items()))

    def pick(self, schedule: str, values: Mapping[str, Setting]) -> Candidate | None:
        """The candidate of a schedule with these values; None where that is none.

        There may be values for parameters that the schedule does not have; where one is missing, it is the default.
        """
        found = next(s for s in self.schedules if s.name == schedule)
        candidate = self._candidate(found, {p.name: values.get(p.name, self._default(p)) for p in found.parameters})
        return candidate if self.allows(candidate) else None

    def __iter__(self) -> Iterator[Candidate]:
        """All of them, in the order of the schedules and of their values."""
        return (c for n in range(self.combinations) if (c := self._at(n)) and self.allows(c))

    def shuffled(self, random: Random) -> Iterator[Candidate]:
        """All of them in random order, each once; of a space too large to list, those that draws find."""
        if self.combinations <= _LISTED:
            numbers = list(range(self.combinations))
            random.shuffle(numbers)
            yield from (c for n in numbers if self.allows(c := self._at(n)))
            return
        seen: set[Candidate] = set()
        missed = 0
        while missed < _MOST_DRAWS:
            drawn = self._at(random.randrange(self.combinations))
            missed += 1
            if drawn not in seen and self.allows(drawn):
                missed = 0
                seen.add(drawn)
                yield drawn

    def _at(self, number: int) -> Candidate:
        """The combination of this number, allowed or not."""
        position = 0
        while number >= self._sizes[position]:
            number -= self._sizes[position]
            position += 1
        schedule, chosen = self.schedules[position], dict[str, Setting]()
        for parameter in reversed(schedule.parameters):
            values = self.values(parameter)
            number, digit = divmod(number, len(values))
            chosen[parameter.name] = values[digit]
        return self._candidate(schedule, chosen)


def _order(value: Setting) -> tuple[bool, Setting]:
    return isinstance(value, str), value  # words after numbers


def require_candidates(space: Space) -> None:
    """Raises UsageError where there is nothing to choose from."""
    if not space.schedules:
        notes = ("schedule s for KERNEL(T=64 in {64, 128}): begins one", "tilegen help lists the steps")
        raise UsageError("the kernel has no schedules, and tune chooses among theirs", notes=notes)
    found = list(islice(space.shuffled(Random(0)), 2))
    if not found:
        raise UsageError("no values of the parameters are as the schedules' `where` wants them")
    if len(found) == 1:
        schedule = next(s for s in space.schedules if s.name == found[0].schedule)
        names = [p.name for p in schedule.parameters]
        example = names[0] if names else "TS"
        notes = (
            f"candidates stand in its head, {example}=32 in {{16, 32}}, or after --set {example}=16,32",
            "several schedules are candidates, too",
        )
        raise UsageError(f"'{schedule.name}' has one candidate alone, and there is nothing to choose", notes=notes)
