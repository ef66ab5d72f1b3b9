"""Which guards need no test: what the loops' extents, the sizes and the assumptions imply."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.ir.affine import Affine, const
from tilegen.ir.nodes import Condition, Kernel, Tree
from tilegen.ir.ranges import bounds
from tilegen.ir.walk import loops
from tilegen.lowering.guards import Implied, Tests


def implied_in(tree: Tree, extents: Mapping[str, Affine]) -> Implied:
    """What decides, inside loops of the given extents, whether a condition is certain.

    Intervals answer most questions at once; the solver is asked the rest.
    """
    constant = {name: extent.const for name, extent in extents.items() if extent.is_const}
    cache: dict[tuple[Condition, Tests], bool] = {}

    def decide(condition: Condition, given: Tests) -> bool:
        names = condition.value.names()
        related = tuple(g for g in given if not names.isdisjoint(g.value.names()))
        if (condition, related) not in cache:
            cache[condition, related] = _in_range(condition, constant) or _below_extent(condition, extents)
        return cache[condition, related]

    return decide


def _in_range(condition: Condition, constant: Mapping[str, int]) -> bool:
    range_ = bounds(condition.value, constant)
    if range_ is None:
        return False
    return range_ == (0, 0) if condition.equal else range_[0] >= 0


def _below_extent(condition: Condition, extents: Mapping[str, Affine]) -> bool:
    """True if the condition holds where every loop that counts against it is in its last iteration."""
    if condition.equal:
        return False
    value = condition.value
    for atom, factor in condition.value.terms:
        if not isinstance(atom, str):
            return False
        if atom in extents:
            last = extents[atom] - 1 if factor < 0 else const(0)
            value = value.substitute({atom: last})
    # Sizes are at least 1.
    least = value.const + sum(factor for _, factor in value.terms)
    return all(isinstance(atom, str) and factor >= 0 for atom, factor in value.terms) and least >= 0


def extents_of(tree: Tree) -> dict[str, Affine]:
    """Every loop of the tree with its extent."""
    return {loop.name: loop.extent for loop in loops(tree.body)}


def sizes_in_order(kernel: Kernel, used: frozenset[str]) -> tuple[str, ...]:
    return tuple(size for size in kernel.sizes if size in used)
