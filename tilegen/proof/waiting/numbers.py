"""The numbers of events at arrays of barriers: which is which, and which comes how far before another.

Of S barriers event n is phase n/S of barrier n%S. Numbers of iterations of a loop that runs several times (`roles`) are
no affine terms: there an event says its number in its run, ko, or ko - S, which may be of an earlier run. The law: the
next iteration of a run has the next number, and a run goes on where the one before it has ended. So two events have one
number if they have one place in one run; and S numbers before ko is ko - S or, if that is negative, an iteration of
an earlier run, no further than that from its end.

Turns have no numbers in the text. Each group takes one in each iteration of the loops around the runs of all groups: it
is the turn of this group and of this iteration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tilegen.ir.affine import Affine, var
from tilegen.ir.nodes import Access, Condition
from tilegen.poly.instances import Placed, with_divisions
from tilegen.poly.rows import Rows
from tilegen.poly.system import Form, equal_rows, form, rows_of, solvable
from tilegen.poly.verdict import Refused
from tilegen.proof.reading.on_timelines import ends_at_barrier, is_load, leaves_that, said
from tilegen.proof.waiting.barriers import CertainBarriers
from tilegen.proof.waiting.moments import Moment, refuse_possible

# A place in a run of a ring's loop: in which iterations of the loops around, and the number there. Without a ring, the
# number of an event among all.
Point = tuple[Form, ...]


@dataclass(frozen=True)
class Event:
    """The event that a number of slots before a place has; `also` says the same of another place.

    `block` is that of a cluster at whose barriers it is; of none, if it does not matter.
    """

    point: Point
    back: int = 0
    also: tuple[Event, ...] = ()
    block: tuple[Form, ...] = ()


def is_turn(placed: Placed) -> bool:
    """True for what takes a turn, or passes it on."""
    return not is_load(placed) and said(placed).line.arrivals == "threads"


class Numbers:
    """The numbers of what is said at barriers of a program."""

    def __init__(self, certain: CertainBarriers) -> None:
        self.certain, self.program, self.rings = certain, certain.program, certain.rings
        self.arrivals = [p for kind in ("bytes", "warps") for p in leaves_that(self.program, "arrive", kind)]
        self.lag, self.target = cache(self._lag), cache(self._target)

    def runs(self, placed: Placed) -> tuple[str, ...]:
        """The loops in whose iterations numbers begin anew."""
        ring = self.rings.get(placed.places[0])
        return (ring.runs[:-1] if is_turn(placed) else ring.runs) if ring else ()

    def _target(self, placed: Placed) -> Access:
        """The barrier and the phase; of a copy, what is said there before it."""
        if not ends_at_barrier(placed):
            return placed.leaf.stmt.target
        found = [p for p in self.arrivals if p.number < placed.number and p.places[0] == placed.places[0]]
        # Both stand in one list, as `reading/bulk` has made them of what is started.
        assert found[-1].leaf.stmt.guard == placed.leaf.stmt.guard
        return found[-1].leaf.stmt.target

    def slots(self, placed: Placed) -> int:
        return self.program.buffers[self.target(placed).buffer].shape[0].const

    def number(self, placed: Placed) -> Affine:
        slot, *phase = self.target(placed).index  # of a turn, the group
        return phase[0] * self.slots(placed) + slot if phase else slot

    def _lag(self, placed: Placed) -> int:
        """How many numbers an event of a ring may be before its run: none, or those of all slots."""
        ring, name, turn = self.rings.get(placed.places[0]), self.target(placed).buffer, is_turn(placed)
        if ring is None:
            return 0
        if not {*self.runs(placed)} <= {*placed.leaf.names} or (self.slots(placed) != ring.slots and not turn):
            raise Refused(f"'{name}' is used outside of the runs of '{ring.loop}', or has other slots")
        if turn:
            return 0
        here, number = Moment(placed), self.number(placed)
        early = here.rows + rows_of(Condition(-1 - number))
        back = self.slots(placed) if solvable(self.program.original.context + early) else 0
        for wrong in (number + back, ring.extent - 1 - number - back):
            sentence = f"at '{name}' something stands that is for no iteration of '{ring.loop}'"
            refuse_possible(self.program, sentence, here, here.rows + rows_of(Condition(-1 - wrong)))
        return back

    def event(self, moment: Moment) -> Event:
        """What is spoken of."""
        back = self.lag(moment.placed)
        return Event(self.point(moment, self.number(moment.placed) + back), back, block=moment.block)

    def point(self, moment: Moment, number: Affine) -> Point:
        return (*(moment.form(var(run)) for run in self.runs(moment.placed)), moment.form(number))

    def before(self, moment: Moment, event: Event) -> Iterator[tuple[Event, Rows, tuple[str, ...]]]:
        """(the event a number of slots before one, rows that say where, the names in them) for each way.

        In an earlier run it is no further from the end than those that come between.
        """
        ring, turn, loops = self.rings.get(moment.placed.places[0]), is_turn(moment.placed), self.runs(moment.placed)
        *runs, number = event.point
        slots = ring.slots if ring else self.slots(moment.placed)
        also = () if event.back or turn else (Event(event.point, slots),)
        earlier = number.minus(Form((), 0), slots)
        if not turn:
            yield Event((*runs, earlier), event.back, also, event.block), earlier.nonnegative(), ()
        if ring is None:
            return
        names = {name: f"{name}^" for name in (*loops, *(() if turn else (ring.loop,)))}

        def there(value: Affine) -> Form:
            plain = form(value)
            return plain.rename(with_divisions({**moment.names, **names}, (plain,), "^"))

        point = tuple(there(var(name)) for name in names)
        extents = {name: ring.extent if name == ring.loop else moment.leaf.loops[name] for name in names}
        room = (value for name, extent in extents.items() for value in (var(name), extent - 1 - var(name)))
        rows = tuple(row for value in room for row in there(value).nonnegative())
        for test in ring.tests:
            rows += there(test.value).zero() if test.equal else there(test.value).nonnegative()
        if turn:
            point += (number,)
        else:
            rows += point[-1].minus(earlier).minus(there(ring.extent)).nonnegative()
        for n in range(len(loops)):
            order = equal_rows(point[:n], runs[:n]) + runs[n].minus(point[n], 1).nonnegative()
            yield Event(point, event.back, also, event.block), rows + order, tuple(names.values())

    def is_at(self, moment: Moment, event: Event) -> Iterator[Rows]:
        """Rows that say that it speaks of the event; none where it does not."""
        own = self.event(moment)
        for each in (event, *event.also):
            if own.back == each.back:
                yield equal_rows(own.point, each.point) + (equal_rows(own.block, event.block) if event.block else ())
