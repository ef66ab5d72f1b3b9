"""Waits for bulk copies: each is for the phase that it needs, gets it, and nothing is read before or overwritten early.

One thread arrives at a barrier for the n-th time when it starts the copies of phase n - 1. Nothing but the parity of a
phase can be waited for: a thread goes on if the current phase has another one. Theorem: every read finds what a bulk
copy has brought, and no thread waits for ever, if for each barrier

- phases: the arrivals are those of the phases 0, 1, 2, ... in this order, and whoever arrives has seen the end of the
  phase before;
- progress: a wait for a phase stands behind the arrival for it in the program;
- parity: whoever waits for a phase has seen the end of the one before, and a barrier of the block stands between
  the wait and the next arrival, so that the phase is the current one or the last;
- reads: between a bulk copy and whoever reads what it brings stands a wait, by the same thread, for its phase;
- writes: of two copies to one place the first is of an earlier phase of the same barrier; nothing else writes there;
- ends: the thread that starts copies has seen the end of their phase when it is done.

Every wait is needed: without it, some read would come too early.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from tilegen.ir.affine import Affine, affine
from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS, Condition
from tilegen.judge.cross_thread import Crossing, rows_of_adjacent, ways_later
from tilegen.poly.covering import find_uncovered
from tilegen.poly.instances import Leaf, Placed, Projection, Use, with_divisions
from tilegen.poly.rows import Row, Rows, rename
from tilegen.poly.system import Form, equal_rows, example, form, range_of, rows_of, solvable
from tilegen.poly.verdict import Refused, Words
from tilegen.proof.barriers import CertainBarriers, Meeting
from tilegen.proof.kinds import kind_of, leaves_of_kind
from tilegen.proof.waits import home_of


def check_arrivals(walls: CertainBarriers) -> None:
    """Refused where one of these does not hold of a program with what is said at barriers."""
    protocol = _Protocol(walls)
    for arrival in protocol.arrivals:
        protocol.check_slot(arrival)
        protocol.check_phases(arrival)
        protocol.check_end(arrival)
    for wait in protocol.waits:
        protocol.check_slot(wait)
        protocol.check_progress(wait)
        protocol.check_parity(wait)
    for copy in protocol.copies:
        protocol.check_writes(copy)
        for read in protocol.program.leaves:
            protocol.check_reads(copy, read, protocol.waits)
    for wait in protocol.waits:
        protocol.check_needed(wait)


def meetings_of_waits(walls: CertainBarriers) -> Iterator[Meeting]:
    """Where a barrier keeps an arrival from a thread that is still waiting."""
    protocol = _Protocol(walls)
    return chain.from_iterable(map(protocol.meetings, protocol.waits))


@dataclass(frozen=True)
class Moment:
    """An instance of a leaf, whose names are those of the leaf with a mark; loops over blocks are the same for all."""

    placed: Placed
    mark: str = ""

    @property
    def leaf(self) -> Leaf:
        return self.placed.leaf

    @cached_property
    def names(self) -> Mapping[str, str]:
        blocks = frozenset(n for n, kind in zip(self.leaf.names, self.leaf.kinds, strict=True) if kind in BLOCK_KINDS)
        return {n: f"{n}{self.mark}" for n in self.leaf.primed_names(blocks)} if self.mark else {}

    @property
    def rows(self) -> Rows:
        return rename(self.leaf.domain, self.names)

    @property
    def loops(self) -> list[str]:
        return [self.names.get(n, n) for n in self.leaf.names]

    def form(self, value: Affine) -> Form:
        """The value there."""
        plain = form(value)
        return plain.rename(with_divisions(self.names, (plain,), self.mark)) if self.mark else plain

    @property
    def event(self) -> tuple[Form, ...]:
        """The barrier and the phase that are spoken of."""
        return tuple(self.form(i) for i in self.leaf.stmt.target.index)


def rows_of_same_thread(one: Moment, two: Moment) -> tuple[Row, ...]:
    """Rows that say so; along an axis that `two` is no loop of, the name of the axis tells which thread is meant."""
    threads = [n for n, kind in zip(one.leaf.names, one.leaf.kinds, strict=True) if kind in THREAD_KINDS]
    pairs = [(one.names.get(n, n), two.names.get(n, n)) for n in threads]
    return tuple((True, ((a, 1), (b, -1)), 0) for a, b in pairs if a != b)


def ways_ahead(one: Moment, two: Moment) -> Iterator[Rows]:
    """Rows for the ways in which `one` stands ahead of `two` in the program that every thread of a block runs."""
    return (rows for _, rows in carried_ways_ahead(one, two))


def carried_ways_ahead(one: Moment, two: Moment) -> Iterator[tuple[str | None, Rows]]:
    """The same, each with the loop that has gone on in between, or None."""
    equal: Rows = ()
    depth = one.placed.common_depth(two.placed)
    for name, kind in list(zip(one.leaf.names, one.leaf.kinds, strict=True))[:depth]:
        if kind in THREAD_KINDS:
            continue
        first, second = one.names.get(name, name), two.names.get(name, name)
        if first == second:
            continue
        yield name, (*equal, (False, ((second, 1), (first, -1)), -1))
        equal += ((True, ((second, 1), (first, -1)), 0),)
    if one.placed.places < two.placed.places:
        yield None, equal


class _Protocol:
    """What is said at the barriers of a program."""

    def __init__(self, walls: CertainBarriers) -> None:
        self.walls = walls
        self.program: Projection = walls.program
        self.arrivals = leaves_of_kind(self.program, "arrival")
        self.waits = leaves_of_kind(self.program, "wait")
        self.copies = leaves_of_kind(self.program, "bulk copy")

    def _at_barrier(self, events: Sequence[Placed], other: Placed) -> list[Placed]:
        """Those of the events that are at the same array of barriers."""
        name = other.leaf.stmt.target.buffer
        return [p for p in events if p.leaf.stmt.target.buffer == name and p.places[0] == other.places[0]]

    def _refuse_uncovered(
        self, sentence: str, wanted: Rows, pieces: Iterator[Rows], point: Moment, more: Sequence[str] = ()
    ) -> None:
        names = list(dict.fromkeys((*self.program.kernel.sizes, *point.loops, *more)))
        found = find_uncovered(self.program.original.context + wanted, pieces, names)
        if found is not None:
            raise Refused(sentence, self._words(point, found))

    def _refuse_possible(self, sentence: str, rows: Rows, point: Moment) -> None:
        question = self.program.original.context + rows
        if solvable(question):
            found = example(question, [*self.program.kernel.sizes, *point.loops])
            assert found is not None
            raise Refused(sentence, self._words(point, found))

    def _words(self, point: Moment, found: Mapping[str, int]) -> str:
        words = Words(self.program.original, found)
        return f"{point.leaf.stmt.name}{words.iteration(point.leaf)}{words.sizes}"

    # -- the arrivals

    def check_slot(self, event: Placed) -> None:
        """The barrier is one of its array, and phases begin with 0."""
        slot, phase = event.leaf.stmt.target.index
        name = event.leaf.stmt.target.buffer
        count = self.program.buffers[name].shape[0]
        for wrong in (slot, count - 1 - slot, phase):
            contrary = rows_of(Condition(-1 - affine(wrong)))
            self._refuse_possible(f"'{name}' has no such barrier or phase", event.leaf.domain + contrary, Moment(event))

    def check_phases(self, arrival: Placed) -> None:
        """They come one after the other, each when the one before has ended."""
        here, name = Moment(arrival), arrival.leaf.stmt.target.buffer
        slot, phase = here.event
        for other in self._at_barrier(self.arrivals, arrival):
            before = Moment(other, "'")
            its_slot, its_phase = before.event
            for way in ways_ahead(before, here):
                both = here.rows + before.rows + way + its_slot.minus(slot).zero()
                sentence = f"phases of '{name}' are not counted in the order in which they are filled"
                self._refuse_possible(sentence, both + its_phase.minus(phase).nonnegative(), here)
        later = here.rows + rows_of(Condition(arrival.leaf.stmt.target.index[1] - 1))
        sentence = f"a thread arrives at '{name}' for a phase before it has seen the end of the last one"
        self._refuse_uncovered(sentence, later, self._seen_before(here, 1), here)

    def _seen_before(self, here: Moment, less: int) -> Iterator[Rows]:
        """Pieces where the same thread has waited for the phase that is so many before that of `here`."""
        slot, phase = here.event
        for wait in self._at_barrier(self.waits, here.placed):
            before = Moment(wait, "'")
            its_slot, its_phase = before.event
            alike = its_slot.minus(slot).zero() + its_phase.minus(phase, -less).zero()
            for way in ways_ahead(before, here):
                yield here.rows + before.rows + way + alike + rows_of_same_thread(before, here)

    def check_end(self, arrival: Placed) -> None:
        """The thread that starts copies waits for them, too."""
        here, name = Moment(arrival), arrival.leaf.stmt.target.buffer
        pieces = (
            here.rows + seen.rows + equal_rows(seen.event, here.event) + rows_of_same_thread(seen, here)
            for wait in self._at_barrier(self.waits, arrival)
            for seen in (Moment(wait, "'"),)
        )
        self._refuse_uncovered(f"nobody waits for what arrives at '{name}'", here.rows, pieces, here)

    # -- the waits

    def check_progress(self, wait: Placed) -> None:
        """What is waited for has been started."""
        here, name = Moment(wait), wait.leaf.stmt.target.buffer
        pieces = (
            here.rows + before.rows + way + equal_rows(before.event, here.event)
            for arrival in self._at_barrier(self.arrivals, wait)
            for before in (Moment(arrival, "'"),)
            for way in ways_ahead(before, here)
        )
        self._refuse_uncovered(f"a wait at '{name}' is for what never arrives", here.rows, pieces, here)

    def check_parity(self, wait: Placed) -> None:
        """The parity says which phase it is."""
        here, name = Moment(wait), wait.leaf.stmt.target.buffer
        later = here.rows + rows_of(Condition(wait.leaf.stmt.target.index[1] - 1))
        sentence = f"a wait at '{name}' may take the end of an earlier phase for the one that it is for"
        self._refuse_uncovered(sentence, later, self._seen_before(here, 1), here)
        for _, arrival, mine, other, way, between in self.meetings(wait):
            only = tuple(
                row
                for loop, row in rows_of_adjacent(wait, arrival, way[0])
                if self.walls.barriers_in_iteration(arrival, loop)
            )
            crossing = Crossing(self.program, wait, arrival, mine, other, way)
            if not between and crossing.is_possible(only):
                sentence = f"the next phase of '{name}' may end before a thread has seen the end of this one"
                raise Refused(sentence, crossing.describe(only))

    def meetings(self, wait: Placed) -> Iterator[Meeting]:
        """A wait, and a later arrival for another phase of its barrier: as if it read what the copies overwrite."""
        for arrival in self._at_barrier(self.arrivals, wait):
            copy = next((p for p in self.copies if p.number > arrival.number), arrival)
            for way in ways_later(wait, arrival):
                between = self.walls.barriers_between(wait, arrival, way[0])
                mine, other = (
                    Use(copy.leaf.stmt.target.buffer, p.leaf.stmt.target.index[:1], p is arrival)
                    for p in (wait, arrival)
                )
                yield wait, arrival, mine, other, way, between

    # -- the memory

    def _arrival_of(self, copy: Placed) -> Placed:
        """What is said at the barrier ahead of a copy."""
        found = [p for p in self.arrivals if p.number < copy.number and p.places[0] == copy.places[0]]
        if not found or not set(found[-1].leaf.names) <= set(copy.leaf.names):
            raise Refused(f"a copy to '{copy.leaf.stmt.target.buffer}' brings bytes that nobody expects")
        if found[-1].leaf.stmt.guard != copy.leaf.stmt.guard:
            raise Refused(f"a copy to '{copy.leaf.stmt.target.buffer}' is made under another test than its arrival")
        return found[-1]

    def _event_of(self, copy: Moment) -> tuple[str, tuple[Form, ...]]:
        """(barrier array, barrier and phase) that a copy arrives at."""
        target = self._arrival_of(copy.placed).leaf.stmt.target
        return target.buffer, tuple(copy.form(i) for i in target.index)

    def check_writes(self, copy: Placed) -> None:
        """Two copies to one place have an order."""
        (write,) = [u for u in copy.leaf.uses if u.writes]
        here = Moment(copy)
        barrier, (slot, phase) = self._event_of(here)
        for other in self.program.leaves:
            its = next((u for u in other.leaf.uses if u.writes and u.buffer == write.buffer), None)
            if its is None or other.places[0] != copy.places[0]:
                continue
            if kind_of(other.leaf.stmt) != "bulk copy":
                raise Refused(f"'{write.buffer}' is written by threads and by bulk copies, and no fence orders them")
            before = Moment(other, "'")
            its_barrier, (its_slot, its_phase) = self._event_of(before)
            place = equal_rows([here.form(i) for i in write.index], [before.form(i) for i in its.index])
            wrong = [slot.minus(its_slot, 1), its_slot.minus(slot, 1), its_phase.minus(phase)]
            for way in ways_ahead(before, here):
                for contrary in [w.nonnegative() for w in wrong] if barrier == its_barrier else [()]:
                    sentence = f"two bulk copies to one element of '{write.buffer}' may end in either order"
                    self._refuse_possible(sentence, here.rows + before.rows + way + place + contrary, here)

    def check_reads(self, copy: Placed, read: Placed, waits: Sequence[Placed]) -> None:
        """Whoever reads what the copy brings has waited for it at one of `waits`."""
        (write,) = [u for u in copy.leaf.uses if u.writes]
        uses = {u.index: u for u in read.leaf.uses if u.buffer == write.buffer and not u.writes}
        if not uses or read.places[0] != copy.places[0]:
            return
        here, there = Moment(read), Moment(copy, "'")
        _, event = self._event_of(there)
        home = home_of(self.program, write.buffer)
        life = self._in_one_life(here, there, home)
        axes = {n: e for n, e in self._threads(read.places[0]).items() if n not in read.leaf.names}
        anybody = tuple(row for name, extent in axes.items() for row in range_of(name, extent))
        for use in uses.values():
            place = equal_rows([here.form(i) for i in use.index], [there.form(i) for i in write.index])
            for way in ways_ahead(there, here):
                wanted = here.rows + there.rows + place + life + way + anybody
                pieces = (
                    wanted + seen.rows + behind + equal_rows(seen.event, event) + rows_of_same_thread(seen, here)
                    for wait in self._at_barrier(waits, self._arrival_of(copy))
                    for seen in (Moment(wait, "''"),)
                    for behind in ways_ahead(seen, here)
                )
                sentence = f"'{write.buffer}' may be read before it has arrived"
                self._refuse_uncovered(sentence, wanted, pieces, here, [*there.loops, *axes])

    def _threads(self, launch: int) -> Mapping[str, Affine]:
        """The thread loops of a launch: what is outside of one of them is done by all of its threads."""
        leaves = [p.leaf for p in self.program.leaves if p.places[0] == launch]
        each = [(n, k, e) for leaf in leaves for n, k, e in zip(leaf.names, leaf.kinds, leaf.extents, strict=True)]
        return {name: extent for name, kind, extent in each if kind in THREAD_KINDS}

    def _in_one_life(self, one: Moment, two: Moment, home: str | None) -> Rows:
        """Rows that say that both are in one iteration of the loops that the buffer lives in.

        That nothing is read which an earlier one has written, the check of values has shown.
        """
        if home is None or home not in one.leaf.names:
            return ()
        around = one.leaf.names[: one.leaf.names.index(home) + 1]
        pairs = [(one.names.get(n, n), two.names.get(n, n)) for n in around if n in two.leaf.names]
        return tuple((True, ((a, 1), (b, -1)), 0) for a, b in pairs if a != b)

    def check_needed(self, wait: Placed) -> None:
        """Without this wait something would be read too early."""
        others = [p for p in self.waits if p is not wait]
        try:
            for copy in self.copies:
                for read in self.program.leaves:
                    self.check_reads(copy, read, others)
        except Refused:
            return
        raise Refused(f"a wait at '{wait.leaf.stmt.target.buffer}' is there for nothing", "all reads have others")
