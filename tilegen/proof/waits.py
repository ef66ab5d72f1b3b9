"""Asynchronous copies: whoever reads what one writes has passed a wait that it has ended before.

Copies are made in groups, numbered from 0 in the order in which each thread makes them. A wait that leaves
`n` groups on their way, with `g` of them made before it, has ended those below g - n.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

from tilegen.ir.affine import var
from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS, Condition, Loop, Stmt
from tilegen.poly.execution import ways_before
from tilegen.poly.instances import Placed, Projection, Use
from tilegen.poly.rows import Row, Rows, rename
from tilegen.poly.system import example, form, quotients, rows_of, solvable
from tilegen.poly.verdict import Refused, Unproved, Words
from tilegen.proof.barriers import GroupCount, Slot, Stop


def check_waits(program: Projection, stops: Mapping[Slot, Stop], copies: Sequence[tuple[Stmt, GroupCount]]) -> None:
    """Refused where something is read that an asynchronous copy may not have written yet."""
    made = {id(stmt): groups for stmt, groups in copies}
    writers = [p for p in program.leaves if id(p.leaf.stmt) in made]
    home, waits = cache(partial(home_of, program)), cache(lambda two: list(_waits(program, stops, two)))
    for one in writers:
        (write,) = [u for u in one.leaf.uses if u.writes]
        for two in program.leaves:
            reads = {u.index: u for u in two.leaf.uses if u.buffer == write.buffer and not u.writes}
            if reads and one.places[0] == two.places[0]:
                pair = _Pair(program, one, two, write, made[id(one.leaf.stmt)], waits(two))
                _check_pair(pair, home(write.buffer), list(reads.values()))


# The groups that have ended where something is read, and when they are these.
Ended = tuple[tuple[Condition, ...], GroupCount]


@dataclass(frozen=True)
class _Pair:
    """What writes asynchronously and what reads: the groups made before the one, the last waits before the other."""

    program: Projection
    one: Placed
    two: Placed
    write: Use
    made: GroupCount
    waits: list[Ended]

    def late_rows(self, read: Use, shared: frozenset[str], order: tuple[Row, ...]) -> Rows | None:
        """Rows for a read, in the same iteration of the loops in `shared`, of what may not have ended."""
        met: tuple[Rows, Mapping[str, str]] | None = None
        for cases, ended in self.waits:
            if ended.since != self.made.since:
                raise Unproved("asynchronous copies are made in one loop and waited for in another")
            leaves = self.one.leaf, self.two.leaf
            met = met or self.program.original.meeting_rows(*leaves, self.write, read, shared, order)
            rows, names = met
            question = rows + self._on_its_way(cases, ended, names)
            if solvable(question):
                return question
        return None

    def _on_its_way(self, cases: tuple[Condition, ...], ended: GroupCount, names: Mapping[str, str]) -> tuple[Row, ...]:
        """Rows that say that it has not ended in these cases, at a read whose loops have these names."""
        values = (ended.groups, *(c.value for c in cases))
        divided = {q: f"{q}'" for v in values for q, inside in quotients(v) if not inside.isdisjoint(names)}
        names = {**names, **divided}
        left = form(self.made.groups).minus(form(ended.groups).rename(names))
        return left.nonnegative() + rename(tuple(r for c in cases for r in rows_of(c)), names)

    @cached_property
    def counting_loops(self) -> frozenset[str]:
        """The loops that both are in and that the groups are counted in."""
        values = [self.made.groups, *(ended.groups for _, ended in self.waits)]
        values += [c.value for cases, _ in self.waits for c in cases]
        common = self.one.leaf.names[: self.one.common_depth(self.two)]
        return frozenset(common).intersection(name for value in values for name in value.names())


def _check_pair(pair: _Pair, home: str | None, reads: Sequence[Use]) -> None:
    one, two = pair.one.leaf, pair.two.leaf
    for shared, order in ways_before(pair.one, pair.two):
        if home not in shared:
            continue  # the check of values has shown that nothing is read that an earlier iteration wrote
        if pair.made.since not in ("", *shared):
            raise Unproved("asynchronous copies are counted in a loop that their readers are not in")
        alike = order and pair.counting_loops <= shared and pair.one.places < pair.two.places
        if alike and not any(pair.late_rows(read, shared, ()) for read in reads):
            return  # the counts are the same in all ways that are left, and say it without these
        for read in reads:
            question = pair.late_rows(read, shared, order)
            if question is None:
                continue
            names = two.primed_names(shared)
            first = [*pair.program.kernel.sizes, *one.names, *(names.get(n, n) for n in two.names)]
            point = example(question, first)
            assert point is not None
            words = Words(pair.program.original, point, shared)
            raise Refused(
                "an asynchronous copy may not have ended where what it writes is read",
                f"{words.instance(two, True)} reads what {words.instance(one)} writes{words.sizes}",
            )


def _waits(program: Projection, stops: Mapping[Slot, Stop], read: Placed) -> Iterator[Ended]:
    """(when, the groups that have ended) for the last wait before the read, in the cases there are.

    It stands ahead of the read in the same iteration of the loops around, or in the last iteration of a loop there;
    else at the same place in the iteration before; else, in a first iteration or where the loop has none, ahead of the
    loop. A wait that is passed over has ended no fewer groups.
    """
    first: tuple[Condition, ...] = ()
    for depth in range(len(read.places) - 1, 0, -1):
        kind, name = read.leaf.kinds[depth - 1], read.leaf.names[depth - 1]
        if kind in THREAD_KINDS or any(k in THREAD_KINDS for k in read.leaf.kinds[:depth]):
            continue
        path, place = read.places[:depth], read.places[depth]
        here = [(s, stop) for (p, s), stop in stops.items() if p == path and stop.wait is not None]
        ahead = max(((s, stop) for s, stop in here if s <= place), key=lambda pair: pair[0], default=None)
        for loop, stop in _of_loops(program, stops, path, ahead[0] if ahead else 0, place):
            ended = _groups_ended(stop)
            last_one = {loop.name: loop.extent - 1}
            yield (*first, Condition(loop.extent - 1)), replace(ended, groups=ended.groups.substitute(last_one))
            first = (*first, Condition(-loop.extent))
        if ahead:
            yield first, _groups_ended(ahead[1])
            return
        if here and kind not in BLOCK_KINDS:
            last = max(here, key=lambda pair: pair[0])[1]
            back = {name: var(name) - 1}
            ended = _groups_ended(last)
            yield (*first, Condition(var(name) - 1)), replace(ended, groups=ended.groups.substitute(back))
            first = (*first, Condition(var(name), equal=True))
    yield first, GroupCount()


def _of_loops(
    program: Projection, stops: Mapping[Slot, Stop], path: tuple[int, ...], first: int, end: int
) -> Iterator[tuple[Loop, Stop]]:
    """(loop, its last wait) for the children of the body at `path` from number `first` up to `end`, the last first."""
    body = program.tree.body
    for place in path:
        node = body[place]
        assert isinstance(node, Loop)
        body = node.body
    for place in range(end - 1, first - 1, -1):
        node = body[place]
        inside = [(s, stop) for (p, s), stop in stops.items() if p == (*path, place) and stop.wait is not None]
        if inside and isinstance(node, Loop) and node.kind not in (*THREAD_KINDS, *BLOCK_KINDS):
            yield node, max(inside, key=lambda pair: pair[0])[1]


def _groups_ended(stop: Stop) -> GroupCount:
    assert stop.wait is not None
    assert stop.made is not None
    return replace(stop.made, groups=stop.made.groups - stop.wait)


def home_of(program: Projection, name: str) -> str | None:
    """The innermost loop around all uses of a buffer."""
    users = [p for p in program.leaves if any(u.buffer == name for u in p.leaf.uses)]
    depth = min(users[0].common_depth(p) for p in users)
    return users[0].leaf.names[depth - 1] if depth else None
