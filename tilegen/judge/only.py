"""Elements with one term only: a promise says which iteration has it, and the others leave them as they are.

Theorem: the iterations that may have the term of an element come in any order, or at once, if all of them find it at
one place: in its tensor, or in one life of a copy. What the copy holds when it is stored, after all of them, is the
term; a copy that some of them alone have may hold none. Then it is stored back where the kernel's test says that one
of them has the term: what it holds of that element was computed by this one, if no other writes it in that life.
"""

from __future__ import annotations

from tilegen.ir.nodes import ONLY
from tilegen.ir.reductions.ragged import term_of
from tilegen.ir.walk import loads, substitute
from tilegen.judge.copies.storage import tensor_of
from tilegen.poly.instances import Placed, Projection
from tilegen.poly.rows import Row
from tilegen.poly.system import find_difference, form
from tilegen.poly.verdict import Refused, counterexample


def check_only(program: Projection) -> None:
    """Refused where a copy is kept for some of the iterations that may have the term of an element."""
    found = [p for p in program.leaves if p.leaf.stmt.reduce == ONLY and not p.leaf.stmt.is_copy]
    for placed in program.leaves:
        if placed.leaf.stmt.is_copy and placed.leaf.stmt.reduce:
            _check_stored(program, placed, found)
    for one in found:
        buffer = one.leaf.stmt.target.buffer
        if program.buffers[buffer].role == "copy" and _may_be_read(program, tensor_of(program.buffers, buffer)):
            for two in found:
                if two.leaf.stmt.name == one.leaf.stmt.name:
                    _check_pair(program, one, two)


def _may_be_read(program: Projection, tensor: str) -> bool:
    """True if copies of the tensor are read where they may hold no term."""
    for placed in program.leaves:
        stmt = placed.leaf.stmt
        read = any(tensor_of(program.buffers, load.buffer) == tensor for load in loads(stmt))
        if read and not (stmt.is_copy and (stmt.term or program.buffers[stmt.target.buffer].role == "copy")):
            return True
    return False


def _check_stored(program: Projection, store: Placed, found: list[Placed]) -> None:
    """Refused where a copy is stored back under another test than that of what it holds."""
    original, stmt = program.original, store.leaf.stmt
    equation = original.equations.get(stmt.target.buffer)
    names = [r.name for r in (*equation.loops, *equation.reduced)] if equation else []
    chosen, term = term_of(stmt.value), stmt.term or ()
    whole = term_of(equation.value) if equation and equation.reduce == ONLY else None
    if equation is None or whole is None or chosen is None or len(term) != len(names):
        raise Refused(f"'{stmt.name}' is a copy, and does more than copy")
    values = dict(zip(names, term, strict=True))
    if (substitute(whole[0], values), substitute(equation.index, values)) != (chosen[0], stmt.target.index):
        raise Refused(f"'{stmt.name}' is stored back where nothing says that it holds the term")
    for one in found:
        scope = program.buffers[one.leaf.stmt.target.buffer].scope
        depth = one.leaf.names.index(scope) + 1 if scope in one.leaf.names else 0
        if one.leaf.stmt.name != stmt.target.buffer or not 0 < depth <= one.common_depth(store):
            continue
        uses = original.elements(one.leaf)[-1], store.leaf.uses[-1]
        rows, new = original.meeting_rows(one.leaf, store.leaf, *uses, frozenset(one.leaf.names[:depth]))
        count = len(equation.loops)
        here = tuple(map(form, one.leaf.stmt.instance or ()))[count:]
        if find_difference(rows, here, tuple(form(place).rename(new) for place in term[count:])) is not None:
            raise Refused(f"'{stmt.name}' is stored back where it may hold another term of '{stmt.target.buffer}'")


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
