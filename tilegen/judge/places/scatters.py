"""Scatters: of a loop whose data pick an iteration, the others do nothing.

Theorem: let each statement in the loop update a reduction with `select(e == b, term, neutral)`, where b is the loop
plus what is fixed in it, and e reads nothing that the loop writes and no loop inside of it. Then all iterations but
one leave every element as it is: running that one, if the loop has it, is running the loop. e is computed once for
all, so that its reads are inside of their buffers wherever the loop is reached.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.nodes import Expr
from tilegen.ir.reductions.initial import init_value
from tilegen.ir.reductions.scatter import pick_of, speaks_of
from tilegen.ir.walk import gathers, loads
from tilegen.judge.places.bounds import check_reads
from tilegen.poly.instances import Leaf, Placed, Projection
from tilegen.poly.verdict import Refused

_FORM = "scatter takes a loop in which data pick the term that one iteration has: h[b] = sum[i](1 if x[i] == b else 0)"


def check_scatters(program: Projection) -> None:
    """Refused where more than one iteration of a loop that data pick from may change something."""
    found: dict[tuple[int, ...], list[tuple[Placed, int]]] = {}
    for placed in program.leaves:
        for depth, kind in enumerate(placed.leaf.kinds):
            if kind == "scatter":
                found.setdefault(placed.places[: depth + 1], []).append((placed, depth))
    for inside in found.values():
        written = frozenset[str]().union(*[placed.leaf.written_buffers for placed, _ in inside])
        places = {_check_leaf(program, placed.leaf, depth, written) for placed, depth in inside}
        if len(places) > 1:
            name = inside[0][0].leaf.names[inside[0][1]]
            raise Refused(f"two statements in loop '{name}' have their terms at different places", way=_FORM)


def _check_leaf(program: Projection, leaf: Leaf, depth: int, written: frozenset[str]) -> Expr:
    """The place that the leaf's terms have in its loop at this depth."""
    name, stmt = leaf.names[depth], leaf.stmt
    pick = pick_of(stmt.value, name)
    if pick is None or stmt.reduce not in ("sum", "prod", "max", "min"):
        raise Refused(
            f"'{stmt.name}' may do something in each iteration of '{name}', of which one alone would run", way=_FORM
        )
    if pick.rest != init_value(stmt.reduce, pick.rest.dtype):
        raise Refused(
            f"'{stmt.name}' adds {pick.rest.value} in the iterations of '{name}' that would not run", way=_FORM
        )
    used = {load.buffer for load in loads(pick.place)} | {gather.buffer for gather in gathers(pick.place)}
    if not used.isdisjoint(written) or speaks_of(pick.place, frozenset(leaf.names[depth:])):
        inner = [f"'{each}'" for each in leaf.names[depth + 1 :] if speaks_of(pick.place, frozenset((each,)))]
        way = f"order puts {' and '.join(inner)} outside of '{name}'" if inner else ""
        sentence = f"which iteration of '{name}' has a term of '{stmt.name}' changes inside of that loop"
        raise Refused(sentence, way=way or _FORM)
    outer, sizes = frozenset(leaf.names[:depth]), frozenset(program.kernel.sizes)
    tested = tuple(c for c in stmt.guard if c.value.names() <= outer | sizes)
    ahead = replace(stmt, value=pick.place, guard=tested, reduce=None)
    check_reads(program, Leaf(leaf.names[:depth], leaf.kinds[:depth], leaf.extents[:depth], ahead))
    return pick.place
