"""Copies of elements that have one term each, stored back where the term is."""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.nodes import ONLY, Load, Stmt, Tree
from tilegen.ir.reductions.ragged import only_where, term_of
from tilegen.ir.walk import leaves, substitute
from tilegen.primitives.rewriting.region import Point, Region


def stored_where_computed(tree: Tree, region: Region, store: Stmt, element: Point) -> Stmt:
    """The copy `store` of the element, made where one of the terms of the region is its only term.

    It is made everywhere, as it is, where the terms are not all of one iteration of the loops of the reduction: then
    all of them have to be in the region.
    """
    equation = next((e for e in tree.kernel.equations if e.target == region.buffer.name and e.reduce == ONLY), None)
    chosen = term_of(equation.value) if equation else None
    if equation is None or chosen is None:
        return store
    terms = [use.stmt.term or use.stmt.instance for use in region.uses if use.writes]
    points = {term[len(equation.loops) :] if term else () for term in terms}
    around = {*region.sizes}
    for path, _ in leaves(tree.body):
        names = [loop.name for loop in path]
        around |= {*names[: names.index(region.at) + 1]} if region.at in names else set()
    if len(points) != 1 or () in points or not all(place.names() <= around for point in points for place in point):
        return store
    dims = dict(zip(map(str, equation.index), element, strict=True))
    term = (*(dims[r.name] for r in equation.loops), *points.pop())
    values = dict(zip([r.name for r in (*equation.loops, *equation.reduced)], term, strict=True))
    value = only_where(substitute(chosen[0], values), store.value)
    return replace(store, value=value, reduce=ONLY, term=term)


def sent_to_copy(stmt: Stmt) -> Stmt:
    """A copy that is made to another one, which holds anything where no term is."""
    chosen = term_of(stmt.value) if stmt.term else None
    return replace(stmt, value=chosen[1], reduce=None, term=None) if chosen and isinstance(chosen[1], Load) else stmt
