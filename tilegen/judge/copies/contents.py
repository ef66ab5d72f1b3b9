"""Every value that is read through a copy is the one that the kernel reads.

A copy buffer is right if, during one iteration of the loop it lives in: each place stands for one
element, whoever uses it; each read finds something written before; and for tensors that the kernel
writes, the element is used through this buffer alone, fills come first, and what was written is stored
back. Then the buffer is a transparent stand-in, and the order check has proven the rest. What is asked of
written tensors alone is in `written`.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.nodes import Buffer
from tilegen.judge.copies.pairs import distinct, named, pair, point_words
from tilegen.judge.copies.refilled import latest
from tilegen.judge.copies.storage import (
    Element,
    Storage,
    Touch,
    before_in_scope,
    elements,
    other_side,
    scope_of,
    settled,
    storages,
    unwritten,
    unwritten_since,
)
from tilegen.judge.copies.written import check_written
from tilegen.poly.equality import differing
from tilegen.poly.instances import Program
from tilegen.poly.rows import Rows
from tilegen.poly.system import Form, Row, form, same
from tilegen.poly.verdict import Refused, Words


def check_values(program: Program) -> None:
    """Refused where a copy would hand over a wrong, stale or missing value."""
    for storage in storages(program):
        for buffer in storage.copies:
            try:
                _check_within(storage, buffer)
            except Refused:
                # That another copy is read before it is written is the plainer fault.
                for other in (b for b in storage.copies if b is not buffer):
                    _check_readers_present(storage, other)
                raise


def _check_within(storage: Storage, buffer: Buffer) -> None:
    """The rules, during iterations of the loop that the buffer lives in, or of one further inside."""
    refilled = buffer.space == "register" and _steady(storage, buffer)
    nests = {t.placed.leaf.names for t in storage.of(buffer.name) if t.use.writes}
    if refilled and len(nests) > 1 and _is_latest(storage, buffer):
        return
    refusals: list[Refused] = []
    for scope in _scopes(storage, buffer):
        storage.scopes[buffer.name] = scope
        try:
            _check_buffer(storage, buffer)
            return
        except Refused as refused:
            refusals += [refused]
    storage.scopes[buffer.name] = buffer.scope
    if not refilled or len(nests) > 1 or not _is_latest(storage, buffer):
        raise refusals[0]


def _steady(storage: Storage, buffer: Buffer) -> bool:
    """True if nothing writes the tensor from the nest on in which the copy is: an input, or made by then."""
    if not storage.written:
        return True
    made = [t.placed.places[0] for t in storage.of(storage.tensor) if t.use.writes]
    first = min(t.placed.places[0] for t in storage.of(buffer.name))
    return bool(made) and all(nest < first for nest in made)


def _is_latest(storage: Storage, buffer: Buffer) -> bool:
    """True if all reads find the element that they want, as a fill has left it."""
    if not latest(storage, buffer):
        return False
    if storage.written:
        _check_loaded(storage, [t for t in storage.of(buffer.name) if t.use.writes])
    return True


def _check_readers_present(storage: Storage, buffer: Buffer) -> None:
    touches = storage.of(buffer.name)
    for reader in distinct(t for t in touches if not t.use.writes):
        _check_present(storage, reader, [t for t in touches if t.use.writes])


def _scopes(storage: Storage, buffer: Buffer) -> list[str | None]:
    """The loop that the buffer lives in, then those inside it which hold all accesses."""
    touches = storage.of(buffer.name)
    names = touches[0].placed.leaf.names
    depth = min(touches[0].placed.shares(t.placed) for t in touches)
    home = names.index(buffer.scope) if buffer.scope is not None else -1
    return [buffer.scope, *names[home + 1 : depth]]


def _check_buffer(storage: Storage, buffer: Buffer) -> None:
    touches = storage.of(buffer.name)
    writers = [t for t in touches if t.use.writes]
    for reader in distinct(t for t in touches if not t.use.writes):
        if reader.use.fallback is not None:
            raise Refused(f"a read of the copy '{buffer.name}' has a fallback, which belongs to the copying")
        _check_agreement(storage, reader, writers)
        _check_present(storage, reader, writers)
    if not storage.written:
        return
    _check_loaded(storage, writers)
    check_written(storage, buffer, touches)


def _check_agreement(storage: Storage, reader: Touch, writers: list[Touch]) -> None:
    """Whatever stands where `reader` reads is the element that it wants."""
    buffer = reader.use.buffer
    for writer in writers:
        shared = scope_of(storage, buffer, writer.placed, reader.placed)
        if shared is None or _astray(storage, writer, reader, shared, ()) is None:
            continue
        # What is written after the read does no harm, and what is overwritten before it does none.
        since = settled(storage, reader)
        if since.gone(writer.placed, reader.placed):
            continue
        plainer: Refused | None = None
        for shared, order in before_in_scope(storage, buffer, writer.placed, reader.placed, since.depth):
            found = _astray(storage, writer, reader, shared, order)
            if found is None:
                continue
            question, held, wanted = found
            left = unwritten_since(storage, question, writer, reader, shared)
            words = point_words(storage, left or question, writer, reader, shared)
            refused = Refused(
                f"'{buffer}' holds another element than the one that is read from it",
                f"{words.instance(reader.placed.leaf, True)} reads {words.element(reader.use, True)} for "
                f"{named(words, storage.tensor, wanted)}, and it holds "
                f"{named(words, storage.tensor, held)}{words.sizes}",
            )
            if left is not None:
                raise refused
            plainer = plainer or refused
        if plainer is not None:
            raise plainer


def _astray(
    storage: Storage, writer: Touch, reader: Touch, shared: frozenset[str], order: tuple[Row, ...]
) -> tuple[Rows, tuple[Form, ...], tuple[Form, ...]] | None:
    """Where `writer` puts another element than `reader` wants, and the two elements; None if it never does."""
    rows, names, place = pair(storage, writer, reader, shared)
    rows += order + same(writer.use.forms, place)
    for held in elements(storage, writer, "^"):
        for wanted in elements(storage, reader, "~"):
            target = wanted.renamed(names)
            question = _apart(storage, rows + (held.rows + target.rows), held, target)
            if question is not None:
                return question, held.index, target.index
            given, needed = held.fallback, wanted.fallback
            if given is not None and needed is not None and given != needed:
                raise Refused(
                    f"outside '{storage.tensor}', '{reader.use.buffer}' holds {given.value} where the kernel "
                    f"reads {needed.value}"
                )
    return None


def _apart(storage: Storage, rows: Rows, held: Element, wanted: Element) -> Rows | None:
    """A question with an answer: the elements differ. Outside of the tensor one is as good as another."""
    question = differing(rows, held.index, wanted.index)
    if question is None or held.fallback is None or wanted.fallback is None:
        return question
    shape = [form(extent) for extent in storage.program.kernel.tensor(storage.tensor).shape]
    for element in (held, wanted):
        inside = rows
        for place, extent in zip(element.index, shape, strict=True):
            inside += place.nonnegative() + extent.minus(place, 1).nonnegative()
        question = differing(inside, held.index, wanted.index)
        if question is not None:
            return question
    return None


def _check_present(storage: Storage, reader: Touch, writers: list[Touch]) -> None:
    """Something is written before, in the same iteration of the loop that the buffer lives in."""
    program = storage.program
    missing = unwritten(storage, reader, writers)
    if missing is None:
        return
    leaf = reader.placed.leaf
    words = Words(program.original, missing)
    scope = program.buffers[reader.use.buffer].scope
    within = f" in this iteration of '{scope}'" if scope else ""
    raise Refused(
        f"'{reader.use.buffer}' is read where nothing has been written",
        f"{words.instance(leaf)} reads {words.element(reader.use)}, which nothing has written before"
        f"{within}{words.sizes}",
    )


def _check_loaded(storage: Storage, writers: list[Touch]) -> None:
    """A copy of what the kernel computes copies nothing that has not been computed."""
    direct = [t for t in storage.of(storage.tensor) if t.use.writes]
    for fill in writers:
        if fill.is_copy and other_side(fill).buffer == storage.tensor:
            read = replace(fill, use=other_side(fill))
            missing = unwritten(storage, read, direct)
            if missing is not None:
                words = Words(storage.program.original, missing)
                raise Refused(
                    f"'{fill.use.buffer}' is filled from elements of '{storage.tensor}' that nothing has written",
                    f"{words.instance(fill.placed.leaf)} reads {words.element(read.use)}{words.sizes}",
                )
