"""What runs at all: statements whose guards hold nowhere are left out, and loops with nothing else in them.

    for vf < 2                                   for vf < 2
      Y[vf*2] = 0      if tf + vf*2 < 1            Y[vf*2] = 0      if tf + vf*2 < 1
      Y[vf*2 + 1] = 0  if tf + vf*2 + 1 < 1

Such a guard implies everything. What it says, and what would follow from it for others, is arbitrary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import Loop, Node, Stmt, Tree
from tilegen.ir.walk import gathers, loops, reads, rewrite_nodes, stmts
from tilegen.poly import Facts


def without_dead(tree: Tree) -> Tree:
    """The tree without statements that never run, and copies that none but these read. A launch stays, if only as a
    whole."""
    facts, extents = Facts(tree.kernel), {loop.name: loop.extent for loop in loops(tree.body)}
    body = tuple(each for node in tree.body for each in drop_dead((node,), facts, extents) or (node,))
    while body != tree.body:
        tree = replace(tree, body=body)
        body = tuple(each for node in body for each in _drop_unread((node,), tree) or (node,))
    return tree


def _drop_unread(body: tuple[Node, ...], tree: Tree) -> tuple[Node, ...]:
    """`body` without copies to buffers on the chip that nothing in the tree reads: nobody would wait for them."""
    read = {name for stmt in stmts(tree.body) for name, _ in reads(stmt)} | {v.buffer for v in gathers(tree.body)}
    unread = {b.name for b in tree.buffers if b.space != "global"} - read

    def needed(value: object) -> object:
        if isinstance(value, Loop):
            return value if value.body else ()
        return () if isinstance(value, Stmt) and value.is_copy and value.target.buffer in unread else value

    return rewrite_nodes(body, needed)


def drop_dead(body: tuple[Node, ...], facts: Facts, extents: Mapping[str, Affine]) -> tuple[Node, ...]:
    """`body` without statements that never run, and without loops that have no others.

    Args:
        extents: the loops that guards speak of, each with its extent.
    """

    def possible(value: object) -> object:
        if isinstance(value, Loop):
            return value if value.body else ()
        if isinstance(value, Stmt) and value.guard:
            # No loop but those that the guard speaks of can keep it from holding.
            names = {name for c in value.guard for name in c.value.names()}
            known = {name: extent for name, extent in extents.items() if name in names}
            return value if facts.is_possible(value.guard, known) else ()
        return value

    return rewrite_nodes(body, possible)
