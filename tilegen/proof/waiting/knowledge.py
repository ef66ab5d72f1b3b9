"""Who knows of an event: a thread has waited for it, or for another one at which somebody arrived who had."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import THREAD_KINDS
from tilegen.poly.instances import Placed
from tilegen.poly.rows import Rows, equate, rename
from tilegen.poly.system import Form, equal_rows, form, range_of, rows_of, solvable
from tilegen.proof.reading.on_timelines import ends_at_barrier, leaves_that
from tilegen.proof.waiting.moments import RANK, Moment, orders_before, refuse_uncovered, rows_of_same_thread
from tilegen.proof.waiting.numbers import Event, Numbers, is_turn


class Knowledge:
    """What is said at the barriers of a program."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers, self.certain, self.rings = numbers, numbers.certain, numbers.rings
        self.program, self.arrivals = numbers.program, numbers.arrivals
        self.releases = leaves_that(self.program, "arrive", "warps")
        self.waits = leaves_that(self.program, "wait", "bytes", "warps")
        self.passes, self.takes = (leaves_that(self.program, what, "threads") for what in ("arrive", "wait"))
        self.copies = [*filter(ends_at_barrier, self.program.leaves)]
        self.sent = [p for p in self.copies if p.leaf.along(RANK)[1:]]  # to other blocks, where they arrive, too

    def at_launch(self, events: Sequence[Placed], other: Placed) -> list[Placed]:
        return [p for p in events if p.places[0] == other.places[0]]

    def at_barrier(self, events: Sequence[Placed], other: Placed) -> list[Placed]:
        """Those of the events that are at the same array of barriers."""
        name = self.numbers.target(other).buffer
        return [p for p in self.at_launch(events, other) if self.numbers.target(p).buffer == name]

    def knowing(
        self, here: Moment, event: Event, later: Event, waits: Sequence[Placed], barrier: Placed, given: Rows
    ) -> Iterator[Rows]:
        """Pieces where the thread of `here` knows that the event at the barrier has happened, if what is `given` holds.
        It, and one that is `later`, are those at other barriers that it may know this from."""
        for _, rows in self.seen(here, event, self.at_barrier(waits, barrier), "'"):
            yield rows
        for arrived, rows in self.awaited(here, (later, event), waits, barrier):
            if solvable(self.program.original.context + given + rows):
                for _, known in self.seen(arrived, event, self.at_barrier(waits, barrier), "'''"):
                    yield rows + known

    def seen(self, here: Moment, event: Event, waits: Sequence[Placed], mark: str) -> Iterator[tuple[Moment, Rows]]:
        """(a wait for the event by the thread of `here` before that, rows for it)."""
        for wait in waits:
            seen = Moment(wait, mark)
            for equal in self.numbers.is_at(seen, event):
                for way in orders_before(seen, here):
                    yield seen, seen.rows + way + equal + rows_of_same_thread(seen, here)

    def awaited(
        self, here: Moment, events: Sequence[Event], waits: Sequence[Placed], barrier: Placed
    ) -> Iterator[tuple[Moment, Rows]]:
        """(an arrival at another barrier that the thread of `here` has waited for, rows for both)."""
        name = self.numbers.target(barrier).buffer
        others = [w for w in waits if w.leaf.stmt.target.buffer != name and not is_turn(w) and not is_turn(barrier)]
        for event in events:
            for seen, rows in self.seen(here, replace(event, block=()), others, "'"):
                there = replace(event, block=seen.block)
                for arrival in self.at_barrier((*self.arrivals, *self.sent), seen.placed):
                    arrived = Moment(arrival, "''")
                    for equal in self.numbers.is_at(arrived, there):
                        yield arrived, rows + arrived.rows + equal
        for event in events:
            for taken in (Moment(take, "'") for take in self.at_launch(self.takes, barrier)):
                runs = len(self.numbers.runs(taken.placed))
                turn = self.numbers.event(taken)
                one = equal_rows(turn.point[:runs], event.point[:runs]) + rows_of_same_thread(taken, here)
                for passed in (Moment(each, "''") for each in self.at_launch(self.passes, barrier)):
                    for equal in self.numbers.is_at(passed, turn):
                        for way in orders_before(taken, here):
                            yield passed, taken.rows + way + one + passed.rows + equal

    def ask_between(
        self, sentence: str, there: Moment, here: Moment, rows: Rows, pieces: Callable[[], Iterator[Rows]]
    ) -> None:
        """Refused where `there` may stand before `here` as `rows` say, and none of the pieces between."""
        axes, anybody = self.anybody(here.placed)
        for way in orders_before(there, here):
            wanted = here.rows + there.rows + anybody + way + rows
            refuse_uncovered(self.program, sentence, here, wanted, pieces(), [*there.loops, *axes])

    # -- threads

    def consumers(self, wait: Placed) -> tuple[Mapping[str, str], Rows]:
        """Names for each consumer of each block of a cluster, and rows for that; turns are each block's own."""
        blocks = {} if is_turn(wait) else self.blocks(wait)
        who, rows = everybody_of({**self.threads(wait.places[0]), **blocks})
        return who, rows + rename(rows_of(self.rings[wait.places[0]].consumes), who)

    def of_group(self, placed: Placed, number: Form, who: Mapping[str, str]) -> Rows:
        """Rows that say that a consumer is of the group of this number, where groups take turns."""
        ring = self.rings.get(placed.places[0])
        return form(ring.group).rename(who).minus(number).zero() if ring and ring.turn and who else ()

    def is_thread(self, moment: Moment, who: Mapping[str, str]) -> Rows:
        return equate((name, who[n]) for n, name in moment.coordinates.items() if n in who)

    def anybody(self, placed: Placed) -> tuple[tuple[str, ...], Rows]:
        """The axes of the threads that do what is outside of their loops, and rows for these."""
        axes = {n: e for n, e in self.threads(placed.places[0]).items() if n not in placed.leaf.names}
        return (*axes,), _ranges_of(axes)

    def blocks(self, placed: Placed) -> Mapping[str, Affine]:
        """How many blocks a cluster has, by the name of their loop."""
        return {name: placed.leaf.loops[name] for name in placed.leaf.along(RANK)[:1]}

    def threads(self, launch: int) -> Mapping[str, Affine]:
        """The thread loops of a launch: what is outside of one of them is done by all of its threads."""
        leaves = [p.leaf for p in self.program.leaves if p.places[0] == launch]
        each = [(n, k, e) for leaf in leaves for n, k, e in zip(leaf.names, leaf.kinds, leaf.extents, strict=True)]
        return {name: extent for name, kind, extent in each if kind in THREAD_KINDS}


def everybody_of(axes: Mapping[str, Affine]) -> tuple[Mapping[str, str], Rows]:
    """Names for each thread, or block, along these axes, and rows for that."""
    who = {name: f"{name}!" for name in axes}
    return who, rename(_ranges_of(axes), who)


def _ranges_of(axes: Mapping[str, Affine]) -> Rows:
    return tuple(row for name, extent in axes.items() for row in range_of(name, extent))
