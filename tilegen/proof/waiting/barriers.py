"""Barriers: between two threads that meet in an element there is one, and none is there for nothing.

Theorem: the launch has no race between threads of a block if, for every two accesses of different threads to one
element of shared or global memory, one of them writing, a barrier stands on every way from the first to the second
(`check_synchronised`). None can go: each is the only one between some such two, and so is what its claims say
(`check_minimal`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property

from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import THREAD_KINDS, Condition, Loop, Node
from tilegen.judge.threads.cross_thread import Crossing, DependenceKind, Way, meetings, rows_of_adjacent, ways_later
from tilegen.lowering.launch.claims import Claim
from tilegen.lowering.launch.timelines import Barrier
from tilegen.poly.instances import Placed, Projection, Use
from tilegen.poly.system import rows_of, solvable
from tilegen.poly.verdict import Refused
from tilegen.proof.reading.dealing import AGAIN
from tilegen.proof.reading.on_timelines import ends_at_barrier, is_load, is_store
from tilegen.proof.reading.roles import Ring

Path = tuple[int, ...]
Gap = tuple[Path, int]  # the way to a body, and the child that the place is before


@dataclass(frozen=True)
class FoundBarrier(Barrier):
    """A barrier where it stands; `again` if another one does, too."""

    again: bool = False


def check_synchronised(certain: CertainBarriers) -> None:
    """Refused where two threads of a block touch an element, one writes it, and no barrier is certain between."""
    program, barriers = certain.program, certain.barriers
    for one, two, a, b, way, between in certain.meetings:
        if not between:
            on_chip = program.buffers[a.buffer].space != "global"
            only = tuple(
                row
                for loop, row in rows_of_adjacent(one, two, way[0])
                if any(on_chip or barriers[gap].of_global for gap in certain.barriers_in_iteration(two, loop))
            )
            crossing = Crossing(program, one, two, a, b, way)
            if crossing.is_possible(only):
                sentence = "no barrier stands between two accesses to an element by different threads"
                raise Refused(sentence, crossing.describe(only))


def check_minimal(certain: CertainBarriers, waits: Iterable[Meeting] = ()) -> None:
    """Refused where a barrier can go, or says that it guards what it does not. `waits` are those for bulk copies."""
    program, barriers = certain.program, certain.barriers
    needed: set[Gap] = set()
    open_claims = {(gap, claim) for gap, barrier in barriers.items() for claim in barrier.claims}
    for one, two, a, b, way, between in (*certain.meetings, *waits):
        kind: DependenceKind = "WAW" if a.writes and b.writes else "RAW" if a.writes else "WAR"
        claims = {
            (gap, claim)
            for gap, claim in open_claims
            if gap in between and claim == Claim(kind, memory_of(a.buffer), way[0])
        }
        alone = len(between) == 1 and not between <= needed
        if (claims or alone) and Crossing(program, one, two, a, b, way).is_possible():
            needed |= between if alone else set()
            open_claims -= claims
    for gap, barrier in barriers.items():
        if barrier.again or gap not in needed:
            raise Refused("a barrier is there for nothing", f"every dependence is kept without '{barrier.reason}'")
    for gap, claim in open_claims:
        raise Refused(f"a barrier says that it guards '{claim.buffer}', and does not", barriers[gap].reason)


def check_fenced(certain: CertainBarriers, described: Set[str]) -> None:
    """Refused where what threads have written is read by descriptor or by a bulk store, and no barrier between has a
    fence; or where a barrier has a fence for nothing. That one stands before bulk copies to what threads have loaded
    from is asked of events (`happens_before`)."""
    program, barriers = certain.program, certain.barriers
    fenced = frozenset(gap for gap, barrier in barriers.items() if barrier.fence)
    used: set[Gap] = set()
    for one, two, a, b, way, between in certain.meetings:
        if b.writes and ends_at_barrier(two) and is_load(one):
            used |= between & fenced
        if not a.writes or b.writes or b.buffer not in described:
            continue
        crossing = Crossing(program, one, two, a, b, way)
        if not between & fenced and crossing.is_possible():
            how = "by a bulk store" if is_store(two) else "by descriptor"
            sentence = f"'{b.buffer}' is read {how}, and no fence stands after what threads write there"
            raise Refused(sentence, crossing.describe())
        used |= between & fenced
    for gap in fenced - used:
        raise Refused("a fence is there for nothing", f"'{barriers[gap].reason}' speaks of nothing that needs one")


# Accesses of different thread nests that may meet, the earlier one first, and the barriers between.
Meeting = tuple[Placed, Placed, Use, Use, Way, frozenset[Gap]]


def _meetings(certain: CertainBarriers) -> Iterator[Meeting]:
    program, barriers = certain.program, certain.barriers
    for one, two, pairs in meetings(program, program.leaves):
        if one.places[0] != two.places[0]:
            continue
        outside, ring = _outside(one, two), one.places[0] in certain.rings
        copies = [ends_at_barrier(each) for each in (one, two)]
        for way in ways_later(one, two):
            if outside is not None and way[0] not in outside:
                continue
            between = certain.barriers_between(one, two, way[0])
            for a, b in pairs:
                if copies[0] and not b.writes and not ring:
                    continue  # who reads has waited for that by itself
                on_chip = program.buffers[a.buffer].space == "shared"
                if on_chip and ring and any(copies):
                    continue  # whoever fills or uses a slot of a ring waits for the others by that
                if program.buffers[a.buffer].space == "global":
                    if way[0] == AGAIN:
                        continue  # no two tiles meet there, as blocks that have one each show
                    yield one, two, a, b, way, frozenset(s for s in between if barriers[s].of_global)
                else:
                    yield one, two, a, b, way, between


def _outside(one: Placed, two: Placed) -> frozenset[str] | None:
    """The loops around the thread nest that both are in, or None where they are not in one.

    That threads do not collide in one run of a nest has been asked of its parallel loops.
    """
    common = one.leaf.kinds[: one.common_depth(two)]
    first = next((n for n, kind in enumerate(common) if kind in THREAD_KINDS), None)
    return None if first is None else frozenset(one.leaf.names[:first])


class CertainBarriers:
    """Which barriers every thread meets on its way from one leaf to another; `rings` are by launch."""

    def __init__(self, program: Projection, barriers: Mapping[Gap, FoundBarrier], rings: Mapping[int, Ring]) -> None:
        self.program, self.barriers, self.rings = program, barriers, rings
        self._certain: dict[Path, frozenset[Gap]] = {}
        # The ways to the bodies that barriers are in.
        self._held = {path[:depth] for path, _ in barriers for depth in range(len(path) + 1)}

    @cached_property
    def meetings(self) -> tuple[Meeting, ...]:
        return tuple(_meetings(self))

    def barriers_between(self, one: Placed, two: Placed, carried_by: str | None) -> frozenset[Gap]:
        """The barriers that are certain between `one` and the later `two`."""
        depth = one.common_depth(two)
        if carried_by is not None:
            depth = one.leaf.names.index(carried_by) + 1
        path, body = one.places[:depth], self._body_at(one.places[:depth])
        first, last = one.places[depth], two.places[depth]
        found = self._barriers_after(one.places, depth + 1) | self._barriers_before(two.places, depth + 1)
        if carried_by is None:
            return found | self._barriers_passed(path, range(first + 1, last + 1), range(first + 1, last))
        found |= self._barriers_passed(path, range(first + 1, len(body) + 1), range(first + 1, len(body)))
        return found | self._barriers_passed(path, range(last + 1), range(last))

    def barriers_in_iteration(self, placed: Placed, name: str) -> frozenset[Gap]:
        """The barriers that every whole iteration meets of the loop called `name` around a leaf."""
        path = placed.places[: placed.leaf.names.index(name) + 1]
        size = len(self._body_at(path))
        return self._barriers_passed(path, range(size + 1), range(size))

    def _barriers_after(self, places: Path, depth: int) -> frozenset[Gap]:
        """Barriers after the leaf at `places`, in the bodies from `depth` on: to the end of their iteration."""
        found: frozenset[Gap] = frozenset()
        for d in range(depth, len(places)):
            path, place = places[:d], places[d]
            if path not in self._held:
                break  # nor are those inside
            size = len(self._body_at(path))
            found |= self._barriers_passed(path, range(place + 1, size + 1), range(place + 1, size))
        return found

    def _barriers_before(self, places: Path, depth: int) -> frozenset[Gap]:
        found: frozenset[Gap] = frozenset()
        for d in range(depth, len(places)):
            if places[:d] not in self._held:
                break
            found |= self._barriers_passed(places[:d], range(places[d] + 1), range(places[d]))
        return found

    def _barriers_passed(self, path: Path, gaps: range, children: range) -> frozenset[Gap]:
        """The barriers in the gaps, and those that are certain inside the children."""
        if path not in self._held:
            return frozenset()
        found = frozenset((path, s) for s in gaps if (path, s) in self.barriers)
        return found.union(*(self._barriers_inside((*path, child)) for child in children))

    def _barriers_inside(self, path: Path) -> frozenset[Gap]:
        """The barriers that everybody who passes the node at `path` meets."""
        if path not in self._certain:
            node = self._node_at(path)
            found: frozenset[Gap] = frozenset()
            if isinstance(node, Loop) and path in self._held and self._runs(node):
                found = self._barriers_passed(path, range(len(node.body) + 1), range(len(node.body)))
            self._certain[path] = found
        return self._certain[path]

    def _runs(self, loop: Loop) -> bool:
        """True if it has an iteration, whatever sizes and data are."""
        if loop.kind == "ragged":
            return False
        return not solvable((*self.program.original.context, *rows_of(Condition(-loop.extent))))

    def _node_at(self, path: Path) -> Node:
        return self._body_at(path[:-1])[path[-1]]

    def _body_at(self, path: Path) -> tuple[Node, ...]:
        return self._bodies[path]

    @cached_property
    def _bodies(self) -> dict[Path, tuple[Node, ...]]:
        """The bodies of the tree and of its loops, by the way to them."""
        return dict(_bodies(self.program.tree.body, ()))


def _bodies(body: tuple[Node, ...], path: Path) -> Iterator[tuple[Path, tuple[Node, ...]]]:
    yield path, body
    for place, node in enumerate(body):
        if isinstance(node, Loop):
            yield from _bodies(node.body, (*path, place))
