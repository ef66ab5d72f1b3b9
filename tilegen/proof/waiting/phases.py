"""Phases: a wait at a barrier in shared memory is for the event that its number says, and ends.

An event is a phase of a barrier: of an array of S, event n is phase n/S of barrier n%S. It happens when all have
arrived: one thread that says how many bytes come, and these; or each warp of the consumers, which has read them.
Nothing but the parity of a phase can be waited for: a thread goes on if the current phase has another one.

Theorem: whoever goes on has waited for its event, and none waits for ever, if for each array

- order: threads arrive for rising numbers, each once, and know that n - S has happened when they arrive for n;
- progress: all arrivals for n stand before a wait for n in the one program;
- parity: whoever waits for n knows that n - S has happened, and goes on before anybody arrives for n + S;
- ends: somebody waits for whatever arrives;
- turns: whoever takes one is of its group, with which all of the group take it at this place; all of the other group
  have passed it on, each once; groups have nothing in common but slots, so that barriers of one may do for it. In a
  cluster the groups are those of one block.

The blocks of a cluster run at once, and are in the one program like more threads: which block it is, its rank, tells
them apart as a coordinate does. Memory and barriers are each block's own. What is sent to several blocks is said of
each of these, in whose memory it is, by the block that does it: copies are arrivals of others there, and know as much.
Bytes that come before they are expected count for the same phase, which does not end without the arrival of whoever
expects them. All threads meet when the barriers have been started, and again after all else: no barrier or memory is
gone when others arrive there, or copy; whoever waits for copies has not left.

Why: the one program has an order in which all can run: the first wait in it that did not end would have all its
arrivals before it. In any other order each wait lets through no more than there, since of one barrier no later phase
can end before all have seen this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, product

from tilegen.ir.affine import affine, const
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import Condition
from tilegen.judge.threads.cross_thread import ways_later
from tilegen.poly.instances import Placed, Use
from tilegen.poly.rows import Rows
from tilegen.poly.system import equal_rows, form, rows_of
from tilegen.poly.verdict import Refused
from tilegen.proof.waiting.barriers import Meeting
from tilegen.proof.waiting.knowledge import Knowledge, everybody_of
from tilegen.proof.waiting.moments import (
    Moment,
    carried_orders_before,
    orders_before,
    refuse_possible,
    refuse_uncovered,
    rows_of_neighbours,
    rows_of_same_iteration,
    rows_of_same_place,
    rows_of_same_thread,
)
from tilegen.proof.waiting.numbers import Event, Numbers, is_turn


def check_phases(numbers: Numbers) -> None:
    """Refused where one of these does not hold of a program with what is said at barriers."""
    protocol = _Protocol(numbers)
    for turn in (*protocol.passes, *protocol.takes):
        protocol.check_turn(turn)
        protocol.check_order(turn)
    for arrival in protocol.passes:
        protocol.check_end(arrival)
    for wait in protocol.takes:
        protocol.check_progress(wait)
    if protocol.takes:
        protocol.check_apart()
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
    for copy in protocol.sent:
        protocol.check_ready(copy)
        protocol.check_end(copy)


def meetings_of_waits(numbers: Numbers) -> Iterator[Meeting]:
    """Where a barrier keeps an arrival from a thread that is still waiting: in a ring others' arrivals do."""
    protocol = _Protocol(numbers)
    return chain.from_iterable(
        protocol.meetings(wait) for wait in protocol.waits if wait.places[0] not in numbers.rings
    )


class _Protocol(Knowledge):
    """The questions, one by one."""

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
        for other in self.at_barrier((*self.arrivals, *self.passes, *self.takes), arrival):
            before = Moment(other, "'")
            rise = before.form(self.numbers.number(other)).minus(number)
            same = rows_of_same_thread(before, here) if is_turn(arrival) else equal_rows(before.doer, here.doer)
            again = same + (rise.zero() if is_turn(arrival) else rise.nonnegative())
            for loop, way in carried_orders_before(before, here):
                if loop not in self.numbers.runs(arrival):
                    sentence = f"phases of '{name}' are not counted in the order in which they are filled"
                    refuse_possible(self.program, sentence, here, here.rows + before.rows + way + again)
        self.check_ready(arrival)

    def check_ready(self, arrival: Placed) -> None:
        """The phase before has ended."""
        here, name = Moment(arrival), self.numbers.target(arrival).buffer
        sentence = f"a thread arrives at '{name}' for a phase before it has seen the end of the last one"
        event = self.numbers.event(here)
        for before_this, rows, names in self.numbers.before(here, event):
            wanted = here.rows + rows
            pieces = self.knowing(here, before_this, event, (*self.waits, *self.takes), arrival, wanted)
            refuse_uncovered(self.program, sentence, here, wanted, pieces, names)

    def check_turn(self, turn: Placed) -> None:
        """Those of a group take its turn, all at once; others pass it."""
        here, ring, (group,) = Moment(turn), self.rings[turn.places[0]], turn.leaf.stmt.target.index
        self.check_consumers(turn)
        off = group - ring.group if turn in self.takes else group + ring.group - 1
        for contrary in (off - 1, -1 - off):
            sentence = "a turn is taken by others than those whose it is, or passed by these"
            refuse_possible(self.program, sentence, here, here.rows + rows_of(Condition(contrary)))
        who, all_ = self.consumers(turn)
        same, threads = Moment(turn, "'"), self.threads(turn.places[0])
        at_once = rows_of_same_iteration(same, here, [n for n in same.names if n not in threads])
        wanted = here.rows + all_ + self.of_group(turn, here.form(ring.group), who)
        pieces = (same.rows + at_once + self.is_thread(same, who),)
        refuse_uncovered(self.program, "some of a group take a turn or pass it", here, wanted, pieces, who.values())

    def check_apart(self) -> None:
        """Groups that take turns have nothing in common but slots."""
        for one, two in product(self.program.leaves, repeat=2):
            ring = self.rings.get(one.places[0])
            if not ring or not ring.turn or one.places[0] != two.places[0]:
                continue
            here, there = Moment(one), Moment(two, "'")
            other = there.form(ring.group).minus(here.form(ring.group), 1).nonnegative()
            for a, b in product(one.leaf.uses, two.leaf.uses):
                space = self.program.buffers[a.buffer].space
                if memory_of(a.buffer) != memory_of(b.buffer) or not (a.writes or b.writes):
                    continue
                if space == "global" or (space == "shared" and a.buffer not in ring.buffers):
                    both = here.rows + there.rows + other + rows_of_same_place(here, a, there, b)
                    sentence = f"groups that take turns meet in '{a.buffer}', and wait for their own threads alone"
                    refuse_possible(self.program, sentence, here, both)

    def check_consumers(self, release: Placed) -> None:
        """Nobody says that he has read who is no consumer."""
        here, name = Moment(release), release.leaf.stmt.target.buffer
        others = rows_of(Condition(-1 - self.numbers.rings[release.places[0]].consumes.value))
        refuse_possible(self.program, f"others arrive at '{name}' than consumers", here, here.rows + others)

    def check_end(self, arrival: Placed) -> None:
        """Somebody waits for it."""
        here, name = Moment(arrival), self.numbers.target(arrival).buffer
        waits = [Moment(wait, "'") for wait in self.at_barrier((*self.waits, *self.takes), arrival)]
        pieces = (seen.rows + equal for seen in waits for equal in self.numbers.is_at(seen, self.numbers.event(here)))
        refuse_uncovered(self.program, f"nobody waits for what arrives at '{name}'", here, here.rows, pieces)

    # -- the waits

    def check_progress(self, wait: Placed) -> None:
        """Who is to arrive does so before it."""
        here, name = Moment(wait), wait.leaf.stmt.target.buffer
        event, arrivals = self.numbers.event(here), self.at_barrier((*self.arrivals, *self.passes), wait)
        sentence = f"a wait at '{name}' is for what never arrives"
        by_all = is_turn(wait) or any(each in self.releases for each in arrivals)
        events: list[tuple[Event, Rows, tuple[str, ...]]] = [(event, (), ())]
        if event.back:
            events = [*self.numbers.before(here, Event(event.point, block=event.block))]
        everybody = self.consumers(wait) if by_all else ({}, ())
        senders = everybody_of(self.blocks(wait))
        each = [(arrivals, everybody), *(((sent,), senders) for sent in self.at_barrier(self.sent, wait))]
        for (needed, rows, names), (those, (who, all_)) in product(events, each):
            pieces = (
                before.rows + way + equal + self.is_thread(before, who)
                for arrival in those
                for before in (Moment(arrival, "'"),)
                for equal in self.numbers.is_at(before, needed)
                for way in orders_before(before, here)
            )
            whose = form(const(1)).minus(needed.point[-1]) if is_turn(wait) else needed.point[-2:][0]
            wanted = here.rows + rows + all_ + self.of_group(wait, whose, who)
            refuse_uncovered(self.program, sentence, here, wanted, pieces, (*names, *who.values()))

    def check_parity(self, wait: Placed) -> None:
        """The parity says which phase it is."""
        here, name = Moment(wait), wait.leaf.stmt.target.buffer
        event = self.numbers.event(here)
        sentence = f"a wait at '{name}' may take the end of an earlier phase for the one that it is for"
        for before, rows, names in self.numbers.before(here, event):
            wanted = here.rows + rows
            pieces = self.knowing(here, before, event, self.waits, wait, wanted)
            refuse_uncovered(self.program, sentence, here, wanted, pieces, names)
        for arrival in self.at_barrier(self.arrivals, wait):
            self._check_seen_first(wait, arrival)

    def _check_seen_first(self, wait: Placed, arrival: Placed) -> None:
        """Nobody arrives for the next phase before the wait."""
        here, early, name = Moment(arrival), Moment(wait, "!"), wait.leaf.stmt.target.buffer
        sentence = f"the next phase of '{name}' may end before a thread has seen the end of this one"
        for event, rows, names in self.numbers.before(here, self.numbers.event(here)):
            for equal in self.numbers.is_at(early, event):
                both = here.rows + early.rows + rows + equal
                for way in orders_before(here, early):
                    refuse_possible(self.program, sentence, here, both + way)
                for loop, way in carried_orders_before(early, here):
                    # Barriers in a ring are those of its consumers alone.
                    in_ring = wait.places[0] in self.rings
                    if not in_ring and self.certain.barriers_between(wait, arrival, loop):
                        continue
                    wanted = both + way
                    wanted += () if in_ring else rows_of_neighbours(self.certain, early, here, loop)
                    alone = (rows_of_same_thread(early, here),)
                    pieces = (
                        seen + behind + rows_of_same_thread(arrived, early)
                        for arrived, seen in self.awaited(here, (self.numbers.event(here), event), self.waits, wait)
                        for behind in orders_before(early, arrived)
                    )
                    refuse_uncovered(self.program, sentence, here, wanted, chain(alone, pieces), (*names, *early.loops))

    def meetings(self, wait: Placed) -> Iterator[Meeting]:
        """A wait, and a later arrival for another phase of its barrier: as if it read what the copies overwrite."""
        for arrival in self.at_barrier(self.arrivals, wait):
            copy = next((p for p in self.copies if p.number > arrival.number), arrival)
            for way in ways_later(wait, arrival):
                between = self.certain.barriers_between(wait, arrival, way[0])
                one, other = (
                    Use(copy.leaf.stmt.target.buffer, p.leaf.stmt.target.index[:1], p is arrival)
                    for p in (wait, arrival)
                )
                yield wait, arrival, one, other, way, between
