"""Rows that a thread walks to and fro, as rows that it walks one way: half of the statements to ask about.

    for vj < 2                                        for vj < 2
      for ci < 4                                        for ci.2 < 2
        C[ci, vj*2] += ...                                for ci < 4
      for ci < 4                                            C[ci, vj*2 + ci.2] += ...
        C[3 - ci, vj*2 + 1] += ...

Which end a loop begins at makes no difference where each of its iterations writes elements of its own, and of what
it writes reads these alone. And loops one after the other that differ by constants are one loop around one of them.
"""

from __future__ import annotations

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import Stmt
from tilegen.ir.walk import loads, replace, substitute
from tilegen.lowering.program import For, Spmd
from tilegen.poly.determined import determined
from tilegen.proof.vectors import ASYNCHRONOUS, rolled


def straightened(body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
    """`body` with loops that are walked backwards walked forwards, and two that differ by constants as one.

    Its tests are the guards of its statements.
    """
    out: list[Spmd] = []
    for node in body:
        if isinstance(node, For):
            node = _forwards(replace(node, body=straightened(node.body)))
        pair = _pair(out[-1], node) if out else None
        if pair is None:
            out.append(node)
        else:
            out[-1] = pair
    return tuple(out)


def _pair(first: Spmd, second: Spmd) -> Spmd | None:
    """The two as one loop around the first, if they are loops that differ by constants."""
    if not isinstance(first, For) or not isinstance(second, For) or first.name != second.name:
        return None
    one, two = _inside(first), _inside(second)
    if one is None or two is None or one != two:
        return None
    pair = rolled((first, second), f"{first.name}.2")
    return pair[0] if len(pair) == 1 else None


def _inside(node: For) -> list[object] | None:
    """The loops in a nest and what they write, in their order; None if anything counts, waits or is declared there."""
    found: list[object] = [(node.name, node.extent)]
    for inner in node.body:
        if isinstance(inner, For):
            more = _inside(inner)
            if more is None:
                return None
            found += more
        elif isinstance(inner, Stmt) and inner.step != ASYNCHRONOUS:
            found.append((inner.name, inner.target.buffer))
        else:
            return None
    return found


def _forwards(loop: For) -> For:
    """The loop from its other end, if it is walked backwards and that makes no difference.

    Two iterations that write one element are the same one, as the digits of the index say; so no iteration touches
    what another one writes, and they may come in any order.
    """
    stmt, extents = _only(loop)
    if stmt is None or stmt.best or stmt.step == ASYNCHRONOUS or not loop.extent.is_const:
        return loop
    factors = [i.coefficient(loop.name) for i in stmt.target.index]
    if min(factors, default=0) >= 0 or max(factors) > 0:
        return loop
    if any(load.buffer == stmt.target.buffer and load.index != stmt.target.index for load in loads(stmt)):
        return loop
    if loop.name not in determined(stmt.target.index, extents, frozenset()):
        return loop
    return replace(loop, body=substitute(loop.body, {loop.name: const(loop.extent.const - 1) - var(loop.name)}))


def _only(loop: For) -> tuple[Stmt | None, dict[str, Affine]]:
    """The one statement in the loop, under loops alone, and the loops around it, this one included."""
    extents = {}
    node: Spmd = loop
    while isinstance(node, For):
        extents[node.name] = node.extent
        if len(node.body) != 1:
            return None, {}
        (node,) = node.body
    return (node, extents) if isinstance(node, Stmt) else (None, {})
