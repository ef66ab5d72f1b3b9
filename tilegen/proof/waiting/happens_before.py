"""Happens before: whoever needs the end of work beside its thread has waited for it, and nothing is overwritten early.

Work is a copy by `cp.async`, a bulk copy, a bulk store, or a product. It begins where it is started in the one program,
and touches its places at any time from then on until it ends, which is an event of its timeline. A wait ends work
(`ended`): of groups its own thread's, all but the last n that this has made; of phases anybody's, by the number, of
which `phases` shows that it is that, and comes.

One thing happens before another if it stands before it in the one program, and one thread does both, or a barrier
stands between; or if the thread of the second has waited for the end of the first, or for an event for which that of
the first arrived after it.

Theorem: the launch does what it would if all work were done at once, where it is started, if for each work and whatever
else uses one of its places, be it other work, one of the two writing,

- before: what stands before the work is over. That threads wait for each other is asked of barriers; but bulk copies
  and stores go past what orders accesses of threads: a fence stands between, the thread's own or a barrier's
  (`check_fenced` in `barriers` asks that of products). For slots of a ring there are no barriers: whoever uses one
  arrives after that for the number of its iteration, n, and whoever copies to it for n + S has waited for that. Of two
  bulk copies to one place the first is for a lower number at the same barrier. Registers are held, and a begin stands
  behind that;
- after: between the work and what stands behind it is a wait for its end, by the thread of the latter; if that of the
  work alone can wait, a barrier stands after it, with a fence if what is behind goes past the order of threads;
- ends: a wait for a store stands behind it in any case, as its memory is gone with the block;
- alone: nothing else in the launch uses what a store writes, as no wait is for the end of that.

Products add to one register in the order in which they are started. With them the release of a slot stands for who
fills it. What is held is written there, and no compiler moves it past that. All lanes run what is said of products, and
all threads come by a wait for copies.

Every wait for bulk copies, releases and stores is needed: without it, something would be used too early. Turns are what
a schedule asks for, and where groups know enough without them they are for speed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import product

from tilegen.ir.affine import var
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import Condition
from tilegen.lowering.launch.timelines import Timeline
from tilegen.poly.instances import Placed, Projection, Use
from tilegen.poly.rows import Rows
from tilegen.poly.system import form, rows_of, solvable
from tilegen.poly.verdict import Refused, Unproved
from tilegen.proof.reading.on_timelines import does, ends_at_barrier, is_event, is_load, is_store, leaves_that, said
from tilegen.proof.waiting.barriers import Gap
from tilegen.proof.waiting.knowledge import Knowledge, everybody_of
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
from tilegen.proof.waiting.numbers import Event, Numbers

_OVERWRITTEN = "others are let overwrite what it reads"


def check_work(numbers: Numbers, *lines: Timeline) -> None:
    """Refused where one of these does not hold of the work on some timelines."""
    found = _Work(numbers, lines)
    for work in found.works:
        for other in found.at_launch(found.program.leaves, work):
            found.check_before(work, other)
    found.check_waits(found.waits)
    for read in found.program.leaves if any(line.has_phases for line in lines) else ():
        found.check_released(read)
    for wait in found.waits:
        if said(wait).line.has_phases or said(wait).line.writes_tensors:
            found.check_needed(wait)


def check_alone(program: Projection) -> None:
    """Refused where what a store writes is used otherwise in the launch."""
    for store in filter(is_store, program.leaves):
        here, (write,) = Moment(store), [u for u in store.leaf.uses if u.writes]
        uses = ((p, u) for p in program.leaves if p.places[0] == store.places[0] for u in p.leaf.uses)
        for other, use in ((p, u) for p, u in uses if memory_of(u.buffer) == memory_of(write.buffer)):
            if not is_store(other):
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

    def __init__(self, numbers: Numbers, lines: Iterable[Timeline]) -> None:
        super().__init__(numbers)
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
        if is_event(two) or (products and work.places[0] in self.rings and ends_at_barrier(other)):
            return []
        adds = products and does(two, "start", one.line) and two.target.buffer == one.target.buffer

        def meet(a: Use, b: Use) -> bool:
            if memory_of(a.buffer) != memory_of(b.buffer) or not (a.writes or b.writes):
                return False
            # Of tensors `check_alone` asks what stores write, and `check_boxes` what bulk copies read.
            elsewhere = buffers[a.buffer].space == "global" and (a.writes or one.line.has_phases)
            return not elsewhere and not (adds and a.buffer == one.target.buffer)

        found = [(a, b) for a in work.leaf.uses for b in other.leaf.uses if meet(a, b)]
        return [*{a.buffer if self.is_register(a) else (a, b): (a, b) for a, b in found}.values()]

    # -- before

    def check_before(self, work: Placed, other: Placed) -> None:
        """What stands before a work is over."""
        here, there, line = Moment(work), Moment(other, "'"), said(work).line
        for a, b in self.places(work, other):
            if self.is_register(a):
                sentence = f"nothing holds '{a.buffer}' before a product that uses it"
                between = partial(self._chain, there, here, (self.fences_of(a.buffer), self.fences_of("")))
                self.ask_between(sentence, there, here, rows_of_same_thread(there, here), between)
            elif line.has_phases and b.writes:
                self._check_order(there, b, here, a)
            elif line.writes_tensors or (line.has_phases and is_load(other) and work.places[0] not in self.rings):
                self._check_fenced(there, b, here, a)

    def _check_order(self, there: Moment, first: Use, here: Moment, write: Use) -> None:
        """Of two bulk copies to one place the first ends before the other begins."""
        if not ends_at_barrier(there.placed):
            raise Refused(f"'{write.buffer}' is written by threads and by bulk copies, and no fence orders them")
        one, two = (self.numbers.target(moment.placed) for moment in (there, here))
        (its_slot, its_phase), (slot, phase) = map(there.form, one.index), map(here.form, two.index)
        wrong = [slot.minus(its_slot, 1), its_slot.minus(slot, 1), its_phase.minus(phase)]
        rows = here.rows + there.rows + rows_of_same_place(there, first, here, write)
        sentence = f"two bulk copies to one element of '{write.buffer}' may end in either order"
        for loop, way in carried_orders_before(there, here):
            if one.buffer != two.buffer:
                refuse_possible(self.program, sentence, here, rows + way)
            elif loop not in self.numbers.runs(here.placed):  # numbers rise from run to run
                for contrary in wrong:
                    refuse_possible(self.program, sentence, here, rows + way + contrary.nonnegative())

    def _check_fenced(self, there: Moment, first: Use, here: Moment, use: Use) -> None:
        """Between what threads touch and what does past their order stands a fence, the thread's own or a barrier's."""
        if ends_at_barrier(there.placed):
            raise Refused(f"'{use.buffer}' is filled by bulk copies and stored by them, and no thread waits in between")
        what = f"'{use.buffer}' is filled again" if use.writes else f"an element of '{use.buffer}' is stored in bulk"
        sentence = f"{what}, and no barrier with a fence stands after "
        sentence += "what threads load from it" if use.writes else "its write"
        threads, place = self.threads(there.placed.places[0]), rows_of_same_place(there, first, here, use)
        who, lanes = everybody_of({n: extent for n, extent in threads.items() if n not in there.leaf.names})
        for loop, way in carried_orders_before(there, here):
            if not any(map(self._is_fenced, self.certain.barriers_between(there.placed, here.placed, loop))):
                only = rows_of_neighbours(self.certain, there, here, loop, self._is_fenced)
                both = here.rows + there.rows + lanes + way + only + place
                own = (fenced + self.is_thread(here, who) for fenced in self._own_fences(there, here))
                refuse_uncovered(self.program, sentence, here, both, own, (*there.loops, *who.values()))

    def _is_fenced(self, gap: Gap) -> bool:
        return self.certain.barriers[gap].fence

    def _own_fences(self, one: Moment, two: Moment) -> Iterator[Rows]:
        """Fences of the thread of both between the two."""
        for each in leaves_that(self.program, "fence", "block"):
            fence = Moment(each, "''")
            whose = rows_of_same_thread(one, fence) + rows_of_same_thread(fence, two)
            for before, behind in product(orders_before(one, fence), orders_before(fence, two)):
                yield fence.rows + before + behind + whose

    def check_released(self, read: Placed) -> None:
        """Whoever uses a slot of a ring says so after that."""
        ring = self.rings.get(read.places[0])
        if not ring or ends_at_barrier(read) or ring.buffers.isdisjoint(read.leaf.buffers):
            return
        here, name = Moment(read), min({*read.leaf.buffers} & ring.buffers)
        releases = self.at_launch(self.releases, read)
        (axes, anybody), (who, fillers) = self.anybody(read), everybody_of(self.blocks(read))
        event = Event(self.numbers.point(here, var(ring.loop)), block=tuple(form(var(n)) for n in who.values()))
        if len({p.leaf.stmt.target.buffer for p in releases}) > 1:
            raise Refused(f"'{name}' is released at several barriers")
        pieces = (
            arrived.rows + equal + way + rows_of_same_thread(arrived, here)
            for arrived in (Moment(release, "'") for release in releases)
            for equal in self.numbers.is_at(arrived, event)
            for way in orders_before(here, arrived)
        )
        sentence = f"'{name}' is used, and whoever does so does not say that it can be filled again"
        wanted = here.rows + anybody + fillers
        refuse_uncovered(self.program, sentence, here, wanted, pieces, (*axes, *who.values()))
        if is_load(read):
            for release in releases:
                self._check_over(read, release, ())

    # -- after

    def check_waits(self, waits: Sequence[Placed]) -> None:
        """Who uses what a work does comes after its end, if threads wait at `waits`."""
        for work in self.works:
            line, ring = said(work).line, self.rings.get(work.places[0])
            own = [w for w in self.at_launch(waits, work) if said(w).line == line]
            own = self.at_barrier(own, work) if line.has_phases else sorted(own, key=lambda wait: said(wait).left)
            if line.writes_tensors:
                self._check_end(work, own)
            for other in self.at_launch(self.program.leaves, work):
                self.check_after(work, other, own)
            if ring and line.has_phases:
                self._check_overwritten(work, waits)
            for release in self.at_launch(self.releases, work) if line.in_registers else ():
                self._check_over(work, release, own)

    def _check_end(self, store: Placed, waits: Sequence[Placed]) -> None:
        """A store is waited for in any case."""
        here, sentence = Moment(store), "a block may end before its shared memory has been stored"
        pieces = (s.rows + ended for s in (Moment(wait, "''") for wait in waits) for ended in self.ended(here, s))
        refuse_uncovered(self.program, sentence, here, here.rows, pieces)

    def check_after(self, work: Placed, other: Placed, waits: Sequence[Placed]) -> None:
        """Between a work and what uses its place behind it stands a wait that has ended it."""
        there, here, line = Moment(work, "'"), Moment(other), said(work).line
        for a, b in self.places(work, other):
            if line.has_phases and b.writes:
                continue  # it is another bulk copy
            held = self.is_register(a)
            if held:
                rows = rows_of_same_thread(there, here)
            else:
                # What is read there of an earlier life is nothing that is used.
                rows = () if b.writes else rows_of_one_life(self.program, a.buffer, there, here)
                rows += rows_of_same_place(there, a, here, b)
            own = [wait for wait in waits if not held or wait.leaf.stmt.name == a.buffer]
            between = partial(self.waited, there, here, own, alone=held or line.has_phases)
            try:
                self.ask_between(_early(line, a, b, held), there, here, rows, between)
            except Refused:
                if any(said(wait).made.since != said(work).made.since for wait in waits):
                    raise Unproved("asynchronous copies are made in one loop and waited for in another") from None
                raise

    def _check_overwritten(self, copy: Placed, waits: Sequence[Placed]) -> None:
        """Whoever copies to a slot of a ring has waited until all have read what it had."""
        here, name, releases = Moment(copy), copy.leaf.stmt.target.buffer, self.at_launch(self.releases, copy)
        passed = self.at_barrier(waits, releases[0]) if releases else []
        mine_now = Event(self.numbers.point(here, var(self.rings[copy.places[0]].loop)), block=here.doer)
        for event, rows, names in self.numbers.before(here, mine_now):
            seen = (known for _, known in self.seen(here, event, passed, "'"))
            sentence = f"'{name}' may be overwritten before it has been read"
            refuse_uncovered(self.program, sentence, here, here.rows + rows, seen, names)

    def _check_over(self, read: Placed, release: Placed, waits: Sequence[Placed]) -> None:
        """What reads a slot is over when its thread says that it can be filled again."""
        there, here = Moment(read, "'"), Moment(release)
        if is_load(read):
            sentence = "no fence stands between what a thread loads from a slot and where it says that it has read"
            between = partial(self._own_fences, there, here)
        else:
            sentence = f"nothing waits for a product before {_OVERWRITTEN}"
            between = partial(self.waited, there, here, waits, alone=True)
        number = Event(self.numbers.point(there, var(self.rings[read.places[0]].loop)))
        for at in self.numbers.is_at(here, number):
            self.ask_between(sentence, there, here, at + rows_of_same_thread(there, here), between)

    def check_needed(self, wait: Placed) -> None:
        """Without this wait something would be read or overwritten too early."""
        ring, phases = self.rings.get(wait.places[0]), said(wait).line.has_phases
        if phases and ring and not ring.runs:  # but where no slot is filled again all is over
            again = rows_of(Condition(self.numbers.number(wait)))
            if not solvable(self.program.original.context + Moment(wait).rows + again):
                return
        try:
            self.check_waits([other for other in self.waits if other is not wait])
        except Refused:
            return
        if phases:
            raise Refused(f"a wait at '{wait.leaf.stmt.target.buffer}' is there for nothing", "all reads have others")
        raise Refused("a wait for stores is there for nothing", "all that is overwritten has others")

    # -- which waits end what

    def waited(self, work: Moment, here: Moment, waits: Sequence[Placed], *, alone: bool = False) -> Iterator[Rows]:
        """Rows for each wait between the two that has ended the work; if not for its thread alone, with a barrier
        after it."""
        barriers, past = self.certain.barriers, _is_past_order(here) and not _is_past_order(work)
        for wait in waits:
            seen = Moment(wait, "''")
            own = rows_of_same_thread(seen, here) if alone else ()
            for loop, way in carried_orders_before(seen, here):
                between = () if alone else self.certain.barriers_between(wait, here.placed, loop)
                if alone or any(barriers[gap].fence or not past for gap in between):
                    yield from (seen.rows + way + own + ended for ended in self.ended(work, seen))

    def ended(self, work: Moment, wait: Moment) -> Iterator[Rows]:
        """Rows that say that a wait has ended a work: that of its number, or of its thread, that stands behind it."""
        one, until, alike = said(work.placed), said(wait.placed), rows_of_same_thread(wait, work)
        if one.line.has_phases:
            yield from self.numbers.is_at(wait, self.numbers.event(work))
        elif one.line.counts_groups:
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
    if line.counts_groups:
        how = f"writes {'is written again' if b.writes else 'is read'}" if a.writes else "reads is written"
        return f"an asynchronous copy may not have ended where what it {how}"
    if line.writes_tensors:
        return f"'{a.buffer}' may be overwritten before it has been stored"
    if line.has_phases:
        return f"'{a.buffer}' may be read before it has arrived"
    what = f"'{a.buffer}' is used" if register else _OVERWRITTEN
    return f"nothing waits for a product before {what}"
