"""Elements with one term only: a promise says which iteration has it, and the others leave them as they are.

Theorem: the iterations that may have the term of an element come in any order, or at once, if all of them find it at
one place: in its tensor, or in one life of a copy. What the copy holds when it is stored, behind all of them, is the
term; a copy that some of them alone have may hold none.
"""

from __future__ import annotations

from tilegen.ir.nodes import ONLY
from tilegen.poly.instances import Placed, Projection
from tilegen.poly.rows import Row
from tilegen.poly.verdict import Refused, counterexample


def check_only(program: Projection) -> None:
    """Refused where a copy is kept for some of the iterations that may have the term of an element."""
    found = [p for p in program.leaves if p.leaf.stmt.reduce == ONLY]
    for one in found:
        if program.buffers[one.leaf.stmt.target.buffer].role == "copy":
            for two in found:
                if two.leaf.stmt.name == one.leaf.stmt.name:
                    _check_pair(program, one, two)


def _check_pair(program: Projection, one: Placed, two: Placed) -> None:
    original, buffer = program.original, program.buffers[one.leaf.stmt.target.buffer]
    outer = one.leaf.names[: one.leaf.names.index(buffer.scope) + 1] if buffer.scope else ()
    cases: list[tuple[frozenset[str], tuple[Row, ...]]] = [(frozenset(), ())]
    if two.leaf.stmt.target.buffer == buffer.name and one.common_depth(two) >= len(outer):
        cases = [
            (frozenset(outer[:depth]), ((False, ((f"{loop}'", sign), (loop, -sign)), -1),))
            for depth, loop in enumerate(outer)
            for sign in (1, -1)
        ]
    elements = (original.elements(one.leaf)[-1], original.elements(two.leaf)[-1])
    for shared, apart in cases:
        rows, names = original.meeting_rows(one.leaf, two.leaf, *elements, shared, apart)
        loops = (*one.leaf.names, *(names.get(n, n) for n in two.leaf.names))
        if words := counterexample(original, rows, loops, shared):
            raise Refused(
                f"'{buffer.name}' is kept for some of the iterations that may have the only term of an element",
                f"{words.instance(one.leaf)} may have that of {words.element(elements[0])}, or "
                f"{words.instance(two.leaf, True)}{words.sizes}",
                "cache it around all of them, or store each term where it is computed",
            )
