"""Which guards need no test: what the loops' extents, the sizes and the assumptions imply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilegen.ir.affine import Affine, var
from tilegen.ir.nodes import Condition, Kernel
from tilegen.ir.ranges import bounds
from tilegen.lowering.guards import Implied, Tests
from tilegen.poly.system import Row, Undecided, negated, rows_of, solvable


def implied_in(kernel: Kernel, extents: Mapping[str, Affine], more: Iterable[Condition] = ()) -> Implied:
    """What decides, inside loops of the given extents, whether a condition is certain.

    `more` are facts on sizes beyond the kernel's assumptions. Intervals answer most questions at once;
    the solver is asked the rest, and where it gives up the condition is kept.
    """
    constant = {name: extent.const for name, extent in extents.items() if extent.is_const}
    context: tuple[Row, ...] = tuple((False, ((size, 1),), -1) for size in kernel.sizes)
    context += tuple(row for fact in (*kernel.assumptions, *more) for row in rows_of(fact))
    cache: dict[tuple[Condition, Tests], bool] = {}

    def decide(condition: Condition, given: Tests) -> bool:
        key = (condition, _related(condition, given))
        if key not in cache:
            answer = _in_range(condition, constant)
            cache[key] = _proved(condition, key[1], extents, context) if answer is None else answer
        return cache[key]

    return decide


def _related(condition: Condition, given: Tests) -> Tests:
    """The given conditions that can have a say: those that share a name with it."""
    names = condition.value.names()
    return tuple(g for g in given if not names.isdisjoint(g.value.names()))


def _in_range(condition: Condition, constant: Mapping[str, int]) -> bool | None:
    range_ = bounds(condition.value, constant)
    if range_ is None:
        return None
    if condition.equal:
        return True if range_ == (0, 0) else None
    return True if range_[0] >= 0 else None


def _proved(condition: Condition, given: Tests, extents: Mapping[str, Affine], context: tuple[Row, ...]) -> bool:
    names = condition.value.names().union(*(g.value.names() for g in given))
    rows = context + tuple(row for g in given for row in rows_of(g))
    for name in sorted(names & extents.keys()):
        rows += ((False, ((name, 1),), 0), *rows_of(Condition(extents[name] - 1 - var(name))))
    try:
        return not any(solvable((*rows, *contrary)) for contrary in negated(condition))
    except Undecided:
        return False
