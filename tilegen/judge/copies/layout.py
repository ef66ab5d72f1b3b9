"""Which element stands at a place of a copy, as a function of the place: where all say the same one, none is asked for.

    C.reg[lane, ci, cj] += ...      is C[bi*64 + (lane/8)*8 + ci, lane%8*8 + cj]
    C[...] = C.reg[lane, ci, lane4]                                             for lane, p, q at bi: the same

Sums that are the same term by term are equal at one place, so long as their other names have one value.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.ir.nodes import Const
from tilegen.judge.copies.storage import Element, Storage, Touch, scope_of
from tilegen.poly.instances import Placed
from tilegen.poly.system import Form, Row


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
