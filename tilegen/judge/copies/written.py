"""Copies of what the kernel computes: the buffer is a transparent stand-in for the elements that it holds.

Each element has one place and is used through this buffer alone, fills come before changes, and what was
written is stored back, or needed in no other iteration.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.ir.nodes import Buffer
from tilegen.judge.copies.pairs import distinct, named, pair, point_words
from tilegen.judge.copies.storage import Storage, Touch, before_in_scope, elements, other_side, scope_of
from tilegen.poly.covering import covered, uncovered
from tilegen.poly.equality import differing
from tilegen.poly.execution import earlier
from tilegen.poly.rows import Rows, renamed
from tilegen.poly.system import Row, Undecided, same, solvable
from tilegen.poly.verdict import Refused, Words


def check_written(storage: Storage, buffer: Buffer, touches: list[Touch]) -> None:
    """The rules for a buffer of elements that the kernel writes, in the loop that it is looked at in."""
    changes = [t for t in touches if t.use.writes and not storage.fills(t)]
    if not changes and not any(t.use.writes for t in storage.touches if t.use.buffer != buffer.name):
        return
    _check_one_place(storage, touches, changes)
    _check_exclusive(storage, buffer, touches)
    _check_fills_first(storage, touches, changes)
    if storage.root(buffer.name) != storage.tensor:
        raise Refused(f"'{buffer.name}' holds elements of '{storage.tensor}', and is no copy of it")
    # What is a copy of something in memory goes back there; else there is nothing but this buffer.
    if buffer.copy_of in storage.program.buffers:
        _check_stored(storage, buffer, touches, changes)
    else:
        _check_stays(storage, buffer, touches)


def _check_one_place(storage: Storage, touches: list[Touch], changes: list[Touch]) -> None:
    """An element that is written in the buffer has one place in it."""
    seen: set[object] = set()
    for change in distinct(changes):
        for other in distinct(touches):
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
    return storage.kept(("signature", touch), lambda: _signed(storage, touch))


def _signed(storage: Storage, touch: Touch) -> object:
    found = elements(storage, touch)
    loops = dict(zip(touch.placed.leaf.names, touch.placed.leaf.extents, strict=True))
    index = tuple(f for e in found for f in e.index)
    used = {n for f in (*index, *touch.use.forms) for n, _ in f.terms}
    ranges = tuple((n, loops[n]) for n in loops if n in used)
    return touch.use.index, tuple((f.terms, f.const) for f in index), ranges


def _check_place(storage: Storage, one: Touch, two: Touch, shared: frozenset[str]) -> None:
    alike = _signature(storage, one) == _signature(storage, two)
    rows, names, place = pair(storage, one, two, shared)
    for first in elements(storage, one, "^"):
        for second in elements(storage, two, "~"):
            target = second.renamed(names)
            both = rows + (first.rows + target.rows + same(first.index, target.index))
            if alike:
                both = _unguarded(storage, one, two, names) + same(first.index, target.index)
                if differing(both, one.use.forms, place) is None:
                    continue
                both = rows + (first.rows + target.rows + same(first.index, target.index))
            question = differing(both, one.use.forms, place)
            if question is not None:
                words = point_words(storage, question, one, two, shared)
                raise Refused(
                    f"an element of '{storage.tensor}' has two places in '{one.use.buffer}', one of them written",
                    f"{named(words, storage.tensor, first.index)} is {words.element(one.use)} for "
                    f"{words.instance(one.placed.leaf)} and {words.element(two.use, True)} for "
                    f"{words.instance(two.placed.leaf, True)}{words.sizes}",
                )


def _unguarded(storage: Storage, one: Touch, two: Touch, names: Mapping[str, str]) -> Rows:
    """The loops' ranges alone: what holds for these holds for every access of the same signature."""
    first, second = one.placed.leaf.ranges, two.placed.leaf.ranges
    return (*storage.program.original.context, *first, *renamed(second, names))


def _check_exclusive(storage: Storage, buffer: Buffer, touches: list[Touch]) -> None:
    """While the buffer holds an element that changes, nobody uses the element elsewhere."""
    for mine in distinct(touches):
        for other in distinct(t for t in storage.touches if t.use.buffer != buffer.name):
            if not (mine.use.writes and not storage.fills(mine)) and not other.use.writes:
                continue
            if storage.below(other.use.buffer, buffer.name):
                continue
            if other.is_copy and other_side(other).buffer == buffer.name:
                continue
            shared = scope_of(storage, buffer.name, mine.placed, other.placed)
            if shared is None:
                continue
            rows, names, _ = pair(storage, mine, other, shared)
            for first in elements(storage, mine, "^"):
                for second in elements(storage, other, "~"):
                    target = second.renamed(names)
                    question = rows + (first.rows + target.rows + same(first.index, target.index))
                    if not solvable(question):
                        continue
                    way = _in_the_way(storage, touches, other)
                    if way is not None:
                        wrong = question + way
                        words = point_words(storage, wrong if solvable(wrong) else question, mine, other, shared)
                        raise Refused(
                            f"an element of '{storage.tensor}' is used in '{buffer.name}' and in "
                            f"'{other.use.buffer}' during one iteration of '{buffer.scope}', and one of them writes it",
                            f"{words.instance(mine.placed.leaf)} uses {words.element(mine.use)}, "
                            f"{words.instance(other.placed.leaf, True)} uses {words.element(other.use, True)}"
                            f"{words.sizes}",
                        )


def _in_the_way(storage: Storage, touches: list[Touch], other: Touch) -> tuple[Row, ...] | None:
    """Sizes at which `other` uses elements both before and after uses of them in the buffer; None if there are none.

    As rows over the sizes and over names that nothing else has.
    """
    mine = distinct(touches)
    before = next((rows for m in mine if (rows := _meeting(storage, m, other, m))), None)
    after = before and next((rows for m in mine if (rows := _meeting(storage, other, m, m))), None)
    if before is None or after is None:
        return None
    sizes = storage.program.kernel.sizes
    found: tuple[Row, ...] = ()
    for rows, mark in ((before, "<"), (after, ">")):
        names = {n for _, terms, _ in rows for n, _ in terms} - set(sizes)
        found += renamed(rows, {n: f"{n}{mark}" for n in names})
    return found


def _meeting(storage: Storage, one: Touch, two: Touch, mine: Touch) -> Rows | None:
    """Where `one` uses an element before `two` does, in one iteration of the loop that the buffer lives in."""
    for shared, order in before_in_scope(storage, mine.use.buffer, one.placed, two.placed):
        rows, names, _ = pair(storage, one, two, shared)
        for first in elements(storage, one, "^"):
            for second in elements(storage, two, "~"):
                target = second.renamed(names)
                question = rows + (order + first.rows + target.rows + same(first.index, target.index))
                if solvable(question):
                    return question
    return None


def _check_fills_first(storage: Storage, touches: list[Touch], changes: list[Touch]) -> None:
    """No fill overwrites what has been computed since, and is not where the fill comes from."""
    for fill in (t for t in touches if storage.fills(t)):
        for change in changes:
            ways = before_in_scope(storage, fill.use.buffer, change.placed, fill.placed)
            for shared, order in ways:
                rows, _, place = pair(storage, change, fill, shared)
                question = rows + (order + same(change.use.forms, place))
                if not solvable(question) or _stored_between(storage, touches, change, fill):
                    continue
                words = point_words(storage, question, change, fill, shared)
                raise Refused(
                    f"'{fill.use.buffer}' is filled again after an element of it has changed",
                    f"{words.instance(fill.placed.leaf, True)} overwrites {words.element(fill.use, True)}, which "
                    f"{words.instance(change.placed.leaf)} wrote{words.sizes}",
                )


def _stored_between(storage: Storage, touches: list[Touch], change: Touch, fill: Touch) -> bool:
    """True if each place that is changed and then filled is stored between to what it is filled from."""
    sizes, scope = storage.program.kernel.sizes, storage.scopes[fill.use.buffer]
    home = change.placed.leaf.names.index(scope) + 1 if scope in change.placed.leaf.names else 0
    stores = [t for t in touches if storage.stores(t) and other_side(t).buffer == other_side(fill).buffer]
    first, last = _Marked(change, ""), _Marked(fill, "'")
    names = [*sizes, *first.loops, *last.loops]
    for order in earlier(change.placed, first.names, fill.placed, last.names, home):
        rows = (*storage.program.original.context, *first.rows, *last.rows, *order, *same(first.place, last.place))
        pieces = []
        for stored in (_Marked(t, "~") for t in stores):
            both = rows + (*stored.rows, *same(first.place, stored.place))
            for one in earlier(change.placed, first.names, stored.touch.placed, stored.names, home):
                pieces += [
                    both + (*one, *two)
                    for two in earlier(stored.touch.placed, stored.names, fill.placed, last.names, home)
                ]
        try:
            if not covered(rows, pieces, names):
                return False
        except Undecided:
            return False
    return True


class _Marked:
    """An access at a point whose names carry a mark."""

    def __init__(self, touch: Touch, mark: str) -> None:
        leaf = touch.placed.leaf
        self.touch = touch
        self.names = {n: f"{n}{mark}" for n in leaf.primed(frozenset())}
        self.rows = renamed(leaf.domain, self.names)
        self.place = [f.renamed(self.names) for f in touch.use.forms]
        self.loops = [self.names[n] for n in leaf.names]


def _check_stored(storage: Storage, buffer: Buffer, touches: list[Touch], changes: list[Touch]) -> None:
    """Every element that was written is stored back before the buffer's contents are lost."""
    program = storage.program
    stores = [t for t in touches if storage.stores(t)]
    for change in distinct(changes):
        leaf = change.placed.leaf
        told = [*program.kernel.sizes, *leaf.names]
        wanted = program.original.rows(leaf)
        pieces = []
        for store in stores:
            for shared, order in before_in_scope(storage, buffer.name, change.placed, store.placed):
                uses = change.use, store.use
                pieces += [program.original.meeting(leaf, store.placed.leaf, *uses, shared, order)[0]]
        missing = uncovered(wanted, pieces, told)
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
    mine = distinct(touches)
    for n, one in enumerate(mine):
        for two in mine[n:]:
            if not (one.use.writes or two.use.writes):
                continue
            for shared, order in _other_iterations(storage, buffer, one, two):
                rows, names, _ = pair(storage, one, two, shared)
                for first in elements(storage, one, "^"):
                    for second in elements(storage, two, "~"):
                        target = second.renamed(names)
                        question = rows + (order + first.rows + target.rows + same(first.index, target.index))
                        if solvable(question):
                            words = point_words(storage, question, one, two, shared)
                            raise Refused(
                                f"'{buffer.name}' loses its contents after each iteration of '{buffer.scope}', and "
                                f"an element of '{storage.tensor}' is needed in two of them",
                                f"{words.instance(one.placed.leaf)} and {words.instance(two.placed.leaf, True)} use "
                                f"{named(words, storage.tensor, first.index)}{words.sizes}",
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
