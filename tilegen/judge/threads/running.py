"""What reads a result while the lanes of a warp combine it has what it would have in sequence.

Lanes exchange their terms all at once, and each can have what those before it come to, or those up to it. Theorem:
that is what a read finds in sequence if it is right before the update of its lane, or right after it, in the loop of
the lanes alone, and if nothing between changes a term. Any other read of the result in that loop is refused, but for
those that the first lane makes where it alone has a term: they stay in their order.

The update is made where some lane has a term: each test says of the lanes something that they can be counted by.
"""

from __future__ import annotations

from tilegen.ir.affine import var
from tilegen.ir.hardware.lanes import running_reads
from tilegen.ir.nodes import Condition
from tilegen.ir.printing.show import show_condition
from tilegen.ir.walk import loads
from tilegen.poly.instances import Placed, Projection
from tilegen.poly.verdict import Misplaced, NoForm


def check_running(program: Projection) -> None:
    """Refused where a result is read in the loop whose lanes combine it, and not right beside their updates, or which
    of them have a term is not said of them alone."""
    for number, lane in program.lanes.items():
        _check_tests(program.leaves[number], lane)
        _check_reads(program, program.leaves[number], lane)


def _check_tests(combining: Placed, lane: str) -> None:
    for condition in combining.leaf.stmt.guard:
        if not condition.value.part_with((lane,)).names() <= {lane}:
            raise NoForm(
                f"which lanes of '{lane}' have a term depends on other loops, too: {show_condition(condition)}",
                way="tile cuts what collapse has made of two loops: tile the inner one by the number of lanes before",
            )


def _check_reads(program: Projection, combining: Placed, lane: str) -> None:
    update, places, depth = combining.leaf.stmt, combining.places, combining.leaf.names.index(lane) + 1
    results = {access.buffer for access in (update.target, update.best) if access}
    inside = [p for p in program.leaves if p.places[:depth] == places[:depth] and p is not combining]
    first = Condition(var(lane), equal=True)
    readers = [p for p in inside if any(not use.writes and use.buffer in results for use in p.leaf.uses)
               and not (first in update.guard and first in p.leaf.stmt.guard)]  # fmt: skip
    if not readers:
        return
    siblings = {p.places[-1]: p.leaf.stmt for p in inside if p.places[:-1] == places[:-1]}
    body = [siblings.get(place) for place in range(places[-1] + len(siblings) + 1)]
    beside = {place for found in running_reads(body, places[-1], update.target.buffer) for place in found}
    alone = update.best is None and combining.leaf.names[-1] == lane
    terms = results | {load.buffer for load in loads(update)}
    for reader in readers:
        stmt = reader.leaf.stmt
        here = reader.places[:-1] == places[:-1] and reader.places[-1] in beside
        if not alone or not here or stmt.reduce or stmt.target.buffer in terms:
            raise Misplaced(
                f"'{stmt.name}' reads '{update.target.buffer}' in loop '{lane}', whose lanes combine it",
                None,
                "a lane has what those before it come to right beside its update, in the loop of the lanes itself",
                f"split_scan makes one update of '{update.target.buffer}' of several that a lane has",
            )
