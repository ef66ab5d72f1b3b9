"""Every value that is read through a copy is the one that the kernel reads.

A copy buffer is right if, during one iteration of the loop it lives in: each place stands for one
element, whoever uses it; each read finds something written before; and for tensors that the kernel
writes, the element is used through this buffer alone, fills come first, and what was written is stored
back. Then the buffer is a transparent stand-in, and the order check has proven the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tilegen.ir.nodes import Buffer
from tilegen.poly.equality import differing
from tilegen.poly.flow import Storage, Touch, before_in_scope, elements, other_side, scope_of, storages
from tilegen.poly.project import Program, renamed
from tilegen.poly.system import Form, Point, Row, example, same, solvable, uncovered
from tilegen.poly.verdict import Refused, Words


def check_values(program: Program) -> None:
    """Refused where a copy would hand over a wrong, stale or missing value."""
    memo = program.original.memo
    for storage in storages(program):
        key = _key(storage)
        if key in memo:
            continue
        for buffer in storage.copies:
            _check_within(storage, buffer)
        memo[key] = True


def _key(storage: Storage) -> object:
    """All that the answer depends on: the leaves, how they nest, and where the copies live."""
    placed = list(dict.fromkeys(t.placed for t in storage.touches))
    nesting = tuple(a.shares(b) for a, b in zip(placed, placed[1:], strict=False))
    copies = tuple((b.name, b.scope, b.copy_of) for b in storage.copies)
    return ("values", storage.tensor, storage.backed, copies, nesting, tuple(p.leaf.points for p in placed))


def _check_within(storage: Storage, buffer: Buffer) -> None:
    """The rules, during iterations of the loop that the buffer lives in, or of one further inside."""
    refusals: list[Refused] = []
    for scope in _scopes(storage, buffer):
        storage.scopes[buffer.name] = scope
        try:
            return _check_buffer(storage, buffer)
        except Refused as refused:
            refusals += [refused]
    storage.scopes[buffer.name] = buffer.scope
    raise refusals[0]


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
    for reader in _distinct(t for t in touches if not t.use.writes):
        if reader.use.fallback is not None:
            raise Refused(f"a read of the copy '{buffer.name}' has a fallback, which belongs to the copying")
        _check_agreement(storage, reader, writers)
        _check_present(storage, reader, writers)
    if not storage.written:
        return
    _check_loaded(storage, writers)
    changes = [w for w in writers if not storage.fills(w)]
    if not changes and not any(t.use.writes for t in storage.touches if t.use.buffer != buffer.name):
        return
    _check_one_place(storage, touches, changes)
    _check_exclusive(storage, buffer, touches)
    _check_fills_first(storage, touches, changes)
    if storage.backed:
        _check_stored(storage, buffer, touches, changes)
    else:
        _check_stays(storage, buffer, touches)


def _distinct(touches: Iterable[Touch]) -> list[Touch]:
    """One of each (leaf, index): a reduction reads where it writes, and a value may read a place twice."""
    found: dict[object, Touch] = {}
    for t in touches:
        found.setdefault((t.placed, t.use.buffer, t.use.index, t.use.writes, t.wanted), t)
    return list(found.values())


# -- questions about two accesses


def _pair(
    storage: Storage, one: Touch, two: Touch, shared: frozenset[str]
) -> tuple[tuple[Row, ...], dict[str, str], tuple[Form, ...]]:
    """Rows for an instance of each, the names of the second one, and its index in these names."""
    names = two.placed.leaf.primed(shared)
    rows = (*storage.program.original.context, *one.placed.leaf.domain, *renamed(two.placed.leaf.domain, names))
    return rows, names, tuple(f.renamed(names) for f in two.use.forms)


def _words(storage: Storage, question: tuple[Row, ...], one: Touch, two: Touch, shared: frozenset[str]) -> Words:
    names = two.placed.leaf.primed(shared)
    sizes = storage.program.kernel.sizes
    order = [*sizes, *one.placed.leaf.names, *(names.get(n, n) for n in two.placed.leaf.names)]
    found = example(question, order)
    assert found is not None
    return Words(storage.program.original, found, shared)


def _named(words: Words, tensor: str, index: tuple[Form, ...]) -> str:
    values = []
    for f in index:
        values += [f.const + sum(factor * words.point.get(n, 0) for n, factor in f.terms)]
    return f"{tensor}[{', '.join(map(str, values))}]"


# -- the single rules


def _check_agreement(storage: Storage, reader: Touch, writers: list[Touch]) -> None:
    """Whatever stands where `reader` reads is the element that it wants."""
    for writer in writers:
        shared = scope_of(storage, reader.use.buffer, writer.placed, reader.placed)
        if shared is None:
            continue
        rows, names, place = _pair(storage, writer, reader, shared)
        rows += same(writer.use.forms, place)
        for held in elements(storage, writer, "^"):
            for wanted in elements(storage, reader, "~"):
                target = wanted.renamed(names)
                both = rows + held.rows + target.rows
                question = differing(both, held.index, target.index)
                if question is not None:
                    words = _words(storage, question, writer, reader, shared)
                    raise Refused(
                        f"'{reader.use.buffer}' holds another element than the one that is read from it",
                        f"{words.instance(reader.placed.leaf, True)} reads {words.element(reader.use, True)} for "
                        f"{_named(words, storage.tensor, target.index)}, and it holds "
                        f"{_named(words, storage.tensor, held.index)}{words.sizes}",
                    )
                given, needed = held.fallback, wanted.fallback
                if given is not None and needed is not None and given != needed:
                    raise Refused(
                        f"outside '{storage.tensor}', '{reader.use.buffer}' holds {given.value} where the kernel "
                        f"reads {needed.value}"
                    )


def _check_present(storage: Storage, reader: Touch, writers: list[Touch]) -> None:
    """Something is written before, in the same iteration of the loop that the buffer lives in."""
    program = storage.program
    missing = _unwritten(storage, reader, writers)
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
            missing = _unwritten(storage, read, direct)
            if missing is not None:
                words = Words(storage.program.original, missing)
                raise Refused(
                    f"'{fill.use.buffer}' is filled from elements of '{storage.tensor}' that nothing has written",
                    f"{words.instance(fill.placed.leaf)} reads {words.element(read.use)}{words.sizes}",
                )


def _unwritten(storage: Storage, reader: Touch, writers: list[Touch]) -> Point | None:
    """A point at which nothing has written the place that is read, or None."""
    program = storage.program
    leaf = reader.placed.leaf
    context = program.original.context
    names = [*program.kernel.sizes, *leaf.names]
    wanted = (*context, *leaf.domain)
    pieces: list[tuple[Row, ...]] = []
    for writer in sorted(writers, key=lambda w: w.placed.number >= reader.placed.number):
        for shared, rows in before_in_scope(storage, reader.use.buffer, writer.placed, reader.placed):
            # The reader keeps plain names here: the writer's are primed, so the rows' are exchanged.
            primes = writer.placed.leaf.primed(shared)
            piece = (*context, *leaf.domain, *renamed(writer.placed.leaf.domain, primes))
            piece += same(reader.use.forms, [f.renamed(primes) for f in writer.use.forms])
            piece += _exchanged(rows)
            pieces += [piece]
            if uncovered(wanted, [piece], names) is None:
                return None
    return uncovered(wanted, pieces, names)


def _exchanged(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Rows of `before` with the prime on the first instance instead of the second."""
    return tuple((e, tuple((n[:-1] if n.endswith("'") else f"{n}'", f) for n, f in terms), c) for e, terms, c in rows)


def _check_one_place(storage: Storage, touches: list[Touch], changes: list[Touch]) -> None:
    """An element that is written in the buffer has one place in it."""
    seen: set[object] = set()
    for change in _distinct(changes):
        for other in _distinct(touches):
            shared = scope_of(storage, change.use.buffer, change.placed, other.placed)
            if shared is None:
                continue
            signature = frozenset((_signature(storage, change), _signature(storage, other)))
            if signature in seen:
                continue
            seen.add(signature)
            _check_place(storage, change, other, shared)


def _signature(storage: Storage, touch: Touch) -> object:
    """Accesses with one signature are one function of the same loops, guards apart."""
    found = elements(storage, touch)
    loops = dict(zip(touch.placed.leaf.names, touch.placed.leaf.extents, strict=True))
    index = tuple(f for e in found for f in e.index)
    used = {n for f in (*index, *touch.use.forms) for n, _ in f.terms}
    ranges = tuple((n, loops[n]) for n in loops if n in used)
    return touch.use.index, tuple((f.terms, f.const) for f in index), ranges


def _check_place(storage: Storage, one: Touch, two: Touch, shared: frozenset[str]) -> None:
    rows, names, place = _pair(storage, one, two, shared)
    alike = _signature(storage, one) == _signature(storage, two)
    for first in elements(storage, one, "^"):
        for second in elements(storage, two, "~"):
            target = second.renamed(names)
            both = rows + first.rows + target.rows + same(first.index, target.index)
            if alike:
                both = _unguarded(storage, one, two, names) + same(first.index, target.index)
                if differing(both, one.use.forms, place) is None:
                    continue
                both = rows + first.rows + target.rows + same(first.index, target.index)
            question = differing(both, one.use.forms, place)
            if question is not None:
                words = _words(storage, question, one, two, shared)
                raise Refused(
                    f"an element of '{storage.tensor}' has two places in '{one.use.buffer}', one of them written",
                    f"{_named(words, storage.tensor, first.index)} is {words.element(one.use)} for "
                    f"{words.instance(one.placed.leaf)} and {words.element(two.use, True)} for "
                    f"{words.instance(two.placed.leaf, True)}{words.sizes}",
                )


def _unguarded(storage: Storage, one: Touch, two: Touch, names: dict[str, str]) -> tuple[Row, ...]:
    """The loops' ranges alone: what holds for these holds for every access of the same signature."""
    first, second = one.placed.leaf.ranges, two.placed.leaf.ranges
    return (*storage.program.original.context, *first, *renamed(second, names))


def _check_exclusive(storage: Storage, buffer: Buffer, touches: list[Touch]) -> None:
    """While the buffer holds an element that changes, nobody uses the element elsewhere."""
    for mine in _distinct(touches):
        for other in _distinct(t for t in storage.touches if t.use.buffer != buffer.name):
            if not (mine.use.writes and not storage.fills(mine)) and not other.use.writes:
                continue
            if storage.below(other.use.buffer, buffer.name):
                continue
            if other.is_copy and other_side(other).buffer == buffer.name:
                continue
            shared = scope_of(storage, buffer.name, mine.placed, other.placed)
            if shared is None:
                continue
            rows, names, _ = _pair(storage, mine, other, shared)
            for first in elements(storage, mine, "^"):
                for second in elements(storage, other, "~"):
                    target = second.renamed(names)
                    question = rows + first.rows + target.rows + same(first.index, target.index)
                    if solvable(question) and not _out_of_the_way(storage, touches, other):
                        words = _words(storage, question, mine, other, shared)
                        raise Refused(
                            f"an element of '{storage.tensor}' is used in '{buffer.name}' and in "
                            f"'{other.use.buffer}' during one iteration of '{buffer.scope}', and one of them writes it",
                            f"{words.instance(mine.placed.leaf)} uses {words.element(mine.use)}, "
                            f"{words.instance(other.placed.leaf, True)} uses {words.element(other.use, True)}"
                            f"{words.sizes}",
                        )


def _out_of_the_way(storage: Storage, touches: list[Touch], other: Touch) -> bool:
    """True if `other` uses elements only before all uses of them in the buffer, or only after all."""
    mine = _distinct(touches)
    return not any(_meets(storage, m, other, m) for m in mine) or not any(_meets(storage, other, m, m) for m in mine)


def _meets(storage: Storage, one: Touch, two: Touch, mine: Touch) -> bool:
    """True if `one` uses an element before `two` does, in one iteration of the loop that the buffer lives in."""
    for shared, order in before_in_scope(storage, mine.use.buffer, one.placed, two.placed):
        rows, names, _ = _pair(storage, one, two, shared)
        for first in elements(storage, one, "^"):
            for second in elements(storage, two, "~"):
                target = second.renamed(names)
                if solvable(rows + order + first.rows + target.rows + same(first.index, target.index)):
                    return True
    return False


def _check_fills_first(storage: Storage, touches: list[Touch], changes: list[Touch]) -> None:
    """No fill overwrites what has been computed since."""
    for fill in (t for t in touches if storage.fills(t)):
        for change in changes:
            ways = before_in_scope(storage, fill.use.buffer, change.placed, fill.placed)
            for shared, order in ways:
                rows, _, place = _pair(storage, change, fill, shared)
                question = rows + order + same(change.use.forms, place)
                if solvable(question):
                    words = _words(storage, question, change, fill, shared)
                    raise Refused(
                        f"'{fill.use.buffer}' is filled again after an element of it has changed",
                        f"{words.instance(fill.placed.leaf, True)} overwrites {words.element(fill.use, True)}, which "
                        f"{words.instance(change.placed.leaf)} wrote{words.sizes}",
                    )


def _check_stored(storage: Storage, buffer: Buffer, touches: list[Touch], changes: list[Touch]) -> None:
    """Every element that was written is stored back before the buffer's contents are lost."""
    program = storage.program
    stores = [t for t in touches if storage.stores(t)]
    for change in _distinct(changes):
        leaf = change.placed.leaf
        names = [*program.kernel.sizes, *leaf.names]
        wanted = (*program.original.context, *leaf.domain)
        pieces = []
        for store in stores:
            for shared, order in before_in_scope(storage, buffer.name, change.placed, store.placed):
                rows, _, place = _pair(storage, change, store, shared)
                pieces += [rows + order + same(change.use.forms, place)]
        missing = uncovered(wanted, pieces, names)
        if missing is not None:
            words = Words(program.original, missing)
            raise Refused(
                f"'{buffer.name}' is written and not stored back to '{storage.tensor}'",
                f"{words.instance(leaf)} writes {words.element(change.use)}, which is lost at the end of "
                f"this iteration of '{buffer.scope}'{words.sizes}",
            )


def _check_stays(storage: Storage, buffer: Buffer, touches: list[Touch]) -> None:
    """A moved intermediate has no memory outside the loop that it lives in: no use may need any."""
    program = storage.program
    if program.kernel.tensor(storage.tensor).role != "intermediate":
        raise Refused(f"'{storage.tensor}' is an output, and is never stored")
    distinct = _distinct(touches)
    for n, one in enumerate(distinct):
        for two in distinct[n:]:
            if not (one.use.writes or two.use.writes):
                continue
            for shared, order in _other_iterations(storage, buffer, one, two):
                rows, names, _ = _pair(storage, one, two, shared)
                for first in elements(storage, one, "^"):
                    for second in elements(storage, two, "~"):
                        target = second.renamed(names)
                        question = rows + order + first.rows + target.rows + same(first.index, target.index)
                        if solvable(question):
                            words = _words(storage, question, one, two, shared)
                            raise Refused(
                                f"'{buffer.name}' loses its contents after each iteration of '{buffer.scope}', and "
                                f"an element of '{storage.tensor}' is needed in two of them",
                                f"{words.instance(one.placed.leaf)} and {words.instance(two.placed.leaf, True)} use "
                                f"{_named(words, storage.tensor, first.index)}{words.sizes}",
                                "choose a loop further out",
                            )


def _other_iterations(
    storage: Storage, buffer: Buffer, one: Touch, two: Touch
) -> list[tuple[frozenset[str], tuple[Row, ...]]]:
    """The ways to be in different iterations of the loop that the buffer lives in."""
    scope = storage.scopes[buffer.name]
    if scope is None:
        return []
    names = one.placed.leaf.names
    home = names.index(scope)
    depth = one.placed.shares(two.placed)
    ways: list[tuple[frozenset[str], tuple[Row, ...]]] = []
    for d in range(min(depth, home + 1)):
        for sign in (1, -1):
            ways += [(frozenset(names[:d]), ((False, ((f"{names[d]}'", sign), (names[d], -sign)), -1),))]
    if depth <= home:
        ways += [(frozenset(names[:depth]), ())]
    return ways
