"""Which candidate is tried next: in order, by chance, or by samplers of Optuna, which learn the results of others."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from itertools import chain
from random import Random
from typing import Any, Protocol

from tilegen.errors import DeviceError, UsageError
from tilegen.installation import install_extra
from tilegen.tune.space import Candidate, Space

SEARCHES = ("tpe", "evolution", "quasi-random", "grid", "random")
# Proposals in a row that are known or no candidates, until one is drawn by chance.
_MOST_REPEATED = 50
_LARGEST_GRID = 200_000


class Search(Protocol):
    """Asked for the next candidate, given its result; in any order, several at once."""

    def ask(self) -> Candidate | None:
        """A candidate that was not asked for and not reported before; None when there are no more."""

    def tell(self, candidate: Candidate, milliseconds: float | None) -> None:
        """What it took; None where it cannot be used."""


def search(kind: str, space: Space, seed: int) -> Search:
    """A search of SEARCHES, which tries the written defaults first.

    Raises:
        UsageError: there is no such search. DeviceError: it needs Optuna or scipy, which is not installed.
    """
    if kind == "random":
        return ListedSearch(chain(space.defaults(), space.shuffled(Random(seed))), set())
    if kind == "grid":
        return ListedSearch(chain(space.defaults(), _in_order(space)), set())
    if kind not in SEARCHES:
        raise UsageError(f"there is no search '{kind}'", notes=(f"there are {', '.join(SEARCHES)}",))
    return OptunaSearch(kind, space, seed)


def _in_order(space: Space) -> Iterator[Candidate]:
    if space.combinations > _LARGEST_GRID:
        notes = ("--search random, tpe, evolution and quasi-random do without a list of all",)
        raise UsageError(f"a grid of more than {_LARGEST_GRID:,} combinations is too large", notes=notes)
    return iter(space)


class ListedSearch:
    """The candidates that are listed, but for those that are `known`, to which it adds each that it gives."""

    def __init__(self, listed: Iterable[Candidate], known: set[Candidate]) -> None:
        self._next, self._known = iter(listed), known

    def ask(self) -> Candidate | None:
        found = next((each for each in self._next if each not in self._known), None)
        if found:
            self._known.add(found)
        return found

    def tell(self, candidate: Candidate, milliseconds: float | None) -> None:
        self._known.add(candidate)


class OptunaSearch:
    """A sampler of Optuna over the schedules and the positions of values, which are ordered.

    Parameters of one name are one to it, whichever schedule has them. What it proposes twice, or against a `where`, is
    not tried; where it does so again and again, chance takes its turn.
    """

    def __init__(self, kind: str, space: Space, seed: int) -> None:
        self._space, self._known = space, set[Candidate]()
        self._defaults = ListedSearch(space.defaults(), self._known)
        self._chance = ListedSearch(space.shuffled(Random(seed)), self._known)
        self._optuna = _import_optuna()
        self._optuna.logging.set_verbosity(self._optuna.logging.ERROR)
        names = [schedule.name for schedule in space.schedules]
        create = self._optuna.distributions
        self._distributions: dict[str, Any] = {
            name: create.IntDistribution(0, len(values) - 1) for name, values in space.axes.items()
        }
        if len(names) > 1:
            self._distributions["schedule"] = create.CategoricalDistribution(names)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that some of these samplers may change
            self._study = self._optuna.create_study(sampler=self._sampler(kind, seed))
        self._trials: dict[Candidate, Any] = {}

    def _sampler(self, kind: str, seed: int) -> Any:
        samplers = self._optuna.samplers
        match kind:
            case "tpe":
                return samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
            case "evolution":
                return samplers.NSGAIISampler(seed=seed, population_size=20)
            case "quasi-random":
                return samplers.QMCSampler(seed=seed, scramble=True)
            case _:
                raise ValueError(kind)

    def ask(self) -> Candidate | None:
        if (first := self._defaults.ask()) is not None:
            return first
        for _ in range(_MOST_REPEATED):
            trial = self._study.ask(self._distributions)
            found = self._candidate_of(trial.params)
            if found is not None and found not in self._known:
                self._known.add(found)
                self._trials[found] = trial
                return found
            self._tell(trial, None)
        return self._chance.ask()

    def tell(self, candidate: Candidate, milliseconds: float | None) -> None:
        self._known.add(candidate)
        trial = self._trials.pop(candidate, None)
        if trial is not None:
            self._tell(trial, milliseconds)
        elif milliseconds is not None:
            self._study.add_trial(self._finished(candidate, milliseconds))

    def _tell(self, trial: Any, milliseconds: float | None) -> None:
        state = self._optuna.trial.TrialState.FAIL if milliseconds is None else None
        self._study.tell(trial, milliseconds, state=state)

    def _candidate_of(self, proposed: dict[str, Any]) -> Candidate | None:
        schedule = proposed.get("schedule", self._space.schedules[0].name)
        values = {name: self._space.axes[name][at] for name, at in proposed.items() if name != "schedule"}
        return self._space.pick(schedule, values)

    def _finished(self, candidate: Candidate, milliseconds: float) -> Any:
        """A trial that the sampler did not propose: what the candidate has no parameter for is at its first value."""
        chosen: dict[str, Any] = {name: 0 for name in self._space.axes}
        for name, value in candidate.parameters:
            if name in self._space.axes:
                chosen[name] = self._space.axes[name].index(value)
        if "schedule" in self._distributions:
            chosen["schedule"] = candidate.schedule
        return self._optuna.trial.create_trial(params=chosen, distributions=self._distributions, value=milliseconds)


def _import_optuna() -> Any:
    try:
        import optuna
        import scipy  # noqa: F401  (quasi-random numbers are its)
    except ImportError as error:
        notes = (install_extra("tune"), "--search random does without")
        raise DeviceError(f"this search needs {error.name}, which is not installed", notes=notes) from None
    return optuna
