"""Happens before: what threads wait for, they get, and nothing is read before or overwritten early.

An event is a phase of a barrier: of an array of S, event n is phase n/S of barrier n%S. It happens when all have
arrived: one thread that says how many bytes come, and these; or each warp of the consumers, which has read them.
Nothing but the parity of a phase can be waited for: a thread goes on if the current phase has another one.

Theorem: the threads of a block compute what the one program does, and none waits for ever, if for each array

- order: threads arrive for rising numbers, each once, and know that n - S has happened when they arrive for n;
- progress: all arrivals for n stand before a wait for n in the one program;
- parity: whoever waits for n knows that n - S has happened, and comes by before anybody arrives for n + S;
- reads: between a bulk copy and whoever reads what it brings stands a wait, by the same thread, for its event;
- overwritten: whoever uses a slot arrives behind that for the number of its iteration, n, and whoever copies to the
  slot for n + S has waited for that; without roles barriers of the block see to it (`barriers`);
- writes: of two copies to one place the first is for a lower number at the same barrier; nothing else writes there;
- ends: somebody waits for whatever copies arrive at.

A thread knows that an event has happened which it has waited for; or of which somebody knew who then arrived at another
one that it has waited for. One thing comes before another if a barrier stands between them, or if the thread of the
second has waited for an event for which that of the first arrived behind it.

Why: the one program has an order in which all can run: the first wait in it that did not end would have all its
arrivals before it. In any other order each wait lets through no more than there, since of one barrier no later phase
can end before all have seen this one; what is known so is the order of each two accesses to one element.

Every wait is needed: without it, something would be read or overwritten too early.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from tilegen.ir.affine import Affine, affine, var
from tilegen.ir.nodes import THREAD_KINDS, Condition
from tilegen.judge.cross_thread import ways_later
from tilegen.poly.instances import Placed, Projection, Use
from tilegen.poly.rows import Rows, rename
from tilegen.poly.system import Form, range_of, rows_of, solvable
from tilegen.poly.verdict import Refused
from tilegen.proof.barriers import CertainBarriers, Meeting
from tilegen.proof.kinds import COPIES, kind_of, leaves_of_kind
from tilegen.proof.moments import (
    Moment,
    carried_ways_ahead,
    refuse_possible,
    refuse_uncovered,
    rows_of_neighbours,
    rows_of_one_life,
    rows_of_same_place,
    rows_of_same_thread,
    ways_ahead,
)
from tilegen.proof.numbers import Event, Numbers
from tilegen.proof.roles import Ring


def check_events(walls: CertainBarriers, rings: Mapping[int, Ring]) -> None:
    """Refused where one of these does not hold of a program with what is said at barriers; `rings` are by launch."""
    protocol = _Protocol(walls, rings)
    for arrival in protocol.arrivals:
        protocol.check_slot(arrival)
        protocol.check_order(arrival)
        if arrival in protocol.releases:
            protocol.check_consumers(arrival)
        else:
            protocol.check_end(arrival)
    for wait in protocol.waits:
        protocol.check_slot(wait)
        protocol.check_progress(wait)
        protocol.check_parity(wait)
    for copy in protocol.copies:
        protocol.check_writes(copy)
    protocol.check_memory(protocol.waits)
    for read in protocol.program.leaves:
        ring = rings.get(read.places[0])
        if ring and kind_of(read.leaf.stmt) not in COPIES and not ring.buffers.isdisjoint(read.leaf.buffers):
            protocol.check_released(read, ring)
    for wait in protocol.waits:
        protocol.check_needed(wait)


def meetings_of_waits(walls: CertainBarriers, rings: Mapping[int, Ring]) -> Iterator[Meeting]:
    """Where a barrier keeps an arrival from a thread that is still waiting: in a ring others' arrivals do."""
    protocol = _Protocol(walls, rings)
    return chain.from_iterable(protocol.meetings(wait) for wait in protocol.waits if wait.places[0] not in rings)


class _Protocol:
    """What is said at the barriers of a program."""

    def __init__(self, walls: CertainBarriers, rings: Mapping[int, Ring]) -> None:
        self.walls, self.rings = walls, rings
        self.program: Projection = walls.program
        self.releases = leaves_of_kind(self.program, "release")
        self.arrivals = leaves_of_kind(self.program, "arrival") + self.releases
        self.waits = leaves_of_kind(self.program, "wait")
        self.copies = [p for kind in COPIES for p in leaves_of_kind(self.program, kind)]
        self.numbers = Numbers(self.program, rings)

    def _at_barrier(self, events: Sequence[Placed], other: Placed) -> list[Placed]:
        """Those of the events that are at the same array of barriers."""
        name = other.leaf.stmt.target.buffer
        return [p for p in events if p.leaf.stmt.target.buffer == name and p.places[0] == other.places[0]]

    # -- who knows what

    def _knowing(
        self, here: Moment, event: Event, later: Event, waits: Sequence[Placed], barrier: Placed
    ) -> Iterator[Rows]:
        """Pieces where the thread of `here` knows that the event at the barrier has happened. It, and one that is
        `later`, are those at other barriers that it may know this from."""
        for _, rows in self._seen(here, event, self._at_barrier(waits, barrier), "'"):
            yield rows
        for told, rows in self._told(here, (event, later), waits, barrier):
            for _, known in self._seen(told, event, self._at_barrier(waits, barrier), "'''"):
                yield rows + known

    def _seen(self, here: Moment, event: Event, waits: Sequence[Placed], mark: str) -> Iterator[tuple[Moment, Rows]]:
        """(a wait for the event by the thread of `here` before that, rows for it)."""
        for wait in waits:
            seen = Moment(wait, mark)
            for equal in self.numbers.is_at(seen, event):
                for way in ways_ahead(seen, here):
                    yield seen, seen.rows + way + equal + rows_of_same_thread(seen, here)

    def _told(
        self, here: Moment, events: Sequence[Event], waits: Sequence[Placed], barrier: Placed
    ) -> Iterator[tuple[Moment, Rows]]:
        """(an arrival at another barrier that the thread of `here` has waited for, rows for both)."""
        name = barrier.leaf.stmt.target.buffer
        for event in events:
            for seen, rows in self._seen(here, event, [w for w in waits if w.leaf.stmt.target.buffer != name], "'"):
                for arrival in self._at_barrier(self.arrivals, seen.placed):
                    told = Moment(arrival, "''")
                    for equal in self.numbers.is_at(told, event):
                        yield told, rows + told.rows + equal

    # -- the arrivals

    def check_slot(self, event: Placed) -> None:
        """The barrier is one of its array, and phases begin with 0."""
        slot, phase = event.leaf.stmt.target.index
        name = event.leaf.stmt.target.buffer
        for wrong in (slot, self.numbers.slots(event) - 1 - slot, *(() if self.numbers.lag(event) else (phase,))):
            contrary = rows_of(Condition(-1 - affine(wrong)))
            refuse_possible(
                self.program, f"'{name}' has no such barrier or phase", Moment(event), event.leaf.domain + contrary
            )

    def check_order(self, arrival: Placed) -> None:
        """They come one after the other, each when the one before has ended."""
        here, name = Moment(arrival), arrival.leaf.stmt.target.buffer
        if self.numbers.lag(arrival):
            raise Refused(f"a thread arrives at '{name}' for a phase before the first one")
        number = here.form(self.numbers.number(arrival))
        for other in self._at_barrier(self.arrivals, arrival):
            before = Moment(other, "'")
            rise = before.form(self.numbers.number(other)).minus(number).nonnegative()
            for loop, way in carried_ways_ahead(before, here):
                if loop not in self.numbers.runs(arrival):
                    sentence = f"phases of '{name}' are not counted in the order in which they are filled"
                    refuse_possible(self.program, sentence, here, here.rows + before.rows + way + rise)
        sentence = f"a thread arrives at '{name}' for a phase before it has seen the end of the last one"
        event = self.numbers.event(here)
        for before_this, rows, names in self.numbers.before(here, event):
            pieces = self._knowing(here, before_this, event, self.waits, arrival)
            refuse_uncovered(self.program, sentence, here, here.rows + rows, pieces, names)

    def check_consumers(self, release: Placed) -> None:
        """Nobody says that he has read who is no consumer."""
        here, name = Moment(release), release.leaf.stmt.target.buffer
        others = rows_of(Condition(-1 - self.numbers.rings[release.places[0]].consumes.value))
        refuse_possible(self.program, f"others arrive at '{name}' than consumers", here, here.rows + others)

    def check_end(self, arrival: Placed) -> None:
        """Somebody waits for it."""
        here, name = Moment(arrival), arrival.leaf.stmt.target.buffer
        waits = [Moment(wait, "'") for wait in self._at_barrier(self.waits, arrival)]
        pieces = (seen.rows + equal for seen in waits for equal in self.numbers.is_at(seen, self.numbers.event(here)))
        refuse_uncovered(self.program, f"nobody waits for what arrives at '{name}'", here, here.rows, pieces)

    # -- the waits

    def check_progress(self, wait: Placed) -> None:
        """Who is to arrive does so before it."""
        here, name = Moment(wait), wait.leaf.stmt.target.buffer
        event, arrivals = self.numbers.event(here), self._at_barrier(self.arrivals, wait)
        sentence = f"a wait at '{name}' is for what never arrives"
        all_: Rows = ()
        axes = self._threads(wait.places[0])
        who = {name: f"{name}!" for name in axes} if any(each in self.releases for each in arrivals) else {}
        if who:
            consumes = self.rings[wait.places[0]].consumes
            all_ = tuple(row for name, extent in axes.items() for row in range_of(name, extent)) + rows_of(consumes)
        mine: Iterable[tuple[Event, Rows, tuple[str, ...]]] = [(event, (), ())]
        if event.back:
            mine = self.numbers.before(here, Event(event.point))
        for needed, rows, names in mine:
            pieces = (
                before.rows + way + equal + self._is_thread(before, who)
                for arrival in arrivals
                for before in (Moment(arrival, "'"),)
                for equal in self.numbers.is_at(before, needed)
                for way in ways_ahead(before, here)
            )
            wanted = here.rows + rows + rename(all_, who)
            refuse_uncovered(self.program, sentence, here, wanted, pieces, (*names, *who.values()))

    def _is_thread(self, moment: Moment, who: Mapping[str, str]) -> Rows:
        pairs = [(moment.names[name], other) for name, other in who.items() if name in moment.names]
        return tuple((True, ((one, 1), (other, -1)), 0) for one, other in pairs)

    def check_parity(self, wait: Placed) -> None:
        """The parity says which phase it is."""
        here, name = Moment(wait), wait.leaf.stmt.target.buffer
        event = self.numbers.event(here)
        sentence = f"a wait at '{name}' may take the end of an earlier phase for the one that it is for"
        for before, rows, names in self.numbers.before(here, event):
            pieces = self._knowing(here, before, event, self.waits, wait)
            refuse_uncovered(self.program, sentence, here, here.rows + rows, pieces, names)
        for arrival in self._at_barrier(self.arrivals, wait):
            self._check_seen_first(wait, arrival)

    def _check_seen_first(self, wait: Placed, arrival: Placed) -> None:
        """Nobody arrives for the next phase before the wait."""
        here, early, name = Moment(arrival), Moment(wait, "!"), wait.leaf.stmt.target.buffer
        sentence = f"the next phase of '{name}' may end before a thread has seen the end of this one"
        for event, rows, names in self.numbers.before(here, self.numbers.event(here)):
            for equal in self.numbers.is_at(early, event):
                both = here.rows + early.rows + rows + equal
                for way in ways_ahead(here, early):
                    refuse_possible(self.program, sentence, here, both + way)
                for loop, way in carried_ways_ahead(early, here):
                    # Barriers in a ring are those of its consumers alone.
                    in_ring = wait.places[0] in self.rings
                    if not in_ring and self.walls.barriers_between(wait, arrival, loop):
                        continue
                    wanted = both + way
                    wanted += () if in_ring else rows_of_neighbours(self.walls, early, here, loop)
                    alone = (rows_of_same_thread(early, here),)
                    pieces = (
                        seen + behind + rows_of_same_thread(told, early)
                        for told, seen in self._told(here, (event, self.numbers.event(here)), self.waits, wait)
                        for behind in ways_ahead(early, told)
                    )
                    refuse_uncovered(self.program, sentence, here, wanted, chain(alone, pieces), (*names, *early.loops))

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
        """What is said at the barrier before a copy."""
        found = [p for p in self.arrivals if p.number < copy.number and p.places[0] == copy.places[0]]
        if not found or not set(found[-1].leaf.names) <= set(copy.leaf.names):
            raise Refused(f"a copy to '{copy.leaf.stmt.target.buffer}' brings bytes that nobody expects")
        if found[-1].leaf.stmt.guard != copy.leaf.stmt.guard:
            raise Refused(f"a copy to '{copy.leaf.stmt.target.buffer}' is made under another test than its arrival")
        return found[-1]

    def _event_of(self, copy: Moment) -> tuple[str, tuple[Form, ...], Event]:
        """(array of barriers, barrier and phase, event) that a copy arrives at."""
        arrival = self._arrival_of(copy.placed)
        target = arrival.leaf.stmt.target
        event = Event(self.numbers.point(copy, self.numbers.number(arrival)))
        return target.buffer, tuple(copy.form(i) for i in target.index), event

    def check_writes(self, copy: Placed) -> None:
        """Two copies to one place have an order."""
        (write,) = [u for u in copy.leaf.uses if u.writes]
        here = Moment(copy)
        barrier, (slot, phase), _ = self._event_of(here)
        for other in self.program.leaves:
            its = next((u for u in other.leaf.uses if u.writes and u.buffer == write.buffer), None)
            if its is None or other.places[0] != copy.places[0]:
                continue
            if kind_of(other.leaf.stmt) not in COPIES:
                raise Refused(f"'{write.buffer}' is written by threads and by bulk copies, and no fence orders them")
            before = Moment(other, "'")
            its_barrier, (its_slot, its_phase), _ = self._event_of(before)
            place = rows_of_same_place(before, its, here, write)
            wrong = [slot.minus(its_slot, 1), its_slot.minus(slot, 1), its_phase.minus(phase)]
            for loop, way in carried_ways_ahead(before, here):
                if loop in self.numbers.runs(copy) and barrier == its_barrier:
                    continue  # numbers rise from run to run
                for contrary in [w.nonnegative() for w in wrong] if barrier == its_barrier else [()]:
                    sentence = f"two bulk copies to one element of '{write.buffer}' may end in either order"
                    refuse_possible(self.program, sentence, here, here.rows + before.rows + way + place + contrary)

    def check_reads(self, copy: Placed, read: Placed, waits: Sequence[Placed]) -> None:
        """Whoever reads what the copy brings has waited for it at one of `waits`."""
        (write,) = [u for u in copy.leaf.uses if u.writes]
        uses = {u.index: u for u in read.leaf.uses if u.buffer == write.buffer and not u.writes}
        if not uses or read.places[0] != copy.places[0]:
            return
        here, there = Moment(read), Moment(copy, "'")
        _, _, event = self._event_of(there)
        life = rows_of_one_life(self.program, write.buffer, there, here)
        anybody, axes = self._anybody(read)
        for use in uses.values():
            place = rows_of_same_place(there, write, here, use)
            for way in ways_ahead(there, here):
                wanted = here.rows + there.rows + place + life + way + anybody
                mine = self._at_barrier(waits, self._arrival_of(copy))
                seen = (rows for _, rows in self._seen(here, event, mine, "''"))
                sentence = f"'{write.buffer}' may be read before it has arrived"
                refuse_uncovered(self.program, sentence, here, wanted, seen, [*there.loops, *axes])

    def check_overwritten(self, copy: Placed, ring: Ring, waits: Sequence[Placed]) -> None:
        """Whoever copies to a slot of a ring has waited until all have read what it had."""
        here, name = Moment(copy), copy.leaf.stmt.target.buffer
        releases = [p for p in self.releases if p.places[0] == copy.places[0]]
        mine = self._at_barrier(waits, releases[0]) if releases else []
        for event, rows, names in self.numbers.before(here, Event(self.numbers.point(here, var(ring.loop)))):
            seen = (known for _, known in self._seen(here, event, mine, "'"))
            sentence = f"'{name}' may be overwritten before it has been read"
            refuse_uncovered(self.program, sentence, here, here.rows + rows, seen, names)

    def check_released(self, read: Placed, ring: Ring) -> None:
        """Whoever uses a slot of a ring says so behind that."""
        here, name = Moment(read), min({*read.leaf.buffers} & ring.buffers)
        releases = [p for p in self.releases if p.places[0] == read.places[0]]
        event, (anybody, axes) = Event(self.numbers.point(here, var(ring.loop))), self._anybody(read)
        if len({p.leaf.stmt.target.buffer for p in releases}) > 1:
            raise Refused(f"'{name}' is released at several barriers")
        pieces = (
            told.rows + equal + way + rows_of_same_thread(told, here)
            for told in (Moment(release, "'") for release in releases)
            for equal in self.numbers.is_at(told, event)
            for way in ways_ahead(here, told)
        )
        sentence = f"'{name}' is used, and whoever does so does not say that it can be filled again"
        refuse_uncovered(self.program, sentence, here, here.rows + anybody, pieces, axes)

    def check_memory(self, waits: Sequence[Placed]) -> None:
        """Nothing is read before it has arrived, or overwritten before it has been read."""
        for copy in self.copies:
            for read in self.program.leaves:
                self.check_reads(copy, read, waits)
            if kind_of(copy.leaf.stmt) == "bulk copy in a ring":
                self.check_overwritten(copy, self.rings[copy.places[0]], waits)

    def _anybody(self, read: Placed) -> tuple[Rows, tuple[str, ...]]:
        """Rows for the threads that do what is outside of their loops, and the names of their axes."""
        axes = {n: e for n, e in self._threads(read.places[0]).items() if n not in read.leaf.names}
        return tuple(row for name, extent in axes.items() for row in range_of(name, extent)), (*axes,)

    def _threads(self, launch: int) -> Mapping[str, Affine]:
        """The thread loops of a launch: what is outside of one of them is done by all of its threads."""
        leaves = [p.leaf for p in self.program.leaves if p.places[0] == launch]
        each = [(n, k, e) for leaf in leaves for n, k, e in zip(leaf.names, leaf.kinds, leaf.extents, strict=True)]
        return {name: extent for name, kind, extent in each if kind in THREAD_KINDS}

    def check_needed(self, wait: Placed) -> None:
        """Without this wait something would be read too early; but where no slot is filled again all is over."""
        ring, again = self.rings.get(wait.places[0]), rows_of(Condition(self.numbers.number(wait)))
        if ring and not ring.runs and not solvable(self.program.original.context + Moment(wait).rows + again):
            return
        others = [p for p in self.waits if p is not wait]
        try:
            self.check_memory(others)
        except Refused:
            return
        raise Refused(f"a wait at '{wait.leaf.stmt.target.buffer}' is there for nothing", "all reads have others")
