"""Which guards need no test: what the loops' extents, the sizes and the assumptions imply."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import Condition, Kernel
from tilegen.ir.ranges import WHOLE, bounds, follows
from tilegen.lowering.guards import Implied, Tests
from tilegen.poly import Facts


def implied_in(kernel: Kernel, extents: Mapping[str, Affine], more: Tests = ()) -> Implied:
    """What decides, inside loops of the given extents, whether a condition is certain.

    `more` are facts on sizes beyond the kernel's assumptions. Intervals answer many questions at once, and points
    at which the condition fails answer more; the solver is asked the rest, and where it gives up the condition is kept.
    """
    constant = {name: extent.const for name, extent in extents.items() if extent.is_const}
    facts = Facts(kernel)
    known: dict[tuple[Condition, Tests], bool] = {}

    def implied(condition: Condition, given: Tests) -> bool:
        if condition in given:
            return True
        if any(g.value.is_const and (g.value.const < 0 or (g.equal and g.value.const)) for g in given):
            return True  # nothing runs where what is given is never so
        key = condition, tuple(g for g in (*given, *more) if _share(condition, g))
        if key not in known:
            known[key] = decide(*key)
        return known[key]

    def decide(condition: Condition, related: Tests) -> bool:
        if condition.equal and bounds(condition.value, constant) == (0, 0):
            return True
        if follows(condition, related, extents, kernel.sizes):
            return True
        names = condition.value.names().union(*(g.value.names() for g in related))
        loops = {name: extent for name, extent in extents.items() if name in names}
        if _fails_somewhere(condition, related, loops, kernel):
            return False
        return facts.implied(condition, loops, related)

    return implied


# What the sizes of a condition are tried at, those it does not speak of being whole tiles. A multiple of four is first:
# what is given often says that a size is one.
_SIZES = (4, 1, 100)


def _fails_somewhere(condition: Condition, given: Tests, loops: Mapping[str, Affine], kernel: Kernel) -> bool:
    """True if the condition fails, and all that is given holds, in the last iterations of its loops at a few sizes.

    Such a point is what the solver would look for: one is enough, and False means that none has been met.
    """
    mine = condition.value.names()
    told = mine.union(*(g.value.names() for g in given))
    if not told <= loops.keys() | set(kernel.sizes):
        return False
    for small in _SIZES:
        sizes = {name: small if name in mine else WHOLE for name in kernel.sizes}
        last = {name: extent.evaluate(sizes) - 1 for name, extent in loops.items()}
        if min(last.values(), default=0) < 0 or not all(_holds(c, sizes) for c in kernel.assumptions):
            continue
        first = {name: n if name in mine else 0 for name, n in last.items()}
        for point in (sizes | last, sizes | first):
            if not _holds(condition, point) and all(_holds(g, point) for g in given):
                return True
    return False


def _holds(condition: Condition, point: Mapping[str, int]) -> bool:
    value = condition.value.evaluate(point)
    return value == 0 if condition.equal else value >= 0


def _share(one: Condition, two: Condition) -> bool:
    return not one.value.names().isdisjoint(two.value.names())
