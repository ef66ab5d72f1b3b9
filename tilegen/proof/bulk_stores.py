"""Bulk stores: each reads what is complete, and has read it before it is overwritten, or gone with the block.

A store reads shared memory at any time from its start on until its thread has waited for it, and writes its tensor at
any time until the launch ends. Theorem: the launch does what it would if each store were an ordinary copy, made where
it is started, if

- alone: nothing else in the launch touches the tensor, and no element is stored twice;
- complete: between whatever writes an element of shared memory and the store that reads it stands a barrier with a
  fence, be it of the thread that writes it itself: a store reads past what orders the accesses of threads;
- overwritten: between a store and whatever writes an element that it reads, its thread waits for it, and a barrier
  stands behind the wait;
- ends: its thread waits for it before it is done.

Every wait is needed: without it, some store would read too late.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilegen.ir.in_place import memory_of
from tilegen.judge.cross_thread import rows_of_adjacent, ways_later
from tilegen.poly.covering import find_uncovered
from tilegen.poly.instances import Placed, Projection, Use
from tilegen.poly.rows import Rows
from tilegen.poly.system import equal_rows, example, solvable
from tilegen.poly.verdict import Refused, Words
from tilegen.proof.arrivals import Moment, carried_ways_ahead, rows_of_same_thread, ways_ahead
from tilegen.proof.barriers import CertainBarriers
from tilegen.proof.kinds import kind_of, leaves_of_kind


def check_stores(walls: CertainBarriers) -> None:
    """Refused where one of these does not hold of a program with what is said of stores."""
    program = walls.program
    stores, waits = leaves_of_kind(program, "bulk store"), leaves_of_kind(program, "read by stores")
    for store in stores:
        _check_alone(program, store)
        _check_complete(walls, store)
    _check_waits(walls, stores, waits)
    for wait in waits:
        try:
            _check_waits(walls, stores, [other for other in waits if other is not wait])
        except Refused:
            continue
        raise Refused("a wait for stores is there for nothing", "all that is overwritten has others")


def _check_alone(program: Projection, store: Placed) -> None:
    (write,) = [u for u in store.leaf.uses if u.writes]
    for other in program.leaves:
        if other.places[0] != store.places[0]:
            continue
        for use in other.leaf.uses:
            if memory_of(use.buffer) != memory_of(write.buffer):
                continue
            if kind_of(other.leaf.stmt) != "bulk store":
                raise Refused(
                    f"'{write.buffer}' is stored in bulk at any time, and '{other.leaf.stmt.name}' touches it"
                )
            for _, shared, order in ways_later(store, other):
                _refuse_meeting(
                    program, (store, write), (other, use), shared, order, "may be stored twice, and in either order"
                )


def _check_complete(walls: CertainBarriers, store: Placed) -> None:
    program, stops = walls.program, walls.stops
    (read,) = [u for u in store.leaf.uses if not u.writes]
    for other, write in _writes(program, store):
        if kind_of(other.leaf.stmt) in ("bulk copy", "bulk copy in a ring"):
            raise Refused(
                f"'{read.buffer}' is filled by bulk copies and stored by them, and no thread waits in between"
            )
        for loop, shared, order in ways_later(other, store):
            if any(stops[slot].fence for slot in walls.barriers_between(other, store, loop)):
                continue
            only = tuple(
                row
                for name, row in rows_of_adjacent(other, store, loop)
                if any(stops[slot].fence for slot in walls.barriers_in_iteration(store, name))
            )
            sentence = "is stored in bulk, and no barrier with a fence stands behind its write"
            _refuse_meeting(program, (other, write), (store, read), shared, (*order, *only), sentence)


def _refuse_meeting(
    program: Projection,
    one: tuple[Placed, Use],
    two: tuple[Placed, Use],
    shared: frozenset[str],
    order: Rows,
    sentence: str,
) -> None:
    """Refused where the two can be at one element in this way."""
    first, second = one[0].leaf, two[0].leaf
    rows, names = program.original.meeting_rows(first, second, one[1], two[1], shared, order)
    if solvable(rows):
        found = example(rows, [*program.kernel.sizes, *first.names, *(names.get(n, n) for n in second.names)])
        assert found is not None
        words = Words(program.original, found, frozenset(n for n in second.names if n not in names))
        raise Refused(
            f"an element of '{one[1].buffer}' {sentence}",
            f"{words.element(one[1])}{words.iteration(first)}{words.sizes}",
        )


def _writes(program: Projection, store: Placed) -> Iterator[tuple[Placed, Use]]:
    """What writes the shared memory that a store reads."""
    (read,) = [u for u in store.leaf.uses if not u.writes]
    for other in program.leaves:
        for use in other.leaf.uses:
            if other.places[0] == store.places[0] and use.writes and use.buffer == read.buffer:
                yield other, use


def _check_waits(walls: CertainBarriers, stores: Sequence[Placed], waits: Sequence[Placed]) -> None:
    """What stores read is neither overwritten nor gone before it has been read, if threads wait at `waits`."""
    for store in stores:
        mine = [wait for wait in waits if wait.places[0] == store.places[0]]
        _check_end(walls.program, store, mine)
        for other, write in _writes(walls.program, store):
            _check_overwritten(walls, store, mine, other, write)


def _check_end(program: Projection, store: Placed, waits: Sequence[Placed]) -> None:
    here = Moment(store)
    pieces = (
        here.rows + seen.rows + way + rows_of_same_thread(seen, here)
        for seen in (Moment(wait, "'") for wait in waits)
        for way in ways_ahead(here, seen)
    )
    sentence = "a block may end before its shared memory has been stored"
    _refuse_uncovered(program, sentence, here, here.rows, pieces, here.loops)


def _check_overwritten(
    walls: CertainBarriers, store: Placed, waits: Sequence[Placed], other: Placed, write: Use
) -> None:
    here, there = Moment(store), Moment(other, "'")
    (read,) = [u for u in store.leaf.uses if not u.writes]
    place = equal_rows([here.form(i) for i in read.index], [there.form(i) for i in write.index])
    for order in ways_ahead(here, there):
        wanted = here.rows + there.rows + place + order
        pieces = (
            wanted + seen.rows + way + rest + rows_of_same_thread(seen, here)
            for seen in (Moment(wait, "''") for wait in waits)
            for loop, rest in carried_ways_ahead(seen, there)
            if walls.barriers_between(seen.placed, other, loop)
            for way in ways_ahead(here, seen)
        )
        sentence = f"'{read.buffer}' may be overwritten before it has been stored"
        _refuse_uncovered(walls.program, sentence, here, wanted, pieces, (*here.loops, *there.loops))


def _refuse_uncovered(
    program: Projection, sentence: str, here: Moment, wanted: Rows, pieces: Iterator[Rows], loops: Sequence[str]
) -> None:
    names = list(dict.fromkeys((*program.kernel.sizes, *loops)))
    found = find_uncovered(program.original.context + wanted, pieces, names)
    if found is not None:
        words = Words(program.original, found)
        raise Refused(sentence, f"{here.leaf.stmt.name}{words.iteration(here.leaf)}{words.sizes}")
