"""Faults in lists, of a tree, of a lowered program, and of a text."""

from __future__ import annotations

from dataclasses import replace

from tests.support.mutants.places import edited
from tilegen.ir.nodes import Stmt


def _hits(change):
    """The same with each list as `change` has it."""

    def fault(program):
        def each(node):
            if isinstance(node, Stmt) and node.hits:
                yield from ((replace(node, hits=hits),) for hits in change(node.hits))

        return edited(program, each)

    return fault


@_hits
def wrong_capacity(hits):
    """One place more than there is, or none that is used."""
    yield replace(hits, capacity=hits.capacity + 1)
    yield replace(hits, capacity=hits.capacity - 1)


@_hits
def wrong_hit(hits):
    """Something else is kept, or elsewhere, or nothing."""
    yield None
    index = hits.access.index
    yield replace(hits, access=replace(hits.access, index=tuple(i + (d == hits.place) for d, i in enumerate(index))))
    if len(hits.items) > 1:
        yield replace(hits, items=hits.items[::-1])
    if hits.rank:
        yield replace(hits, rank=None)


FAULTS = {"wrong capacity": wrong_capacity, "wrong hit": wrong_hit}
TEXT_FAULTS = {
    "wrong capacity": [(r"place < (\w+)", r"place <= \1"), (r"0 <= place && place < \w+", "0 <= place")],
    "wrong hit": [
        (r"\[place", "[1 + place"),
        (r"\(hits >> \w+\) & 1", "hits & 1"),
        (r"popc(ount)?\(", "!("),
        (r"\|= 1u <<", "|= 2u <<"),
        (r"place = (\w*rank)", r"place = 1 + \1"),
        (r"ones_ahead_of", "ones_up_to"),
    ],
}
