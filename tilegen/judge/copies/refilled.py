"""Copies that are filled again and again: the last write before each read is the one that the read means.

`check_values` asks that each place of a copy stands for one element as long as the copy lives. Where registers
are filled across iterations, a place is filled anew for every turn. Then two things are enough: before each
read something has put the element there that it wants, and nothing has put another one there in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilegen.ir.nodes import Buffer
from tilegen.judge.copies.layout import held_by
from tilegen.judge.copies.storage import Element, Storage, Touch, before_in_scope, elements
from tilegen.poly.covering import covered
from tilegen.poly.execution import between
from tilegen.poly.instances import alike_in, common, told_apart
from tilegen.poly.rows import Rows, exchanged, renamed
from tilegen.poly.system import Row, same, solvable

# Copies, each with the element that it writes, in the names of its loops alone.
_Writes = list[tuple[Touch, Element]]


def latest(storage: Storage, buffer: Buffer) -> bool:
    """True if every read of `buffer`, a copy of what nothing writes any more, finds the element that it wants."""
    touches = storage.of(buffer.name)
    readers = {(t.placed, t.use.index): t for t in touches if not t.use.writes}
    held: _Writes = []
    for writer in (t for t in touches if t.use.writes):
        element = held_by(storage, writer)
        if element is None:
            return False
        held.append((writer, element))
    if any(r.is_copy or r.use.fallback for r in readers.values()):
        return False
    # Outside of the tensor all of them mean one value.
    beyond = {e.fallback for _, e in held} | {e.fallback for r in readers.values() for e in elements(storage, r)}
    if len(beyond - {None}) > 1:
        return False
    return all(_finds(storage, reader, held) for reader in readers.values())


def _finds(storage: Storage, reader: Touch, held: _Writes) -> bool:
    """True if before each read something has put the element there, and nothing puts another one there since."""
    original, leaf = storage.program.original, reader.placed.leaf
    (wanted,) = elements(storage, reader)
    rights: list[_Right] = []

    def found() -> Iterator[Rows]:
        for writer, element in _nearest(held, reader):
            for right in _rights(storage, reader, wanted, writer, element):
                rights.append(right)
                yield right.rows

    # It is enough to look at those that cover the reads, the nearest ones: others are not needed.
    if not covered(original.rows(leaf), found(), [*storage.program.kernel.sizes, *leaf.names]):
        return False
    # Of all writes to the place before the read, the last one is right, or it is behind one that is.
    return not any(_overwritten(reader, wanted, right, writer, element) for right in rights for writer, element in held)


def _nearest(held: _Writes, reader: Touch) -> _Writes:
    """Those before the reader in the text, the last one first; then those behind it."""
    here = reader.placed.number
    return sorted(held, key=lambda write: (write[0].placed.number >= here, -write[0].placed.number))


@dataclass(frozen=True)
class _Right:
    """Where a write, in the iteration of the loops in `shared` that the read is in, puts the element to the place
    before it is read; in it the writer's loops have other names, these."""

    writer: Touch
    shared: frozenset[str]
    names: Mapping[str, str]
    rows: Rows


def _rights(storage: Storage, reader: Touch, wanted: Element, writer: Touch, element: Element) -> Iterator[_Right]:
    one, two = writer.placed.leaf, reader.placed.leaf
    place = common(writer.use, reader.use)
    for shared, rows in before_in_scope(storage, reader.use.buffer, writer.placed, reader.placed):
        if told_apart(one, two, place, shared, rows):
            continue
        both, names = storage.program.original.meeting(two, one, reader.use, writer.use, shared)
        there = element.renamed(names)
        yield _Right(writer, shared, names, both + (exchanged(rows) + there.rows + same(wanted.index, there.index)))


def _overwritten(reader: Touch, wanted: Element, right: _Right, writer: Touch, element: Element) -> bool:
    """True if `writer` can put another element there between the right one and the read."""
    if writer.placed.shares(reader.placed) < len(right.shared):
        return False  # it is not in the iteration that both of them are in
    leaf = writer.placed.leaf
    met = right.shared | alike_in(leaf, reader.placed.leaf, common(writer.use, reader.use), right.shared)
    names = {n: f"{n}~" for n in leaf.primed(met)}

    def mine() -> tuple[Row, ...]:
        return renamed(leaf.domain, names) + same([f.renamed(names) for f in writer.use.forms], reader.use.forms)

    last = right.writer, right.names
    for rows in between(last, (writer, names), (reader, {}), right.shared, lambda: right.rows, mine):
        # Mostly nothing at all is written there.
        if not solvable(rows):
            continue
        there = element.renamed(names, "~")
        rows += there.rows + tuple(row for form in (*there.index, *wanted.index) for row in form.rows)
        for a, b in zip(there.index, wanted.index, strict=True):
            if any(solvable(rows + apart.nonnegative()) for apart in (a.minus(b, 1), b.minus(a, 1))):
                return True
    return False
