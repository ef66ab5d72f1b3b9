"""Which guards need no test: what the loops' extents, the sizes and the assumptions imply."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.ir.affine import Affine
from tilegen.ir.facts.ranges import follows, interval_of
from tilegen.ir.nodes import Condition, Kernel
from tilegen.lowering.guards.guards import IsImplied, Tests
from tilegen.poly import Facts


def implication_checker(kernel: Kernel, extents: Mapping[str, Affine], more: Tests = ()) -> IsImplied:
    """What decides, inside loops of the given extents, whether a condition is certain.

    `more` are facts on sizes beyond the kernel's assumptions. Intervals answer many questions at once; the solver is
    asked the rest, and where it gives up the condition is kept.
    """
    constant = {name: extent.const for name, extent in extents.items() if extent.is_const}
    facts = Facts(kernel)
    known: dict[tuple[Condition, Tests], bool] = {}

    def is_implied(condition: Condition, given: Tests) -> bool:
        if condition in given:
            return True
        if any(g.value.is_const and (g.value.const < 0 or (g.equal and g.value.const)) for g in given):
            return True  # nothing runs where what is given is never so
        key = condition, tuple(g for g in (*given, *more) if _share(condition, g))
        if key not in known:
            known[key] = decide(*key)
        return known[key]

    def decide(condition: Condition, related: Tests) -> bool:
        if condition.equal and interval_of(condition.value, constant) == (0, 0):
            return True
        if follows(condition, related, extents, kernel.symbols):
            return True
        names = condition.value.names().union(*(g.value.names() for g in related))
        names = names.union(*(extents[name].names() for name in names & extents.keys()))
        loops = {name: extent for name, extent in extents.items() if name in names}
        return facts.is_implied(condition, loops, related)

    return is_implied


def _share(one: Condition, two: Condition) -> bool:
    return not one.value.names().isdisjoint(two.value.names())
