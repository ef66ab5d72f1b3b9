"""Which equations share launches, and which rule writes their part of the schedule.

The rules are asked in their order, about as many equations at once as one of them takes. None decides what is legal: a
way that the judge refuses, or of which something stays unproved, gives place to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tilegen.backends.record import Record
from tilegen.backends.text_versions import TextVersions
from tilegen.errors import TilegenError
from tilegen.ir.nodes import Kernel
from tilegen.lab.explain import explain_tree
from tilegen.lab.machine import Machine
from tilegen.suggest.draft import Draft
from tilegen.suggest.nests import Nests, nests_of
from tilegen.suggest.pointwise import is_pointwise, pointwise
from tilegen.suggest.rows import by_rows, is_by_rows


@dataclass(frozen=True)
class Rule:
    """What a rule takes, and the ways that it knows, the best first."""

    takes: Callable[[Nests], bool]
    write: Callable[[Nests, Draft], Iterator[Draft]]


RULES = (Rule(is_by_rows, by_rows), Rule(is_pointwise, pointwise))


@dataclass(frozen=True)
class Found:
    """A schedule with its predicted milliseconds, None where none can be predicted."""

    draft: Draft
    milliseconds: float | None


def write(draft: Draft, sizes: Mapping[str, int], machine: Machine) -> Draft:
    """The draft with steps for all equations of its kernel."""
    kernel, first = draft.core.kernel, 0
    while first < len(kernel.equations):
        draft, first = _write_next(draft, kernel, sizes, machine, first)
    return draft


def _write_next(
    draft: Draft, kernel: Kernel, sizes: Mapping[str, int], machine: Machine, first: int
) -> tuple[Draft, int]:
    """With steps for some equations from `first` on, and the first one that is left."""
    for last in range(len(kernel.equations), first, -1):
        nests = nests_of(kernel, sizes, first, last)
        for rule in RULES:
            if rule.takes(nests) and (found := _best(rule.write(nests, draft), sizes, machine)):
                return found, last
    target = kernel.equations[first].target
    return draft.say(f"No rule knows how to run {target} on many threads: it is left to one."), first + 1


def _best(ways: Iterator[Draft], sizes: Mapping[str, int], machine: Machine) -> Draft | None:
    """Of the ways that hold the one that is predicted to be the fastest, the first of equals."""
    best: tuple[float, Draft] | None = None
    while True:
        try:
            draft = next(ways)
            time = judged_time(draft, sizes, machine)
        except StopIteration:
            return best[1] if best else None
        except TilegenError:
            continue
        if best is None or time < 0.98 * best[0]:
            best = time, draft


def judged_time(draft: Draft, sizes: Mapping[str, int], machine: Machine) -> float:
    """Predicted milliseconds. Raises TilegenError where it is not proved or cannot be launched at these sizes."""
    versions = TextVersions(draft.tree, "cuda", Record())
    for version in versions.main():
        if versions.proof(version).verdict != "proved":
            raise TilegenError("unproved")
    return sum(launch.prediction.milliseconds for launch in explain_tree(draft.tree, sizes, machine, compiled=False))
