"""Bulk stores: each reads what is complete, and has read it before it is overwritten, or gone with the block.

A store reads shared memory at any time from its start on until its thread has waited for it, and writes its tensor at
any time until the launch ends. Theorem: the launch does what it would if each store were an ordinary copy, made where
it is started, if

- alone: nothing else in the launch touches the tensor, and no element is stored twice;
- complete: between whatever writes an element of shared memory and the store that reads it stands a barrier with a
  fence, be it of the thread that writes it itself: a store reads past what orders the accesses of threads;
- overwritten: between a store and whatever writes an element that it reads, its thread waits for it, and a barrier
  stands after the wait;
- ends: its thread waits for it before it is done.

Every wait is needed: without it, some store would read too late.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilegen.ir.in_place import memory_of
from tilegen.lowering.launch.timelines import FILLED, STORES
from tilegen.poly.instances import Placed, Projection, Use
from tilegen.poly.rows import Rows
from tilegen.poly.verdict import Refused
from tilegen.proof.reading.on_timelines import does, leaves_that
from tilegen.proof.waiting.barriers import CertainBarriers
from tilegen.proof.waiting.moments import (
    Moment,
    carried_orders_before,
    orders_before,
    refuse_possible,
    refuse_uncovered,
    rows_of_neighbours,
    rows_of_same_place,
    rows_of_same_thread,
)


def check_stored(program: Projection) -> None:
    """Refused where an element is stored twice, or shared memory ends with its block while it is stored."""
    stores, waits = leaves_that(program, "start", STORES), leaves_that(program, "wait", STORES)
    for store in stores:
        _check_alone(program, store)
        _behind(program, store, waits)


def check_stores(certain: CertainBarriers) -> None:
    """Refused where one of the others does not hold of a program with what is said of stores."""
    program = certain.program
    stores, waits = leaves_that(program, "start", STORES), leaves_that(program, "wait", STORES)
    for store in stores:
        _check_complete(certain, store)
    _check_waits(certain, stores, waits)
    for wait in waits:
        try:
            _check_waits(certain, stores, [other for other in waits if other is not wait])
        except Refused:
            continue
        raise Refused("a wait for stores is there for nothing", "all that is overwritten has others")


def _check_alone(program: Projection, store: Placed) -> None:
    (write,) = [u for u in store.leaf.uses if u.writes]
    here = Moment(store)
    for other in program.leaves:
        if other.places[0] != store.places[0]:
            continue
        for use in other.leaf.uses:
            if memory_of(use.buffer) != memory_of(write.buffer):
                continue
            if not does(other.leaf.stmt, "start", STORES):
                raise Refused(
                    f"'{write.buffer}' is stored in bulk at any time, and '{other.leaf.stmt.name}' touches it"
                )
            later = Moment(other, "'")
            sentence = f"an element of '{write.buffer}' may be stored twice, and in either order"
            for way in orders_before(here, later):
                both = here.rows + later.rows + way + rows_of_same_place(here, write, later, use)
                refuse_possible(program, sentence, here, both)


def _check_complete(certain: CertainBarriers, store: Placed) -> None:
    barriers, here = certain.barriers, Moment(store)
    (read,) = [u for u in store.leaf.uses if not u.writes]
    sentence = f"an element of '{read.buffer}' is stored in bulk, and no barrier with a fence stands after its write"
    for other, write in _writes(certain.program, store):
        if does(other.leaf.stmt, "start", FILLED):
            raise Refused(
                f"'{read.buffer}' is filled by bulk copies and stored by them, and no thread waits in between"
            )
        before = Moment(other, "'")
        for loop, way in carried_orders_before(before, here):
            if any(barriers[gap].fence for gap in certain.barriers_between(other, store, loop)):
                continue
            only = rows_of_neighbours(certain, before, here, loop, lambda gap: barriers[gap].fence)
            both = here.rows + before.rows + way + only + rows_of_same_place(before, write, here, read)
            refuse_possible(certain.program, sentence, here, both)


def _writes(program: Projection, store: Placed) -> Iterator[tuple[Placed, Use]]:
    """What writes the shared memory that a store reads."""
    (read,) = [u for u in store.leaf.uses if not u.writes]
    for other in program.leaves:
        for use in other.leaf.uses:
            if other.places[0] == store.places[0] and use.writes and use.buffer == read.buffer:
                yield other, use


def _behind(program: Projection, store: Placed, waits: Sequence[Placed]) -> list[tuple[Moment, Rows]]:
    """The waits of the storing thread after its store. Refused where it may have none."""
    here = Moment(store)
    seen = [Moment(wait, "''") for wait in waits if wait.places[0] == store.places[0]]
    behind = [(s, s.rows + way + rows_of_same_thread(s, here)) for s in seen for way in orders_before(here, s)]
    sentence = "a block may end before its shared memory has been stored"
    refuse_uncovered(program, sentence, here, here.rows, (rows for _, rows in behind))
    return behind


def _check_waits(certain: CertainBarriers, stores: Sequence[Placed], waits: Sequence[Placed]) -> None:
    """What stores read is neither overwritten nor gone before it has been read, if threads wait at `waits`."""
    program = certain.program
    for store in stores:
        here = Moment(store)
        (read,) = [u for u in store.leaf.uses if not u.writes]
        behind = _behind(program, store, waits)
        sentence = f"'{read.buffer}' may be overwritten before it has been stored"
        for other, write in _writes(program, store):
            there = Moment(other, "'")
            for order in orders_before(here, there):
                wanted = here.rows + there.rows + order + rows_of_same_place(here, read, there, write)
                pieces = (
                    rows + rest
                    for s, rows in behind
                    for loop, rest in carried_orders_before(s, there)
                    if certain.barriers_between(s.placed, other, loop)
                )
                refuse_uncovered(program, sentence, here, wanted, pieces, there.loops)
