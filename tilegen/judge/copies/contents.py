"""Every value that is read through a copy is the one that the kernel reads.

Theorem: for each read of an element `e` at a place `p`, in program order,

- something has written `p` before, while the buffer kept its contents; in memory that holds the old values of a tensor
  which is updated in place, this is asked of elements that have got a new value before, as the others are there;
- the last write to `p` before the read was for `e`;
- since that write no statement has given `e` a new value at another place.

and each element of a tensor in memory that gets its value in a copy is written to that memory afterwards.

It is enough: a copy reads, too, so by induction over the program each place holds the value that its element had when
it was written, and that is still the element's value where it is read. That instances run in an order in which this
value is the kernel's is asked by `order`.

A write that makes the second or the third untrue is a spoiler. Asked is: writes of `e` to `p` before the read cover
all reads, and no spoiler comes between such a write and the read. Where a pair of accesses can never be at one place
for two elements, or at two places for one, no order between them matters. A copy that runs where it hands over no
element is such a write wherever it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tilegen.ir.affine import Affine, const
from tilegen.ir.in_place import old_of
from tilegen.judge.copies.points import element_words, no_element_error, other_element_error, words_at
from tilegen.judge.copies.storage import ByElement, Storage, Touch, renamed_element, storages
from tilegen.poly.covering import find_uncovered, is_covered
from tilegen.poly.execution import Way, rows_before, ways_before, ways_between
from tilegen.poly.instances import Placed, Projection, common_index, equal_loops
from tilegen.poly.rows import FALSE, Row, Rows, exchange_primes, rename
from tilegen.poly.system import Form, Point, differences, equal_rows, find_difference, form, solvable
from tilegen.poly.verdict import Refused, Words


def check_values(program: Projection, beside: Iterable[Placed] = ()) -> None:
    """Refused where a read finds a wrong, stale or missing value, or a value is not stored.

    Args:
        beside: leaves of copies, in those iterations in which they run and hand over no element.
    """
    found = storages(program, beside)
    for storage in found:
        for reader in _reads_at_risk(storage):
            _check_present(storage, reader)
    for storage in found:
        for reader in _reads_at_risk(storage):
            _check_last_write(storage, reader)
        _check_stored(storage)


def _reads_at_risk(storage: Storage) -> list[Touch]:
    """The reads that can go wrong: the memory of an input holds it from the beginning."""
    given = storage.program.kernel.tensor(storage.tensor).role == "input"
    return [t for t in storage.readers if not (given and t.use.buffer == storage.tensor)]


# -- something has been written


def _check_present(storage: Storage, reader: Touch) -> None:
    writers, names = storage.writers(reader.use.buffer), _point_names(storage, reader)
    for rows in _reads(storage, reader):
        writes = _earlier_writes(storage, reader, writers)
        missing = find_uncovered(rows, (write.rows for write in writes), names)
        if missing is not None:
            raise _missing_value_error(storage, reader, missing)


def _missing_value_error(storage: Storage, reader: Touch, missing: Point) -> Refused:
    leaf, buffer = reader.placed.leaf, storage.program.buffers[reader.use.buffer]
    words = Words(storage.program.original, missing)
    if buffer.name == storage.tensor and reader.is_copy:
        return Refused(
            f"'{leaf.stmt.target.buffer}' is filled from elements of '{storage.tensor}' that nothing has written",
            f"{words.instance(leaf)} reads {words.element(reader.use)}{words.sizes}",
        )
    within = f" in this iteration of '{buffer.scope}'" if buffer.scope else ""
    return Refused(
        f"'{buffer.name}' is read where nothing has been written",
        f"{words.instance(leaf)} reads {words.element(reader.use)}, which nothing has written before"
        f"{within}{words.sizes}",
    )


def _point_names(storage: Storage, reader: Touch) -> list[str]:
    return [*storage.program.kernel.symbols, *reader.placed.leaf.names]


def _reads(storage: Storage, reader: Touch) -> Iterator[Rows]:
    """Where the read is made of an element that something has to have written, not of its fallback."""
    program, buffer = storage.program, reader.use.buffer
    inside = _inside(program.buffers[buffer].shape, reader.use.forms) if reader.use.fallback is not None else ()
    updated = any(tensor.name == old_of(buffer) for tensor in program.kernel.tensors)
    if not updated or buffer != storage.tensor:
        yield program.original.rows(reader.placed.leaf) + inside
        return
    for change in storage.changes:
        for shared, order in ways_before(change.placed, reader.placed):
            leaves, elements = (reader.placed.leaf, change.placed.leaf), (reader.element, change.element)
            yield program.original.meeting_rows(*leaves, *elements, shared, exchange_primes(order))[0] + inside


@dataclass(frozen=True)
class _Write:
    """Where a write to the place of a read comes before it, in the same iteration of the loops in `shared`.

    The read's loops keep their names in `rows`, those of the writer are renamed by `names`.
    """

    writer: Touch
    shared: frozenset[str]
    names: Mapping[str, str]
    rows: Rows

    @property
    def element(self) -> tuple[Form, ...]:
        """What it is a write for."""
        return renamed_element(self.writer, self.names, "'")


def _earlier_writes(storage: Storage, reader: Touch, writers: list[Touch]) -> Iterator[_Write]:
    """All ways in which one of the writers comes before the read, the nearest ones first."""
    ways: list[tuple[int, bool, int, Touch, Way]] = []
    for writer in writers:
        one, two = writer.placed, reader.placed
        for way in storage.before(reader.use.buffer, one, two):
            ways.append((-len(way[0]), one.number >= two.number, -one.number, writer, way))
    for *_, writer, (shared, order) in sorted(ways, key=lambda way: way[:3]):
        leaves = reader.placed.leaf, writer.placed.leaf
        rows, names = storage.program.original.meeting_rows(
            *leaves, reader.use, writer.use, shared, exchange_primes(order)
        )
        if FALSE not in rows:
            yield _Write(writer, shared, names, rows)


# -- the last write is the right one


def _check_last_write(storage: Storage, reader: Touch) -> None:
    writers = storage.writers(reader.use.buffer)
    beside = [t for t in storage.beside if t.use.buffer == reader.use.buffer]
    strays = [w for w in (*writers, *beside) if _can_stray(storage, w, reader)]
    outdating = [c for c in storage.changes if _can_outdate(storage, c, reader)]
    if not strays and not outdating:
        return
    for rows in _reads(storage, reader):
        for right in _right_writes(storage, reader, rows, strays):
            for stray in strays:
                _check_stray(storage, reader, right, stray)
            for change in outdating:
                _check_outdated(storage, reader, right, change)


def _right_writes(storage: Storage, reader: Touch, reads: Rows, strays: list[Touch]) -> list[_Write]:
    """Writes of the element that is read to its place, the nearest ones, as many as are needed to cover the reads.

    Raises:
        Refused: where they do not.
    """
    found: list[_Write] = []

    def rows() -> Iterator[Rows]:
        for write in _earlier_writes(storage, reader, storage.writers(reader.use.buffer)):
            for right in _right_parts(storage, reader, write) if write.writer in strays else (write,):
                found.append(right)
                yield right.rows

    names = _point_names(storage, reader)
    if not is_covered(reads, rows(), names):
        raise _stale_value_error(storage, reader, strays, find_uncovered(reads, [right.rows for right in found], names))
    return found


def _can_stray(storage: Storage, writer: Touch, reader: Touch) -> bool:
    """True if the two can be at one place for different elements."""
    shared = storage.life(reader.use.buffer, writer.placed, reader.placed)
    if shared is None:
        return False
    original, leaves = storage.program.original, (reader.placed.leaf, writer.placed.leaf)
    rows, names = original.meeting_rows(*leaves, reader.use, writer.use, shared)
    return any(_different_values(storage, rows, reader, writer, renamed_element(writer, names, "'")))


def _right_parts(storage: Storage, reader: Touch, write: _Write) -> Iterator[_Write]:
    """Where it writes what is read: that element, or one outside of the tensor in place of another one."""
    held, wanted = write.element, reader.element.forms
    needed, given = reader.element.fallback, write.writer.element.fallback
    differ = needed is not None and given is not None and needed != given
    same = write.rows + equal_rows(wanted, held)
    yield replace(write, rows=same + _inside(storage.shape, wanted) if differ else same)
    if needed is not None and needed == given:
        yield from (replace(write, rows=rows) for rows in _both_outside(storage, write.rows, wanted, held))


def _different_values(
    storage: Storage, rows: Rows, reader: Touch, writer: Touch, held: tuple[Form, ...]
) -> Iterator[Rows]:
    """Questions with an answer which hold, together, all points of `rows` at which `held` is not what is read.

    Elements outside of the tensor are alike: each of them is the fallback. What is no element differs from each.
    """
    if writer in storage.beside:
        yield from (rows,) if solvable(rows) else ()
        return
    wanted, needed, given = reader.element.forms, reader.element.fallback, writer.element.fallback
    if needed is None or given is None:
        yield from differences(rows, wanted, held)
        return
    for element in (held, wanted):
        yield from differences(rows + _inside(storage.shape, element), wanted, held)
    if needed != given:
        yield from _both_outside(storage, rows, wanted, held)


def _inside(shape: tuple[Affine, ...], element: tuple[Form, ...]) -> Rows:
    """Rows for an element within the shape."""
    rows: Rows = ()
    for place, extent in zip(element, shape, strict=True):
        rows += place.nonnegative() + form(extent).minus(place, 1).nonnegative()
    return rows


def _outside(shape: tuple[Affine, ...], element: tuple[Form, ...]) -> Iterator[Rows]:
    """Rows for elements below the shape or beyond it, in one of its dimensions."""
    for place, extent in zip(element, shape, strict=True):
        yield form(const(-1)).minus(place).nonnegative()
        yield place.minus(form(extent)).nonnegative()


def _both_outside(storage: Storage, rows: Rows, one: tuple[Form, ...], two: tuple[Form, ...]) -> Iterator[Rows]:
    """Questions with an answer: that both elements are outside of the tensor, too."""
    pairs = ((first, second) for first in _outside(storage.shape, one) for second in _outside(storage.shape, two))
    yield from (question for first, second in pairs if solvable(question := rows + first + second))


def _can_outdate(storage: Storage, change: Touch, reader: Touch) -> bool:
    """True if the two can be at different places for one element."""
    shared = storage.life(reader.use.buffer, reader.placed, change.placed)
    if shared is None:
        return False  # what the read finds has been written after the change, or before all of them
    original, leaves = storage.program.original, (reader.placed.leaf, change.placed.leaf)
    rows, names = original.meeting_rows(*leaves, reader.element, change.element, shared)
    if change.use.buffer != reader.use.buffer:
        return solvable(rows)
    return find_difference(rows, reader.use.forms, tuple(f.rename(names) for f in change.use.forms)) is not None


@dataclass(frozen=True)
class _Spoiler:
    """An access that may come after a right write and before the read; its loops are renamed by `names`."""

    touch: Touch
    names: Mapping[str, str]
    element: tuple[Form, ...]
    place: tuple[Form, ...]


def _check_stray(storage: Storage, reader: Touch, right: _Write, stray: Touch) -> None:
    """Nothing writes the place for another element between the right write and the read."""
    for rows, spoiler in _between(storage, reader, right, stray, by_element=False):
        if not solvable(rows):
            continue  # mostly nothing at all is written there
        for wrong in _different_values(storage, rows, reader, stray, spoiler.element):
            question = _find_unrepaired(storage, wrong, reader, right, spoiler)
            if question is not None and stray in storage.beside:
                raise no_element_error(storage, question, reader, stray, spoiler.names)
            if question is not None:
                raise other_element_error(storage, question, reader, stray, spoiler.names, spoiler.element)


def _check_outdated(storage: Storage, reader: Touch, right: _Write, change: Touch) -> None:
    """Nothing changes the element at another place between the right write and the read."""
    for rows, spoiler in _between(storage, reader, right, change, by_element=True):
        for elsewhere in _other_places(rows, reader, change, spoiler):
            question = _find_unrepaired(storage, elsewhere, reader, right, spoiler)
            if question is not None:
                raise _outdated_error(storage, question, reader, change, spoiler)


def _other_places(rows: Rows, reader: Touch, change: Touch, spoiler: _Spoiler) -> Iterator[Rows]:
    """Questions with an answer which hold, together, all points of `rows` at which the change is at another place."""
    if not solvable(rows):
        return
    if change.use.buffer == reader.use.buffer:
        yield from differences(rows, reader.use.forms, spoiler.place)
    else:
        yield rows


def _outdated_error(storage: Storage, question: Rows, reader: Touch, change: Touch, spoiler: _Spoiler) -> Refused:
    words = words_at(storage, question, reader, change, spoiler.names)
    return Refused(
        f"an element of '{storage.tensor}' is read from '{reader.use.buffer}' after it has changed in "
        f"'{change.use.buffer}'",
        f"{words.instance(change.placed.leaf, True)} writes {words.element(change.use, True)}, and "
        f"{words.instance(reader.placed.leaf)} reads {words.element(reader.use)} for "
        f"{element_words(words, storage.tensor, reader.element.forms)}{words.sizes}",
    )


def _between(
    storage: Storage, reader: Touch, right: _Write, touch: Touch, *, by_element: bool
) -> Iterator[tuple[Rows, _Spoiler]]:
    """Where the touch has the place of the read, or its element, after the right write and before the read."""
    if touch.placed.common_depth(reader.placed) < len(right.shared):
        return  # it is not in the iteration that both of them are in
    uses = [t.element if by_element else t.use for t in (right.writer, touch, reader)]
    leaf = touch.placed.leaf
    met = right.shared | equal_loops(leaf, reader.placed.leaf, common_index(uses[1], uses[2]), right.shared)
    names = {n: f"{n}~" for n in leaf.primed_names(met)}
    place = tuple(f.rename(names) for f in touch.use.forms)
    spoiler = _Spoiler(touch, names, renamed_element(touch, names, "~"), place)

    def there() -> tuple[Row, ...]:
        both = (spoiler.element, reader.element.forms) if by_element else (place, reader.use.forms)
        return rename(leaf.domain, names) + equal_rows(*both)

    one, other, last = (ByElement(t.placed, u) for t, u in zip((right.writer, touch, reader), uses, strict=True))
    for rows in ways_between((one, right.names), (other, names), (last, {}), right.shared, lambda: right.rows, there):
        yield rows, spoiler


def _find_unrepaired(storage: Storage, question: Rows, reader: Touch, right: _Write, spoiler: _Spoiler) -> Rows | None:
    """The question at a point at which nothing writes the place between the spoiler and the read; None if there is
    none. What is written then may be a spoiler itself, and is looked at as one."""
    pieces: list[Rows] = []
    for writer in storage.writers(reader.use.buffer):
        if writer.placed.common_depth(reader.placed) < len(right.shared):
            continue
        leaf = writer.placed.leaf
        names = {n: f"{n}*" for n in leaf.primed_names(right.shared)}
        there = rename(leaf.domain, names) + equal_rows([f.rename(names) for f in writer.use.forms], reader.use.forms)
        after = rows_before(spoiler.touch.placed, spoiler.names, writer.placed, names, len(right.shared))
        ahead = list(rows_before(writer.placed, names, reader.placed, {}, len(right.shared)))
        pieces += [question + there + first + last for first in after for last in ahead]
    loops = (spoiler.names.get(n, n) for n in spoiler.touch.placed.leaf.names)
    named = dict.fromkeys((*storage.program.kernel.symbols, *reader.placed.leaf.names, *loops))
    named |= dict.fromkeys(right.names.values())  # each piece would have loops of its own in their place
    point = find_uncovered(question, pieces, list(named))
    return None if point is None else question + _point_rows(point)


def _point_rows(point: Point) -> Rows:
    return tuple((True, ((name, 1),), -value) for name, value in point.items())


def _stale_value_error(storage: Storage, reader: Touch, strays: list[Touch], point: Point | None) -> Refused:
    """The refusal of a read that finds something at `point`, and nothing of its element."""
    assert point is not None
    for write in _earlier_writes(storage, reader, strays):
        for question in _different_values(
            storage, write.rows + _point_rows(point), reader, write.writer, write.element
        ):
            return other_element_error(storage, question, reader, write.writer, write.names, write.element)
    return Refused(f"'{reader.use.buffer}' holds another element than the one that is read from it")


# -- what has memory is stored there


def _check_stored(storage: Storage) -> None:
    """Every element that gets its value in a copy is written to the tensor's memory, if it has any, after that."""
    program, tensor = storage.program, storage.tensor
    if tensor not in program.buffers and program.kernel.tensor(tensor).role != "output":
        return
    for change in (c for c in storage.changes if c.use.buffer != tensor):
        leaf = change.placed.leaf
        pieces = []
        for store in storage.writers(tensor):
            for shared, order in storage.before(tensor, change.placed, store.placed):
                leaves = leaf, store.placed.leaf
                pieces += [program.original.meeting_rows(*leaves, change.element, store.element, shared, order)[0]]
        missing = find_uncovered(program.original.rows(leaf), pieces, [*program.kernel.symbols, *leaf.names])
        if missing is not None:
            words = Words(program.original, missing)
            scope = program.buffers[change.use.buffer].scope
            raise Refused(
                f"'{change.use.buffer}' is written and not stored back to '{tensor}'",
                f"{words.instance(leaf)} writes {words.element(change.use)}, which is lost"
                + (f" at the end of this iteration of '{scope}'" if scope else "")
                + words.sizes,
            )
