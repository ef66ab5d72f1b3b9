"""Execution order: the cases in which an instance of one leaf runs before one of another, as rows over both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from tilegen.poly.instances import Placed, Use, common_index, equal_loops
from tilegen.poly.rows import Row, Rows

# The loops that two instances are in the same iteration of, and rows for what differs.
Way = tuple[frozenset[str], tuple[Row, ...]]


def ways_before(one: Placed, two: Placed) -> Iterator[Way]:
    """The ways in which an instance of `one` comes before one of `two`, whose names are primed.

    Each way: the loops that both are in the same iteration of, and rows for the first that differs.
    """
    depth = one.common_depth(two)
    names = one.leaf.names
    for d in range(depth):
        yield frozenset(names[:d]), ((False, ((f"{names[d]}'", 1), (names[d], -1)), -1),)
    if one.places < two.places:
        yield frozenset(names[:depth]), ()


# What the names of a leaf are at one of several points; those that are not given are the plain ones.
Names = Mapping[str, str]


def rows_before(
    one: Placed,
    first_names: Names,
    two: Placed,
    second_names: Names,
    home: int,
    alike: frozenset[str] = frozenset(),
) -> Iterator[tuple[Row, ...]]:
    """The ways in which `one` comes before `two` in one iteration of the first `home` loops, which both are in.

    Loops with one name for both, and those in `alike`, are known to be in the same iteration: nothing is said of these.
    """
    depth = one.common_depth(two)
    if depth < home:
        return
    equal: tuple[Row, ...] = ()
    for d, name in enumerate(one.leaf.names[:depth]):
        first, second = first_names.get(name, name), second_names.get(name, name)
        if first == second or name in alike:
            continue
        if d >= home:
            yield (*equal, (False, ((second, 1), (first, -1)), -1))
        equal += ((True, ((second, 1), (first, -1)), 0),)
    if one.places < two.places:
        yield equal


class PlacedAccess(Protocol):
    """One access of a placed leaf."""

    @property
    def placed(self) -> Placed: ...

    @property
    def use(self) -> Use: ...


# An access, and the names of its leaf there.
AccessPoint = tuple[PlacedAccess, Names]


def ways_between(
    one: AccessPoint,
    other: AccessPoint,
    last: AccessPoint,
    shared: frozenset[str],
    known: Callable[[], Rows],
    more: Callable[[], tuple[Row, ...]],
) -> Iterator[Rows]:
    """The ways in which `other` comes after `one` and before `last`, where all three use one place.

    Since `one` and `last` are in the same iteration of the outermost loops, those in `shared`, so is whatever comes
    between them, if it comes in these loops at all: they have one name.

    Args:
        known: makes what holds of `one` and `last`: where there is no such way, nobody needs it.
        more: makes what holds of `other`. It is long, and most ways are out without it.
    """
    (first, first_names), (second, second_names), (third, end) = one, other, last
    depth, leaf = len(shared), second.placed.leaf
    met = shared | equal_loops(first.placed.leaf, leaf, common_index(first.use, second.use), shared)
    behind = list(rows_before(first.placed, first_names, second.placed, second_names, depth, met))
    if not behind:
        return
    meet = shared | equal_loops(leaf, third.placed.leaf, common_index(second.use, third.use), shared)
    before = list(rows_before(second.placed, second_names, third.placed, end, depth, meet))
    if not before:
        return
    rows = known() + more()
    yield from (rows + a + b for a in behind for b in before)
