"""Asynchronous work: what goes on beside the thread that has started it, until this has waited for its end.

Such a work is a copy by `cp.async`, a bulk store, or a product. It begins where it is started in the one program, and
touches its places at any time from then on until it ends. Its thread alone can wait for that, and counts in groups: a
wait that leaves n of them has ended all but the last n that the thread has made.

Theorem: the launch does what it would if all work were done at once, where it is started, if for each work and whatever
else uses one of its places, be it other work, one of the two writing,

- before: what stands before the work is over. That threads wait for each other is asked of barriers; but a store reads
  past what orders their accesses: a barrier with a fence stands between whatever writes and the store, be it one
  thread (`check_fenced` in `barriers` asks that of products). Their registers are held, and a begin stands behind that;
- after: between the work and what stands behind it, its thread waits for its end. There it holds a register; in other
  memory a barrier stands after the wait, with a fence if what is behind touches it past the order of threads;
- ends: a wait for a store stands behind it in any case, as its memory is gone with the block;
- alone: nothing else in the launch uses what a store writes, as no wait is for the end of that.

Products add to one register in the order in which they are started. A slot of a ring is filled when it has been
released (`happens_before`), so that with products the release stands for who fills it. What is held is written there,
and no compiler moves it past that. All lanes run what is said of products, and all threads come by a wait for copies.

Every wait for stores is needed: without it, some store would read too late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from tilegen.ir.affine import var
from tilegen.ir.in_place import memory_of
from tilegen.lowering.launch.timelines import COPIES, FILLED, STORES, Timeline
from tilegen.poly.instances import Placed, Projection, Use
from tilegen.poly.rows import Rows
from tilegen.poly.verdict import Refused, Unproved
from tilegen.proof.reading.on_timelines import does, is_event, is_load, leaves_that, said
from tilegen.proof.waiting.barriers import CertainBarriers
from tilegen.proof.waiting.knowledge import Knowledge
from tilegen.proof.waiting.moments import (
    Moment,
    carried_orders_before,
    orders_before,
    refuse_possible,
    refuse_uncovered,
    rows_of_neighbours,
    rows_of_one_life,
    rows_of_same_iteration,
    rows_of_same_place,
    rows_of_same_thread,
)
from tilegen.proof.waiting.numbers import Event

_OVERWRITTEN = "others are let overwrite what it reads"


def check_work(certain: CertainBarriers, *lines: Timeline) -> None:
    """Refused where one of these does not hold of the work on some timelines."""
    found = _Work(certain, lines)
    for work in found.works:
        for other in found.at_launch(found.program.leaves, work):
            found.check_before(work, other)
    found.check_waits(found.waits)
    for wait in found.waits if STORES in lines else ():
        try:
            found.check_waits([other for other in found.waits if other is not wait])
        except Refused:
            continue
        raise Refused("a wait for stores is there for nothing", "all that is overwritten has others")


def check_alone(program: Projection) -> None:
    """Refused where what a store writes is used otherwise in the launch."""
    for store in leaves_that(program, "start", STORES):
        here, (write,) = Moment(store), [u for u in store.leaf.uses if u.writes]
        uses = ((p, u) for p in program.leaves if p.places[0] == store.places[0] for u in p.leaf.uses)
        for other, use in ((p, u) for p, u in uses if memory_of(u.buffer) == memory_of(write.buffer)):
            if not does(other.leaf.stmt, "start", STORES):
                raise Refused(
                    f"'{write.buffer}' is stored in bulk at any time, and '{other.leaf.stmt.name}' touches it"
                )
            later = Moment(other, "'")
            sentence = f"an element of '{write.buffer}' may be stored twice, and in either order"
            for way in orders_before(here, later):
                both = here.rows + later.rows + way + rows_of_same_place(here, write, later, use)
                refuse_possible(program, sentence, here, both)


class _Work(Knowledge):
    """The questions, one by one."""

    def __init__(self, certain: CertainBarriers, lines: Iterable[Timeline]) -> None:
        super().__init__(certain)
        self.works, self.waits = (leaves_that(self.program, what, *lines) for what in ("start", "wait"))
        self.fences = leaves_that(self.program, "fence", *lines)

    def fences_of(self, register: str) -> list[Placed]:
        """Where it is held; without one, where products begin."""
        return [fence for fence in self.fences if fence.leaf.stmt.name == register]

    def is_register(self, use: Use) -> bool:
        return self.program.buffers[use.buffer].space == "register"

    def places(self, work: Placed, other: Placed) -> list[tuple[Use, Use]]:
        """The places that both use, and one writes; a register once, whatever its elements are."""
        one, two, buffers = said(work), other.leaf.stmt, self.program.buffers
        products = one.line.in_registers
        if is_event(two) or (products and work.places[0] in self.rings and does(two, "start", FILLED)):
            return []
        adds = products and does(two, "start", one.line) and two.target.buffer == one.target.buffer

        def meet(a: Use, b: Use) -> bool:
            if memory_of(a.buffer) != memory_of(b.buffer) or not (a.writes or b.writes):
                return False
            alone = a.writes and buffers[a.buffer].space == "global"
            return not alone and not (adds and a.buffer == one.target.buffer)

        found = [(a, b) for a in work.leaf.uses for b in other.leaf.uses if meet(a, b)]
        return [*{a.buffer if self.is_register(a) else (a, b): (a, b) for a, b in found}.values()]

    # -- before

    def check_before(self, work: Placed, other: Placed) -> None:
        """What stands before a work is over."""
        here, there = Moment(work), Moment(other, "'")
        for a, b in self.places(work, other):
            if self.is_register(a):
                sentence = f"nothing holds '{a.buffer}' before a product that uses it"
                between = partial(self._chain, there, here, (self.fences_of(a.buffer), self.fences_of("")))
                self.ask_between(sentence, there, here, rows_of_same_thread(there, here), between)
            elif said(work).line == STORES:
                self._check_complete(there, b, here, a)

    def _check_complete(self, there: Moment, write: Use, here: Moment, read: Use) -> None:
        """A barrier with a fence stands between."""
        if does(there.leaf.stmt, "start", FILLED):
            raise Refused(
                f"'{read.buffer}' is filled by bulk copies and stored by them, and no thread waits in between"
            )
        barriers, place, name = self.certain.barriers, rows_of_same_place(there, write, here, read), read.buffer
        sentence = f"an element of '{name}' is stored in bulk, and no barrier with a fence stands after its write"
        for loop, way in carried_orders_before(there, here):
            if not any(barriers[gap].fence for gap in self.certain.barriers_between(there.placed, here.placed, loop)):
                only = rows_of_neighbours(self.certain, there, here, loop, lambda gap: barriers[gap].fence)
                refuse_possible(self.program, sentence, here, here.rows + there.rows + way + only + place)

    # -- after

    def check_waits(self, waits: Sequence[Placed]) -> None:
        """Who uses what a work does comes after its end, if threads wait at `waits`."""
        for work in self.works:
            own = [w for w in self.at_launch(waits, work) if said(w).line == said(work).line]
            own.sort(key=lambda wait: said(wait).left)  # it takes little to ask of those for all
            if said(work).line == STORES:
                self.check_end(work, own)
            for other in self.at_launch(self.program.leaves, work):
                self.check_after(work, other, own)
            for release in self.at_launch(self.releases, work) if said(work).line.in_registers else ():
                self.check_released(work, release, own)

    def check_end(self, store: Placed, waits: Sequence[Placed]) -> None:
        """A store is waited for in any case."""
        here, sentence = Moment(store), "a block may end before its shared memory has been stored"
        pieces = (s.rows + ended for s in (Moment(wait, "''") for wait in waits) for ended in self.ended(here, s))
        refuse_uncovered(self.program, sentence, here, here.rows, pieces)

    def check_after(self, work: Placed, other: Placed, waits: Sequence[Placed]) -> None:
        """Between a work and what uses its place behind it stands a wait that has ended it."""
        there, here = Moment(work, "'"), Moment(other)
        for a, b in self.places(work, other):
            alone = self.is_register(a)
            if alone:
                rows = rows_of_same_thread(there, here)
                between = partial(self.waited, there, here, [w for w in waits if w.leaf.stmt.name == a.buffer])
            else:
                # What is read there of an earlier life is nothing that is used.
                rows = () if b.writes else rows_of_one_life(self.program, a.buffer, there, here)
                rows += rows_of_same_place(there, a, here, b)
                between = partial(self.waited, there, here, waits)
            try:
                self.ask_between(_early(said(work).line, a, b, alone), there, here, rows, partial(between, alone=alone))
            except Refused:
                if any(said(wait).made.since != said(work).made.since for wait in waits):
                    raise Unproved("asynchronous copies are made in one loop and waited for in another") from None
                raise

    def check_released(self, work: Placed, release: Placed, waits: Sequence[Placed]) -> None:
        """Who says that a slot can be filled again has waited for what reads it."""
        there, here = Moment(work, "'"), Moment(release)
        sentence = f"nothing waits for a product before {_OVERWRITTEN}"
        number = Event(self.numbers.point(there, var(self.rings[work.places[0]].loop)))
        for at in self.numbers.is_at(here, number):
            rows = at + rows_of_same_thread(there, here)
            self.ask_between(sentence, there, here, rows, partial(self.waited, there, here, waits, alone=True))

    def waited(self, work: Moment, here: Moment, waits: Sequence[Placed], *, alone: bool = False) -> Iterator[Rows]:
        """Rows for each wait between the two that has ended the work; if not for its thread alone, with a barrier
        after it."""
        barriers, past = self.certain.barriers, _is_past_order(here) and not _is_past_order(work)
        for wait in waits:
            seen = Moment(wait, "''")
            for loop, way in carried_orders_before(seen, here):
                between = () if alone else self.certain.barriers_between(wait, here.placed, loop)
                if alone or any(barriers[gap].fence or not past for gap in between):
                    yield from (seen.rows + way + ended for ended in self.ended(work, seen))

    def ended(self, work: Moment, wait: Moment) -> Iterator[Rows]:
        """Rows that say that a wait by its thread has ended a work that stands before it."""
        one, until, alike = said(work.placed), said(wait.placed), rows_of_same_thread(wait, work)
        if one.line == COPIES:
            if one.made.since == until.made.since:
                below = wait.form(until.made.groups - until.left).minus(work.form(one.made.groups), 1).nonnegative()
                names = wait.leaf.names
                around = names[: names.index(one.made.since) + 1] if one.made.since else ()
                yield alike + below + rows_of_same_iteration(work, wait, around)
        elif not until.left:
            yield from (alike + way for way in orders_before(work, wait))
        else:  # each wait for products ends a group, and this one leaves what has been begun since
            yield from (alike + rows for rows in self._chain(work, wait, (self.waits, self.fences_of(""))))

    def _chain(self, before: Moment, here: Moment, steps: Sequence[Sequence[Placed]]) -> Iterator[Rows]:
        """Rows for an event of each step, one after the other, by the thread of `here`."""
        if not steps:
            yield from orders_before(before, here)
        for event in self.at_launch(steps[0], here.placed) if steps else ():
            seen = Moment(event, f"{before.mark}^")
            rows = seen.rows + rows_of_same_thread(seen, here)
            for rest in self._chain(seen, here, steps[1:]):
                yield from (rows + way + rest for way in orders_before(before, seen))


def _is_past_order(moment: Moment) -> bool:
    """True for what touches memory past what orders the accesses of threads."""
    return not is_load(moment.placed) and said(moment.placed).line.past_order


def _early(line: Timeline, a: Use, b: Use, register: bool) -> str:
    """What may be of a work and the use of its place behind it."""
    if line == COPIES:
        how = f"writes {'is written again' if b.writes else 'is read'}" if a.writes else "reads is written"
        return f"an asynchronous copy may not have ended where what it {how}"
    if line == STORES:
        return f"'{a.buffer}' may be overwritten before it has been stored"
    what = f"'{a.buffer}' is used" if register else _OVERWRITTEN
    return f"nothing waits for a product before {what}"
