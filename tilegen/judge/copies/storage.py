"""What a copy buffer holds: which element of the kernel's tensors each of its places stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeVar

from tilegen.ir.nodes import Buffer, Const, Load
from tilegen.poly.covering import covered, uncovered
from tilegen.poly.execution import before, earlier
from tilegen.poly.instances import Placed, Program, Use, common, told_apart
from tilegen.poly.rows import Rows, exchanged, renamed
from tilegen.poly.system import Form, Point, Row, Undecided, form, same
from tilegen.poly.verdict import Refused

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Touch:
    """One access of a placed leaf; `position` is its place among the leaf's uses.

    `wanted` tells apart accesses of one place that stand for different elements of the kernel.
    """

    placed: Placed
    use: Use
    position: int
    wanted: object

    @property
    def is_copy(self) -> bool:
        return self.placed.leaf.stmt.is_copy


@dataclass(frozen=True, eq=False)
class Element:
    """An element of a tensor, as a function of the names that `rows` and the leaf have."""

    rows: tuple[Row, ...]
    index: tuple[Form, ...]
    fallback: Const | None = None

    def renamed(self, names: Mapping[str, str], suffix: str = "'") -> Element:
        """With new names; divisions that only this index has get the suffix where they are of what `names` changes."""
        names = marked(self.index, names, suffix)
        return Element(renamed(self.rows, names), tuple(f.renamed(names) for f in self.index), self.fallback)


def marked(index: Iterable[Form], names: Mapping[str, str], suffix: str) -> Mapping[str, str]:
    """The new names, and new ones for divisions of what gets one: a quotient has the name of what it divides."""
    names = dict(names)
    for place in index:
        for _, (*divided, (quotient, _)), _ in place.rows:
            if quotient not in names and any(name in names for name, _ in divided):
                names[quotient] = f"{quotient}{suffix}"
    return names


@dataclass(frozen=True, eq=False)
class Storage:
    """Everything that stands for elements of one tensor of the kernel: itself and its copies.

    `scopes` says for each copy during which loop's iterations it is looked at: the loop that it lives
    in, or one further inside where no value outlives an iteration of that.
    """

    tensor: str
    program: Program
    copies: tuple[Buffer, ...]
    touches: tuple[Touch, ...]
    scopes: dict[str, str | None]
    memo: dict[object, Any] = field(default_factory=dict)

    def kept(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """What `make` gives, made once as long as every copy is looked at during the same loop's iterations."""
        key += tuple(self.scopes.values())
        if key not in self.memo:
            self.memo[key] = make()
        found: T = self.memo[key]
        return found

    @property
    def written(self) -> bool:
        return self.program.kernel.tensor(self.tensor).role != "input"

    @property
    def backed(self) -> bool:
        """The tensor itself is in memory; a moved intermediate is only in its copies."""
        return self.tensor in self.program.buffers

    def of(self, buffer: str) -> list[Touch]:
        return [t for t in self.touches if t.use.buffer == buffer]

    def above(self, name: str) -> list[str]:
        """What buffer `name` is a copy of, what that is a copy of, and so on."""
        known, found = self.program.buffers, [name]
        while found[-1] in known and known[found[-1]].role == "copy":
            parent = known[found[-1]].copy_of
            if parent is None or parent in found:
                break
            found.append(parent)
        return found[1:]

    def below(self, name: str, above: str) -> bool:
        """True if buffer `name` is a copy of `above`, or a copy of such a copy."""
        return above in self.above(name)

    def root(self, name: str) -> str:
        """The tensor that the buffer says it holds elements of."""
        return (self.above(name) or [name])[-1]

    def fills(self, touch: Touch) -> bool:
        """The write is by a copy from what the buffer is a copy of."""
        return touch.use.writes and touch.is_copy and self.below(touch.use.buffer, other_side(touch).buffer)

    def stores(self, touch: Touch) -> bool:
        """The read is by a copy out of the buffer, and not to a copy of it: there it counts as a change."""
        return not touch.use.writes and touch.is_copy and not self.below(other_side(touch).buffer, touch.use.buffer)


def other_side(touch: Touch) -> Use:
    """The other access of a copy."""
    read, write = touch.placed.leaf.uses
    return read if touch.use is write else write


def storages(program: Program) -> list[Storage]:
    """The tensors that have copies, each with all accesses to it. Refused where copies mix tensors."""
    found = []
    for tensor, touches in _touched(program).items():
        used = dict.fromkeys(t.use.buffer for t in touches)
        copies = tuple(program.buffers[b] for b in used if program.buffers[b].role == "copy")
        if copies:
            found += [Storage(tensor, program, copies, tuple(touches), {b.name: b.scope for b in copies})]
    return found


@lru_cache(maxsize=10)
def _touched(program: Program) -> Mapping[str, Sequence[Touch]]:
    """By tensor, all accesses to it and to its copies."""
    roots = _roots(program)
    groups: dict[str, list[Touch]] = {}
    for placed in program.leaves:
        origins = () if placed.leaf.stmt.is_copy else program.original.elements(placed.leaf)
        for position, use in enumerate(placed.leaf.uses):
            wanted = (origins[position].index, origins[position].fallback) if origins else position
            groups.setdefault(roots[use.buffer], []).append(Touch(placed, use, position, wanted))
    return groups


def _roots(program: Program) -> dict[str, str]:
    """The tensor that each buffer holds elements of."""
    roots = {t.name: t.name for t in program.kernel.tensors}
    pending = True
    while pending:
        pending = False
        for placed in program.leaves:
            for one, two in _linked(program, placed):
                if one not in roots and two in roots:
                    one, two = two, one
                if one in roots and roots.get(two) != roots[one]:
                    if two in roots:
                        raise Refused(f"'{two}' holds elements of '{roots[two]}' and of '{roots[one]}'")
                    roots[two] = roots[one]
                    pending = True
    for placed in program.leaves:
        for use in placed.leaf.uses:
            if use.buffer not in roots:
                raise Refused(f"nothing is ever copied into '{use.buffer}'")
    return roots


def _linked(program: Program, placed: Placed) -> Iterator[tuple[str, str]]:
    """Pairs of names that stand for the same tensor, by what this leaf does."""
    leaf = placed.leaf
    if leaf.stmt.is_copy:
        if not isinstance(leaf.stmt.value, Load) or leaf.stmt.reduce or leaf.stmt.best:
            raise Refused(f"'{leaf.stmt.name}' is a copy, and does more than copy")
        yield leaf.stmt.value.buffer, leaf.stmt.target.buffer
        return
    for use, origin in zip(leaf.uses, program.original.elements(leaf), strict=True):
        if program.buffers[use.buffer].role != "copy":
            if use.buffer != origin.buffer:
                raise Refused(f"'{leaf.stmt.name}' uses '{use.buffer}' where the kernel uses '{origin.buffer}'")
        else:
            yield origin.buffer, use.buffer


def elements(storage: Storage, touch: Touch, tag: str = "^") -> tuple[Element, ...]:
    """The element that the access stands for; several where a copy's source has several writers.

    For a copy between two copies it is what those say that write its source last. Any of them may say it, since
    all accesses to a place have to agree: where contents go to and fro, those that do not ask back. But some way
    in has to say it of each iteration.
    """
    return storage.kept(("elements", touch, tag), lambda: _elements(storage, touch, tag))


def _elements(storage: Storage, touch: Touch, tag: str) -> tuple[Element, ...]:
    around: set[Placed] = set()
    found = _traced(storage, touch, tag, (), around)
    buffer = touch.placed.leaf.uses[0].buffer
    if not found:
        raise Refused(f"'{buffer}' is copied before anything is in it")
    if around:
        program, leaf = storage.program, touch.placed.leaf
        rows = program.original.rows(leaf)
        names = [*program.kernel.sizes, *leaf.names]
        if not covered(rows, [rows + e.rows for e in found], names):
            raise Refused(f"'{buffer}' is copied in a circle")
    return found


def _traced(
    storage: Storage, touch: Touch, tag: str, above: tuple[Placed, ...], around: set[Placed]
) -> tuple[Element, ...]:
    """What the ways into a copy say that pass no copy twice; the others are noted in `around`."""
    program, leaf = storage.program, touch.placed.leaf
    if not leaf.stmt.is_copy:
        origin = program.original.elements(leaf)[touch.position]
        return (Element((), origin.forms, origin.fallback),)
    for use in leaf.uses:
        if use.buffer == storage.tensor:
            return (Element((), use.forms, use.fallback),)
    read = leaf.uses[0]
    since = settled(storage, replace(touch, use=read))
    above = (*above, touch.placed)
    found: tuple[Element, ...] = ()
    for writer in storage.of(read.buffer):
        if not writer.use.writes:
            continue
        if writer.placed in above:
            around.add(writer.placed)
            continue
        one, two = writer.placed, touch.placed
        if since.gone(one, two) or scope_of(storage, read.buffer, one, two) is None:
            continue
        names = {n: f"{n}{tag}" for n in one.leaf.primed(frozenset(leaf.names[: since.depth]))}
        link = renamed(writer.placed.leaf.domain, names)
        link += same([f.renamed(names) for f in writer.use.forms], read.forms)
        for e in _traced(storage, writer, tag + "^", above, around):
            inner = e.renamed(names, tag)
            found += (Element(link + inner.rows, inner.index, inner.fallback),)
    return found


def scope_of(storage: Storage, buffer: str, one: Placed, two: Placed) -> frozenset[str] | None:
    """The loops that two accesses share if they use the buffer's contents together; None if they cannot."""
    scope = storage.scopes.get(buffer)
    if scope is None:
        return frozenset()
    if scope not in one.leaf.names:
        return None
    depth = one.leaf.names.index(scope) + 1
    return frozenset(one.leaf.names[:depth]) if one.shares(two) >= depth else None


def before_in_scope(
    storage: Storage, buffer: str, one: Placed, two: Placed, depth: int = 0
) -> Iterator[tuple[frozenset[str], tuple[Row, ...]]]:
    """The ways in which `one` comes before `two` (primed) while the buffer keeps its contents.

    With `depth`, those alone in which both are in one iteration of so many loops.
    """
    scope = scope_of(storage, buffer, one, two)
    if scope is None:
        return
    ways = [way for way in before(one, two) if len(way[0]) >= max(depth, len(scope))]
    # The plain way, "earlier in the text of the same iteration", answers most questions alone.
    yield from reversed(ways)


@dataclass(frozen=True)
class Since:
    """From where on the last write before a read certainly is: the iteration of the first `depth` loops that the
    read is in, and there the child number `child` of their body."""

    depth: int
    child: int = 0

    def gone(self, writer: Placed, reader: Placed) -> bool:
        """True if whatever `writer` has written before the read is overwritten by then."""
        shared = writer.shares(reader)
        return shared < self.depth or (shared == self.depth and writer.places[shared] < self.child)


def settled(storage: Storage, reader: Touch) -> Since:
    """Since when whatever the read can find there has been written."""
    writers = [t for t in storage.of(reader.use.buffer) if t.use.writes]
    depth = settled_in(storage, reader)
    key = ("settled", reader.placed, reader.use.buffer, reader.use.index)
    return Since(depth, storage.kept(key, lambda: _child(storage, reader, writers, depth)))


def settled_in(storage: Storage, reader: Touch) -> int:
    """In how many loops whatever the read can find has been written in the iteration that the read is in."""
    scope, names = storage.scopes.get(reader.use.buffer), reader.placed.leaf.names
    writers = [t for t in storage.of(reader.use.buffer) if t.use.writes]
    home = names.index(scope) + 1 if scope in names else 0
    deepest = max((w.placed.shares(reader.placed) for w in writers), default=home)
    key = ("settled in", reader.placed, reader.use.buffer, reader.use.index)
    return storage.kept(key, lambda: _settled(storage, reader, writers, range(deepest, home, -1)))


def _settled(storage: Storage, reader: Touch, writers: list[Touch], depths: range) -> int:
    """The first of the depths in which everything that is read is written; where the range ends, if none."""
    wanted, names = _read(storage, reader)
    pieces = [(d, p) for d, p in _written(storage, reader, writers) if d > depths.stop]
    for depth in depths:
        # Where no piece is added, no more is covered than one loop further inside.
        new = depth == depths.start or any(d == depth for d, _ in pieces)
        if new and covered(wanted, [p for d, p in pieces if d >= depth], names):
            return depth
    return depths.stop


def _child(storage: Storage, reader: Touch, writers: list[Touch], depth: int) -> int:
    """The last child of the body that, with those behind it, is certain to write what the read finds."""
    inside = [w for w in writers if w.placed.shares(reader.placed) >= depth]
    children = {w.placed.places[depth] for w in inside if w.placed.places < reader.placed.places}
    wanted, names = _read(storage, reader)
    for child in sorted(children, reverse=True)[:-1]:
        late = [w for w in inside if w.placed.places[depth] >= child]
        if covered(wanted, [p for d, p in _written(storage, reader, late) if d >= depth], names):
            return child
    return 0


def unwritten(storage: Storage, reader: Touch, writers: list[Touch]) -> Point | None:
    """A point at which nothing has written the place that is read, or None."""
    wanted, names = _read(storage, reader)
    return uncovered(wanted, (piece for _, piece in _written(storage, reader, writers)), names)


def unwritten_since(storage: Storage, rows: Rows, one: Touch, two: Touch, shared: frozenset[str]) -> Rows | None:
    """`rows`, of an instance of each, at a point at which nothing writes the place of both between; None if unknown."""
    scope, names = storage.scopes.get(two.use.buffer), two.placed.leaf.primed(shared)
    home = one.placed.leaf.names.index(scope) + 1 if scope in one.placed.leaf.names else 0
    pieces: list[Rows] = []
    for other in (t for t in storage.of(two.use.buffer) if t.use.writes):
        marks = {n: f"{n}*" for n in other.placed.leaf.primed(frozenset())}
        both = rows + renamed(other.placed.leaf.domain, marks)
        both += same(one.use.forms, [f.renamed(marks) for f in other.use.forms])
        for first in earlier(one.placed, {}, other.placed, marks, home):
            for last in earlier(other.placed, marks, two.placed, names, home):
                pieces += [both + (*first, *last)]
    told = [*storage.program.kernel.sizes, *one.placed.leaf.names]
    told = list(dict.fromkeys([*told, *(names.get(n, n) for n in two.placed.leaf.names)]))
    try:
        point = uncovered(rows, pieces, told)
    except Undecided:
        return None
    return None if point is None else rows + tuple((True, ((n, 1),), -value) for n, value in point.items())


def _read(storage: Storage, reader: Touch) -> tuple[Rows, list[str]]:
    """Where the read is made of an element, not of its fallback, and the names for it."""
    leaf, program = reader.placed.leaf, storage.program
    rows = program.original.rows(leaf)
    if reader.use.fallback is not None:
        for place, extent in zip(reader.use.forms, program.buffers[reader.use.buffer].shape, strict=True):
            rows += place.nonnegative() + form(extent).minus(place, 1).nonnegative()
    return rows, [*program.kernel.sizes, *leaf.names]


def _written(storage: Storage, reader: Touch, writers: list[Touch]) -> Iterator[tuple[int, Rows]]:
    """The parts of it that each of the writers has written before, with the loops that both share."""
    # Those that come before it in the text, and write the places as it reads them, are most likely to be enough.
    told = [(w, common(w.use, reader.use)) for w in writers]
    told.sort(key=lambda one: (one[0].placed.number >= reader.placed.number, -len(one[1])))
    for writer, alike in told:
        for shared, rows in before_in_scope(storage, reader.use.buffer, writer.placed, reader.placed):
            if told_apart(writer.placed.leaf, reader.placed.leaf, alike, shared, rows):
                continue
            # The reader keeps plain names here: the writer's are primed, so the rows' are exchanged.
            leaves = reader.placed.leaf, writer.placed.leaf
            both, _ = storage.program.original.meeting(*leaves, reader.use, writer.use, shared)
            yield len(shared), both + exchanged(rows)
