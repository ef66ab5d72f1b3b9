"""Order: no dependence of the kernel is reversed.

Let two instances of the kernel touch one element, one of them writing, the source before the sink. Theorem: a tree that
runs every instance once computes what the kernel does if in the tree, too, each source comes before its sink: then
each read has the same last writer. The kernel's pairs are the `precedences`, as rows over instances. For each, and
each way in which a leaf with the sink can come before a leaf with the source, that they are such a pair has to be an
empty system. Where `reassociate` says so, the terms of a reduction commute, and pairs of them are left out; so do the
hits of a list whose order the kernel leaves open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import Load
from tilegen.ir.reductions.linear import LINEAR
from tilegen.ir.walk import loads
from tilegen.poly.execution import ways_before
from tilegen.poly.instances import (
    Leaf,
    Original,
    Placed,
    Projection,
    Use,
    equal_loops,
)
from tilegen.poly.rows import FALSE, Row, Rows, identify, rename
from tilegen.poly.system import Form, equal_rows, solvable, substitute_rows
from tilegen.poly.verdict import Refused, counterexample


@dataclass(frozen=True, eq=False)
class Precedence:
    """Instances of `source` that may come before instances of `sink` and touch an element which one writes.

    `rows` are over the names of the source's loops marked with `°` and the sink's marked with `°'`.
    """

    source: str
    sink: str
    rows: tuple[Row, ...]
    element: str

    @cached_property
    def same_loops(self) -> frozenset[str]:
        """The loops of the kernel that both are in the same iteration of."""
        said = [dict(terms) for equal, terms, constant in self.rows if equal and not constant]
        names = {name.rstrip("°'") for terms in said for name in terms}
        return frozenset(n for n in names if {f"{n}°": 1, f"{n}°'": -1} in said or {f"{n}°": -1, f"{n}°'": 1} in said)


@lru_cache(maxsize=100)
def precedences(original: Original) -> tuple[Precedence, ...]:
    """The pairs of dependent instances, source before sink, whose order every tree has to keep."""
    statements = original.statements.values()
    return tuple(p for s in statements for t in statements for p in _precedences_between(original, s, t))


def _precedences_between(original: Original, one: Placed, two: Placed) -> Iterator[Precedence]:
    pairs: dict[object, tuple[Use, Use]] = {}
    for a in one.leaf.uses:
        for b in two.leaf.uses:
            if a.buffer == b.buffer and (a.writes or b.writes):
                pairs.setdefault((a.buffer, a.index, b.index), (a, b))
    for a, b in pairs.values():
        for shared, rows in ways_before(one, two):
            names = two.leaf.primed_names(shared)
            core = equal_rows(a.forms, [f.rename(names) for f in b.forms]) + rows
            if solvable(original.pair(one.leaf, two.leaf, shared) + core):
                marked = _mark_names(one, two, shared, core)
                yield Precedence(one.leaf.stmt.name, two.leaf.stmt.name, marked, a.buffer)


def _mark_names(one: Placed, two: Placed, shared: frozenset[str], core: tuple[Row, ...]) -> tuple[Row, ...]:
    """`core` over names that no tree has; loops with one name for both get two, and an equality."""
    mark = {n: f"{n}°" for placed in (one, two) for n in placed.leaf.primed_names(frozenset())}
    mark |= {f"{n}'": f"{n}°'" for n in two.leaf.primed_names(frozenset())}
    return rename(core, mark) + tuple((True, ((f"{n}°", 1), (f"{n}°'", -1)), 0) for n in sorted(shared))


def check_order(program: Projection) -> None:
    """Refused where two instances that depend on each other run in the wrong order."""
    reassociated = program.tree.reassociated
    for p in precedences(program.original):
        # Terms of a reduction commute where a step says so; its start and its uses keep their places.
        unordered = program.original.equations[p.source].reduce == "unordered_list"
        if p.source == p.sink and (p.source in reassociated or unordered) and _commutes(program.original, p):
            continue
        for one in program.of(p.source):
            for two in program.of(p.sink):
                if p.source != p.sink or not _are_one(one.leaf, two.leaf):
                    _check_pair(program, p, one, two)


def _are_one(one: Leaf, two: Leaf) -> bool:
    """True if a promise says that iterations that update one element run one instance: it has no order."""
    return one.promise is not None and two.promise is not None and one.promise.by == two.promise.by


def _commutes(original: Original, p: Precedence) -> bool:
    """The first of equals wins in argmax and argmin, steps of a linear recurrence have an order, and a value that reads
    its own sum would notice.

    Where the index comes with the best value of a part, the lower one of equals wins in any order.
    """
    equation = original.equations[p.source]
    results = (equation.target, equation.best, equation.hits and equation.hits.access.buffer)
    if p.element not in results or equation.reduce in ("list", LINEAR):
        return False
    if equation.best and not isinstance(equation.arg, Load):
        return False
    return all(load.buffer != p.element for load in loads((equation.value, equation.hits)))


def _check_pair(program: Projection, p: Precedence, one: Placed, two: Placed) -> None:
    original = program.original
    index = _common_instance(original, p, one, two) or ()
    for shared, rows in ways_before(two, one):
        # The index alone may show more loops to be in the same iteration.
        met = shared | equal_loops(two.leaf, one.leaf, index, shared)
        order = identify(rows, {f"{n}'": n for n in met})
        if FALSE in order:
            continue
        question, names = _ordered_rows(original, p, one, two, met) + order, one.leaf.primed_names(met)
        loops = (*two.leaf.names, *(names.get(n, n) for n in one.leaf.names))
        if words := counterexample(original, question, loops, shared):
            source, sink = words.instance(one.leaf, True), words.instance(two.leaf)
            witness = f"{source} must run before {sink}, but runs after it{words.sizes}"
            raise Refused(_sentence(p), witness, *_notes(original, p))


def _ordered_rows(original: Original, p: Precedence, one: Placed, two: Placed, shared: frozenset[str]) -> Rows:
    """Rows for instances of the two that keep their order, in the same iteration of the loops in `shared`."""
    # `ways_before` primes its second leaf, here the source: the sink keeps plain names.
    names = one.leaf.primed_names(shared)
    point = {f"{n}°": f.rename(names) for n, f in _named_point(original, one)}
    point |= {f"{n}°'": f for n, f in _named_point(original, two)}
    return original.pair(two.leaf, one.leaf, shared) + substitute_rows(p.rows, point)


def _common_instance(original: Original, p: Precedence, one: Placed, two: Placed) -> tuple[Affine, ...] | None:
    """What both instances have in common: the same sums of the loops around them."""
    found = []
    for placed in (one, two):
        names = original.statements[placed.leaf.stmt.name].leaf.names
        found += [tuple(i for n, i in zip(names, placed.leaf.stmt.instance or (), strict=True) if n in p.same_loops)]
    return found[0] if found[0] == found[1] else None


def _sentence(p: Precedence) -> str:
    if p.source == p.sink:
        return f"the order of the steps that build an element of '{p.element}' changes"
    return f"'{p.sink}' runs before '{p.source}', which it depends on through '{p.element}'"


def _notes(original: Original, p: Precedence) -> tuple[str, ...]:
    equation = original.equations[p.source]
    if p.source == p.sink and equation.reduce and equation.reduced:
        words = " and ".join(r.index for r in equation.reduced)
        kept = (
            f"the {equation.reduce} over {words} keeps its order: nest the loops that {words} became as tile made them"
        )
        if equation.best and not isinstance(equation.arg, Load):  # of equal values the first one wins
            return (f"{kept}, or divide it by rfactor({p.source}, ...)",)
        if equation.hits:
            return kept, f"before all other steps, rank({p.source}) -> rank tells each hit its place"
        return kept, f"reassociate({p.source}) before this step allows any order"
    return (f"keep a loop that holds both '{p.source}' and '{p.sink}' outside, or order them as the kernel does",)


def _named_point(original: Original, placed: Placed) -> Iterator[tuple[str, Form]]:
    origin = original.statements[placed.leaf.stmt.name].leaf
    return zip(origin.names, placed.leaf.point, strict=True)
