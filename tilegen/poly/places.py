"""Which element stands at a place of a copy, as a function of the place: where all say the same one, none is asked for.

    C.reg[lane, ci, cj] += ...      is C[bi*64 + (lane/8)*8 + ci, lane%8*8 + cj]
    C[...] = C.reg[lane, ci, lane4]                                             for lane, p, q at bi: the same

Sums that are the same term by term are equal at one place, so long as their other names have one value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilegen.ir.nodes import Const
from tilegen.poly.flow import Element, Storage, Touch, scope_of
from tilegen.poly.project import Placed, alike_in
from tilegen.poly.system import Form, Row


def agreed(storage: Storage, reader: Touch, writers: Sequence[Touch]) -> bool:
    """True if all writers say one function of the place, and it gives the element that `reader` wants.

    They speak of one iteration of the loop that the buffer lives in. Of loops further inside it counts which have one
    value wherever the place is one: those that dimensions tell which are written alike in all accesses.
    """
    scopes = {w: scope_of(storage, reader.use.buffer, w.placed, reader.placed) for w in writers}
    held = tuple(w for w, scope in scopes.items() if scope is not None)
    wanted = None if _passes_on(storage, reader) else _element(storage, reader)
    if not held or (wanted is None and not _passes_on(storage, reader)):
        return False
    known = _alike(reader, held, scopes[held[0]] or frozenset()) | set(storage.program.kernel.sizes)
    function = storage.kept(("said", held, known), lambda: _said_by_all(storage, held, known))
    if function is None or wanted is None:
        return function is not None
    return _is(wanted, function, reader.use.forms) and wanted.fallback in (None, function[1])


def _said_by_all(storage: Storage, writers: Sequence[Touch], known: frozenset[str]) -> Function | None:
    """The function of the place that all of them say, in the names that are known."""
    held = {w: _element(storage, w) for w in writers}
    for writer, element in held.items():
        function = None if element is None else _function(element, writer.use.forms, known)
        if function is None:
            continue
        if all(e and e.fallback == function[1] and _is(e, function, w.use.forms) for w, e in held.items()):
            return function
    return None


def _alike(reader: Touch, writers: Sequence[Touch], shared: frozenset[str]) -> frozenset[str]:
    """The loops that a writer and the reader are in the same iteration of whenever they use one place."""
    places = zip(reader.use.index, *(w.use.index for w in writers), strict=True)
    index = tuple(place for place, *others in places if all(place == other for other in others))
    found = [alike_in(reader.placed.leaf, w.placed.leaf, index, shared) for w in writers]
    return shared | frozenset.intersection(*found)


def _element(storage: Storage, touch: Touch) -> Element | None:
    """The element that an access stands for, in the names of its loops alone; None if that takes more."""
    leaf = touch.placed.leaf
    if not leaf.stmt.is_copy:
        origin = storage.program.original.elements(leaf)[touch.position]
        return Element((), origin.forms, origin.fallback)
    for use in leaf.uses:
        if use.buffer == storage.tensor:
            return Element((), use.forms, use.fallback)
    return held_by(storage, touch) if touch.use.writes else None


def _passes_on(storage: Storage, reader: Touch) -> bool:
    """The reader copies from one copy to another: it wants what it finds, if that is one element whoever wrote it."""
    return reader.is_copy and all(use.buffer != storage.tensor for use in reader.placed.leaf.uses)


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
Function = tuple[tuple[_Sum, ...], Const | None]
# A sum of loops, by their names, and of places, by their numbers.
_Terms = dict[str | int, int]


def held_by(storage: Storage, writer: Touch, above: tuple[Placed, ...] = ()) -> Element | None:
    """The element that a copy writes, if all who fill what it reads agree on one function of the place."""
    read = writer.placed.leaf.uses[0]
    if not writer.is_copy or writer.placed in above:
        return None  # contents go to and fro
    if read.buffer == storage.tensor:
        return Element((), read.forms, read.fallback)
    sources = tuple(t for t in storage.of(read.buffer) if t.use.writes)
    scopes = tuple(scope_of(storage, read.buffer, s.placed, writer.placed) for s in sources)
    # Who asks makes a difference where contents go to and fro alone: then there is no such function for anybody.
    function = storage.kept(
        ("passed on", sources, scopes), lambda: _passed_on(storage, sources, scopes, (*above, writer.placed))
    )
    if function is None:
        return None
    return Element((), tuple(each.at(read.forms) for each in function[0]), function[1])


def _passed_on(
    storage: Storage,
    sources: tuple[Touch, ...],
    scopes: tuple[frozenset[str] | None, ...],
    above: tuple[Placed, ...],
) -> Function | None:
    """What all of the sources put into a copy, in terms of the place and of loops that its reader shares."""
    held = [held_by(storage, s, above) for s in sources]
    for source, element, shared in zip(sources, held, scopes, strict=True):
        function = None if element is None or shared is None else _function(element, source.use.forms, shared)
        if function is None:
            continue
        told = zip(sources, held, strict=True)
        if all(e and e.fallback == function[1] and _is(e, function, s.use.forms) for s, e in told):
            return function
    return None


def _is(held: Element, function: Function, places: tuple[Form, ...]) -> bool:
    """True if the element is that function of the places, term by term."""
    sums = [each.at(places) for each in function[0]]
    return all(not (d := one.minus(two)).terms and not d.const for one, two in zip(held.index, sums, strict=True))


def _function(held: Element, places: tuple[Form, ...], shared: frozenset[str]) -> Function | None:
    """The element as sums of the places and of names in `shared`."""
    function: tuple[_Sum, ...] = ()
    for form in held.index:
        factors = _factors(places, form, shared | _quotients(form, shared))
        if factors is None:
            return None
        rest, start = dict(form.terms), form.const
        for factor, place in zip(factors, places, strict=True):
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
        left: _Terms = {n: f for n, f in place.terms if n not in shared}
        left[d] = 1
        for pivot, step in steps:
            times, by = left.get(pivot, 0), step[pivot]
            if times:
                left = {n: f for n in left | step if (f := left.get(n, 0) * by - times * step.get(n, 0))}
        names = [n for n in left if isinstance(n, str)]
        steps += [(names[0], left)] if names and d < len(places) else []
    # So many times `wanted`, and what has been taken from it.
    times, taken = left[len(places)], [-left.get(d, 0) for d in range(len(places))]
    if names or any(f % times for f in taken):
        return None
    return tuple(f // times for f in taken)


def _quotients(form: Form, shared: frozenset[str]) -> set[str]:
    """The divisions in `form` of nothing but shared loops, which have one value for writer and reader."""
    known = set(shared)
    for _, terms, _ in form.rows:
        # The last term of a division's rows is the quotient; what it divides stands in front.
        *inner, (quotient, _) = terms
        if known.issuperset(name for name, _ in inner):
            known.add(quotient)
    return known - shared
