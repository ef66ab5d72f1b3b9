"""Which equations share launches, and which rule writes their part of the schedule.

The rules are asked in their order, about as many equations at once as one of them takes. None decides what is legal: a
way that the judge refuses, or of which something stays unproved, gives place to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf

from tilegen.backends.calls.text_versions import TextVersions
from tilegen.backends.system.record import Record
from tilegen.errors import TilegenError
from tilegen.ir.nodes import Equation
from tilegen.lab.predict.explain import explain_tree
from tilegen.lab.predict.machine import Machine
from tilegen.lowering import lower
from tilegen.suggest.draft import Draft
from tilegen.suggest.nests import Nests, nests_of
from tilegen.suggest.rules.columns import by_columns, is_by_columns
from tilegen.suggest.rules.grouped import grouped, is_grouped
from tilegen.suggest.rules.lists import by_ranks, is_list
from tilegen.suggest.rules.pointwise import is_pointwise, pointwise
from tilegen.suggest.rules.product import is_product, product
from tilegen.suggest.rules.recurrence import is_recurrence, recurrence
from tilegen.suggest.rules.rows import by_rows, is_by_rows
from tilegen.suggest.rules.running import is_running, running
from tilegen.suggest.rules.scattered import is_scattered, is_unordered, scattered, unordered
from tilegen.suggest.rules.split import divide, is_divided
from tilegen.suggest.rules.tensor_cores import is_short_product, short_product
from tilegen.suggest.rules.turned import is_turned, turned
from tilegen.suggest.rules.windows import convolution, is_convolution


@dataclass(frozen=True)
class Rule:
    """What a rule takes, and the ways that it knows, the best first."""

    takes: Callable[[Nests], bool]
    write: Callable[[Nests, Draft, Machine], Iterator[Draft]]


RULES = (
    Rule(is_recurrence, recurrence),
    Rule(is_running, running),
    Rule(is_scattered, scattered),
    Rule(is_unordered, unordered),
    Rule(is_list, by_ranks),
    Rule(is_grouped, grouped),
    Rule(is_short_product, short_product),
    Rule(is_product, product),
    Rule(is_convolution, convolution),
    Rule(is_turned, turned),
    Rule(is_by_columns, by_columns),
    Rule(is_by_rows, by_rows),
    Rule(is_pointwise, pointwise),
)


def write(draft: Draft, sizes: Mapping[str, int], machine: Machine, rules: Sequence[Rule] = RULES) -> Draft:
    """The draft with steps for all equations of its kernel."""
    first = 0
    while first < len(draft.tree.kernel.equations):
        draft, first = _write_next(draft, sizes, machine, first, rules)
    return draft


def _write_next(
    draft: Draft, sizes: Mapping[str, int], machine: Machine, first: int, rules: Sequence[Rule]
) -> tuple[Draft, int]:
    """With steps for some equations from `first` on, and the first one that is left."""
    equations = draft.tree.kernel.equations
    if is_divided(nests_of(draft.tree, sizes, first, first + 1), machine):
        with suppress(TilegenError):
            return divide(nests_of(draft.tree, sizes, first, first + 1), draft, machine), first
    later = range(first + 1, len(equations))
    end = next((n for n in later if is_divided(nests_of(draft.tree, sizes, n, n + 1), machine)), len(equations))
    groups = [nests_of(draft.tree, sizes, first, last) for last in range(end, first, -1)]
    for rule in rules:
        for nests in groups:
            last = first + len(nests.equations)
            if rule.takes(nests) and (found := _best(rule.write(nests, draft, machine), sizes, machine)):
                return found, _place_of(found, equations[last:])
    target = equations[first].target
    return draft.say(f"No rule knows how to run {target} on many threads: it is left to one."), first + 1


def _place_of(draft: Draft, left: Sequence[Equation]) -> int:
    """Where the first of the equations that are left is now."""
    targets = [equation.target for equation in draft.tree.kernel.equations]
    return targets.index(left[0].target) if left else len(targets)


def _best(ways: Iterator[Draft], sizes: Mapping[str, int], machine: Machine) -> Draft | None:
    """Of the ways that hold the one that is predicted to be the fastest, the first of equals."""
    found = [draft for draft in _accepted(ways) if _holds(draft)]
    if len(found) < 2:
        return found[0] if found else None
    return min(found, key=lambda draft: _time(draft, sizes, machine))


def _accepted(ways: Iterator[Draft]) -> Iterator[Draft]:
    """The ways up to one that the judge refuses."""
    with suppress(TilegenError):
        yield from ways


def _holds(draft: Draft) -> bool:
    """True if it has a text; the proof of that is asked for once, at the end."""
    try:
        return bool(lower(draft.tree))
    except TilegenError:
        return False


def _time(draft: Draft, sizes: Mapping[str, int], machine: Machine) -> float:
    try:
        return predicted_time(draft, sizes, machine)
    except TilegenError:
        return inf


def predicted_time(draft: Draft, sizes: Mapping[str, int], machine: Machine) -> float:
    """Milliseconds. Raises TilegenError where it cannot be launched at these sizes on this machine."""
    return sum(launch.prediction.milliseconds for launch in explain_tree(draft.tree, sizes, machine, compiled=False))


def is_proved(draft: Draft) -> bool:
    """True if all versions of its text are."""
    versions = TextVersions(draft.tree, "cuda", Record())
    try:
        return all(versions.proof(version).verdict == "proved" for version in versions.main())
    except TilegenError:
        return False
