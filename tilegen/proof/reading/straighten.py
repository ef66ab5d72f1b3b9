"""Rows that a thread walks back and forth, as rows that it walks one way: half of the statements to ask about.

    for vj < 2                                        for vj < 2
      for ci < 4                                        for ci.2 < 2
        C[ci, vj*2] += ...                                for ci < 4
      for ci < 4                                            C[ci, vj*2 + ci.2] += ...
        C[3 - ci, vj*2 + 1] += ...

Which end a loop begins at makes no difference where each of its iterations writes elements of its own, and of what
it writes reads these alone. And loops one after the other that differ by constants are one loop around one of them.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import Stmt
from tilegen.ir.walk import loads, substitute
from tilegen.lowering.launch.program import For, Spmd
from tilegen.lowering.launch.timelines import COPIES
from tilegen.poly.same_iteration import determined_loops
from tilegen.proof.reading.lane_loops import roll
from tilegen.proof.reading.on_timelines import does


def straighten(body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
    """`body` with loops that are walked backwards walked forwards, and two that differ by constants as one.

    Its tests are the guards of its statements.
    """
    out: list[Spmd] = []
    for node in body:
        if isinstance(node, For):
            nest, stmt = _nest(node)
            node = replace(node, body=straighten(node.body)) if stmt is None else _walk_forwards(nest, stmt)
        pair = _join_pair(out[-1], node) if out else None
        if pair is None:
            out.append(node)
        else:
            out[-1] = pair
    return tuple(out)


def _join_pair(first: Spmd, second: Spmd) -> Spmd | None:
    """The two as one loop around the first, if they are loops that differ by constants."""
    if not isinstance(first, For) or not isinstance(second, For) or first.name != second.name:
        return None
    one, two = _contents(first), _contents(second)
    if one is None or two is None or one != two:
        return None
    pair = roll((first, second), f"{first.name}.2")
    return pair[0] if len(pair) == 1 else None


def _contents(node: For) -> list[object] | None:
    """The loops in a nest and what they write, in their order; None if anything counts, waits or is declared there."""
    found: list[object] = [(node.name, node.extent)]
    for inner in node.body:
        if isinstance(inner, For):
            more = _contents(inner)
            if more is None:
                return None
            found += more
        elif isinstance(inner, Stmt) and not does(inner, "start", COPIES):
            found.append((inner.name, inner.target.buffer))
        else:
            return None
    return found


def _walk_forwards(nest: list[For], stmt: Stmt) -> For:
    """The loops around one statement, those from their other end that are walked backwards where that is all one.

    Two iterations that write one element are the same one, as the digits of the index say; so no iteration touches
    what another one writes, and they may come in any order.
    """
    index = stmt.target.index
    extents: dict[str, Affine] = {}
    turned: dict[str, Affine] = {}
    for loop in reversed(nest):
        extents[loop.name] = loop.extent
        factors = [i.coefficient(loop.name) for i in index]
        if min(factors, default=0) >= 0 or max(factors) > 0 or not loop.extent.is_const:
            continue
        if _reads_its_own(stmt) and loop.name in determined_loops(index, extents, frozenset()):
            turned[loop.name] = const(loop.extent.const - 1) - var(loop.name)
            index = substitute(index, {loop.name: turned[loop.name]})
    return substitute(nest[0], turned)


def _reads_its_own(stmt: Stmt) -> bool:
    """True if, of the buffer that it writes, the statement reads no element but the one that it writes."""
    if stmt.best or does(stmt, "start", COPIES):
        return False
    memory, index = memory_of(stmt.target.buffer), stmt.target.index
    return all(memory_of(load.buffer) != memory or load.index == index for load in loads(stmt))


def _nest(loop: For) -> tuple[list[For], Stmt | None]:
    """The loops from this one down to the one statement in it; None if there is more in it than that."""
    nest: list[For] = []
    node: Spmd = loop
    while isinstance(node, For) and len(node.body) == 1:
        nest.append(node)
        (node,) = node.body
    return nest, node if isinstance(node, Stmt) else None
