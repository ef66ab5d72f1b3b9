"""Copies that are filled again and again: the last write before each read is the one that the read means.

`check_values` asks that each place of a copy stands for one element as long as the copy lives. Where registers
are filled across iterations, a place is filled anew for every turn. Then two things are enough: before each
read something has put the element there that it wants, and nothing has put another one there in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from tilegen.ir.nodes import Buffer, Const
from tilegen.poly.flow import Element, Storage, Touch, before_in_scope, elements, scope_of
from tilegen.poly.order import between
from tilegen.poly.project import Placed, common, exchanged, renamed, told_apart
from tilegen.poly.rows import Rows
from tilegen.poly.system import Form, Row, covered, same, solvable


def latest(storage: Storage, buffer: Buffer) -> bool:
    """True if every read of `buffer`, a copy of what nothing writes any more, finds the element that it wants."""
    touches = storage.of(buffer.name)
    readers = {(t.placed, t.use.index): t for t in touches if not t.use.writes}
    held: _Writes = []
    for writer in (t for t in touches if t.use.writes):
        element = _held(storage, writer)
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


# A copy, and the element that it writes, in the names of its loops alone.
_Writes = list[tuple[Touch, Element]]


def _finds(storage: Storage, reader: Touch, held: _Writes) -> bool:
    """True if before each read something has put the element there, and nothing puts another one there since."""
    original, leaf = storage.program.original, reader.placed.leaf
    (wanted,) = elements(storage, reader)
    rights = [right for writer, element in held for right in _rights(storage, reader, wanted, writer, element)]
    if not covered(original.rows(leaf), [r.rows for r in rights], [*storage.program.kernel.sizes, *leaf.names]):
        return False
    # Of all writes to the place before the read, the last one is right, or it is behind one that is.
    return not any(
        _overwritten(reader, wanted, right, writer, element)
        for right in rights
        if not right.rows.plain.impossible
        for writer, element in held
    )


@dataclass(frozen=True)
class _Right:
    """Where a write, primed but for the loops in `shared`, puts the element to the place before it is read."""

    writer: Touch
    shared: frozenset[str]
    rows: Rows


def _rights(storage: Storage, reader: Touch, wanted: Element, writer: Touch, element: Element) -> Iterator[_Right]:
    one, two = writer.placed.leaf, reader.placed.leaf
    place = common(writer.use, reader.use)
    for shared, rows in before_in_scope(storage, reader.use.buffer, writer.placed, reader.placed):
        if told_apart(one, two, place, shared, rows):
            continue
        names = one.primed(shared)
        there = element.renamed(names)
        piece = exchanged(rows) + same(reader.use.forms, [f.renamed(names) for f in writer.use.forms])
        piece += there.rows + same(wanted.index, there.index)
        yield _Right(writer, shared, storage.program.original.pair(two, one, shared) + piece)


def _overwritten(reader: Touch, wanted: Element, right: _Right, writer: Touch, element: Element) -> bool:
    """True if `writer` can put another element there between the right one and the read."""
    leaf = writer.placed.leaf
    names = {n: f"{n}~" for n in leaf.primed(right.shared)}
    mine = renamed(leaf.domain, names) + same([f.renamed(names) for f in writer.use.forms], reader.use.forms)
    there = element.renamed(names, "~")
    for rows in between((right.writer, "'"), (writer, "~"), (reader, ""), right.shared, right.rows + mine):
        # Mostly nothing at all is written there.
        if not solvable(rows):
            continue
        rows += there.rows + tuple(row for form in (*there.index, *wanted.index) for row in form.rows)
        for a, b in zip(there.index, wanted.index, strict=True):
            if any(solvable(rows + apart.nonnegative()) for apart in (a.minus(b, 1), b.minus(a, 1))):
                return True
    return False


# -- what a write puts there


@dataclass(frozen=True)
class _Sum:
    """A dimension of a tensor: a factor for each dimension of the copy, terms of shared loops, a constant."""

    factors: tuple[int, ...]
    rest: tuple[tuple[str, int], ...]
    start: int
    rows: tuple[Row, ...]

    def at(self, places: tuple[Form, ...]) -> Form:
        """The sum where the copy's place is `places`."""
        terms, start, rows = dict(self.rest), self.start, self.rows
        for factor, place in zip(self.factors, places, strict=True):
            if factor:
                start += factor * place.const
                rows += place.rows
                for n, f in place.terms:
                    terms[n] = terms.get(n, 0) + factor * f
        return Form(tuple((n, f) for n, f in terms.items() if f), start, rows)


# These, and what stands for an element outside of the tensor.
_Function = tuple[tuple[_Sum, ...], Const | None]
# A sum of loops, by their names, and of places, by their numbers.
_Terms = dict[str | int, Fraction]


def _held(storage: Storage, writer: Touch, above: tuple[Placed, ...] = ()) -> Element | None:
    """The element that a copy writes, if all who fill what it reads agree on one function of the place."""
    read = writer.placed.leaf.uses[0]
    if not writer.is_copy or writer.placed in above:
        return None  # contents go to and fro
    if read.buffer == storage.tensor:
        return Element((), read.forms, read.fallback)
    sources = [t for t in storage.of(read.buffer) if t.use.writes]
    for source in sources:
        function = _by_place(storage, source, writer, (*above, writer.placed))
        if function is None:
            continue
        sums, beyond = function
        if all(_says(storage, s, function, (*above, writer.placed)) for s in sources):
            return Element((), tuple(each.at(read.forms) for each in sums), beyond)
    return None


def _says(storage: Storage, source: Touch, function: _Function, above: tuple[Placed, ...]) -> bool:
    """True if what `source` writes is this function of the place."""
    held = _held(storage, source, above)
    if held is None or held.fallback != function[1]:
        return False
    sums = [each.at(source.use.forms) for each in function[0]]
    return all(not (d := one.minus(two)).terms and not d.const for one, two in zip(held.index, sums, strict=True))


def _by_place(storage: Storage, source: Touch, reader: Touch, above: tuple[Placed, ...]) -> _Function | None:
    """The element that `source` writes, in terms of the place it writes it to and loops that `reader` shares."""
    shared = scope_of(storage, source.use.buffer, source.placed, reader.placed)
    held = _held(storage, source, above)
    if shared is None or held is None:
        return None
    function: tuple[_Sum, ...] = ()
    for form in held.index:
        alike = shared | _quotients(form, shared)
        factors = _factors(source.use.forms, form, alike)
        if factors is None:
            return None
        rest, start = dict(form.terms), form.const
        for factor, place in zip(factors, source.use.forms, strict=True):
            start -= factor * place.const
            for n, f in place.terms:
                rest[n] = rest.get(n, 0) - factor * f
        function += (_Sum(factors, tuple(sorted((n, f) for n, f in rest.items() if f)), start, form.rows),)
    return function, held.fallback


def _factors(places: tuple[Form, ...], wanted: Form, shared: frozenset[str]) -> tuple[int, ...] | None:
    """Whole factors with which the places add up to `wanted`, but for terms of shared loops; by elimination."""
    steps: list[tuple[str, _Terms]] = []
    for d, place in enumerate((*places, wanted)):
        # Its own terms, and beside them, under numbers, which places it has been made of.
        left: _Terms = {n: Fraction(f) for n, f in place.terms if n not in shared} | {d: Fraction(1)}
        for pivot, step in steps:
            times = left.get(pivot, Fraction(0)) / step[pivot]
            left = {n: f for n in left | step if (f := left.get(n, 0) - times * step.get(n, 0))}
        names = [n for n in left if isinstance(n, str)]
        steps += [(names[0], left)] if names and d < len(places) else []
    factors = [-left.get(d, Fraction(0)) for d in range(len(places))]
    if names or any(f.denominator != 1 for f in factors):
        return None
    return tuple(f.numerator for f in factors)


def _quotients(form: Form, shared: frozenset[str]) -> set[str]:
    """The divisions in `form` of nothing but shared loops, which have one value for writer and reader."""
    known = set(shared)
    for _, terms, _ in form.rows:
        # The last term of a division's rows is the quotient; what it divides stands in front.
        *inner, (quotient, _) = terms
        if known.issuperset(name for name, _ in inner):
            known.add(quotient)
    return known - shared
