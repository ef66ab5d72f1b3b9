"""Asynchronous products: they run on while their lanes do, in groups. A wait ends all of them, or all but the last one.

Theorem: products compute what they would if each were complete at once, if

- ahead: between whatever else uses a register that a product uses, one of them writing, and the product this register
  is held, and a begin stands after that;
- behind: between the product and whatever else uses it so stands a wait that has ended the product, and holds it; but
  products add to one register in the order in which they are started;
- read: a barrier, or the release of a slot that a product reads, stands after a wait that has ended it.

What is held is written there, and no compiler moves it past that. All lanes run each of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilegen.ir.affine import var
from tilegen.lowering.launch.timelines import EMPTIED, Timeline
from tilegen.poly.instances import Placed
from tilegen.poly.rows import Rows
from tilegen.proof.reading.on_timelines import Does, OnTimeline, does, is_event, leaves_that
from tilegen.proof.waiting.barriers import CertainBarriers
from tilegen.proof.waiting.knowledge import Knowledge
from tilegen.proof.waiting.moments import Moment, orders_before, refuse_uncovered, rows_of_same_thread
from tilegen.proof.waiting.numbers import Event
from tilegen.proof.waiting.waits import placed_at


def check_products(certain: CertainBarriers) -> None:
    """Refused where one of these does not hold."""
    found = _Products(certain)
    barriers = [placed_at(found.program, gap) for gap in certain.barriers]
    for product in (placed for placed in found.program.leaves if _line_of(placed)):
        for other in found.at_launch(found.program.leaves, product):
            for name in () if is_event(other.leaf.stmt) else found.registers_of_both(product, other):
                found.check_ahead(product, other, name)
                found.check_ended(product, other, name)
        for barrier in found.at_launch([*barriers, *found.releases], product):
            found.check_ended(product, barrier, "")


def _line_of(placed: Placed) -> Timeline | None:
    """The timeline of a product."""
    stmt = placed.leaf.stmt
    return stmt.line if isinstance(stmt, OnTimeline) and stmt.does == "start" and stmt.line.in_registers else None


class _Products(Knowledge):
    """The questions, one by one."""

    def registers_of_both(self, product: Placed, other: Placed) -> list[str]:
        """Register buffers that both use, and one writes; but for what both add to."""
        result, pairs = product.leaf.stmt.target.buffer, [(a, b) for a in product.leaf.uses for b in other.leaf.uses]
        added = result if _line_of(other) == _line_of(product) and other.leaf.stmt.target.buffer == result else ""
        met = {a.buffer for a, b in pairs if a.buffer == b.buffer != added and (a.writes or b.writes)}
        return sorted(name for name in met if self.program.buffers[name].space == "register")

    def _of(self, product: Placed, does: Does, *names: str, left: int = 0) -> list[Placed]:
        """What is said of products like this one; with names, of the registers that are called so."""
        assert (line := _line_of(product))
        found = leaves_that(self.program, does, line, left=left)
        return [p for p in found if not names or p.leaf.stmt.name in names]

    def _ask(self, sentence: str, there: Moment, here: Moment, way: Rows, *chains: Sequence[Sequence[Placed]]) -> None:
        """Refused where none of the chains of events stands between the two, in all threads that do both."""
        axes, anybody = self.anybody(here.placed)
        wanted = here.rows + there.rows + way + anybody + rows_of_same_thread(there, here)
        pieces = (rows for steps in chains for rows in self._chain(there, here, steps))
        refuse_uncovered(self.program, sentence, here, wanted, pieces, [*there.loops, *axes])

    def _chain(self, before: Moment, here: Moment, steps: Sequence[Sequence[Placed]]) -> Iterator[Rows]:
        """Rows for an event of each step, one after the other, by the thread of `here`."""
        if not steps:
            yield from orders_before(before, here)
        for event in self.at_launch(steps[0], here.placed) if steps else ():
            seen = Moment(event, f"{before.mark}'")
            rows = seen.rows + rows_of_same_thread(seen, here)
            for rest in self._chain(seen, here, steps[1:]):
                yield from (rows + way + rest for way in orders_before(before, seen))

    def check_ahead(self, product: Placed, other: Placed, name: str) -> None:
        """What is in registers is there for the product."""
        here, there = Moment(product), Moment(other, "'")
        holds, begins = self._of(product, "fence", name), self._of(product, "fence", "")
        for way in orders_before(there, here):
            sentence = f"nothing holds '{name}' before a product that uses it"
            self._ask(sentence, there, here, way, (holds, begins))

    def check_ended(self, product: Placed, other: Placed, name: str) -> None:
        """A product has ended before somebody uses the register, or says that what it reads may be overwritten."""
        here, there, ring = Moment(other), Moment(product, "'"), self.rings.get(product.places[0])
        begins, all_ = self._of(product, "fence", ""), self._of(product, "wait")
        earlier = self._of(product, "wait", left=1)
        at: list[Rows] = [()]
        if ring and does(other.leaf.stmt, "arrive", EMPTIED):
            at = [*self.numbers.is_at(here, Event(self.numbers.point(there, var(ring.loop))))]
        of_name = [[p for p in each if name in ("", p.leaf.stmt.name)] for each in (all_, earlier)]
        what = f"'{name}' is used" if name else "others are let overwrite what it reads"
        for way in (rows + way for rows in at for way in orders_before(there, here)):
            sentence = f"nothing waits for a product before {what}"
            self._ask(sentence, there, here, way, of_name[:1], ([*all_, *earlier], begins, of_name[1]))
