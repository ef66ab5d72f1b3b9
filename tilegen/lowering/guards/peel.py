"""Peeled loops: the last iteration stands after the loop, without what it would do for a next one.

    for ko < n                                    for ko < n - 1
      A.shared[(ko + 1)%2] = ..  if ko + 1 < n      A.shared[(ko + 1)%2] = ..  if ko + 1 < n
      use A.shared[ko%2]                            use A.shared[ko%2]
                                                  use A.shared[(n - 1)%2]

The result is an ordinary tree: which tests are certain now, which barriers the last iteration needs, and whether
all of it is right is found out from it as from any other.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.nodes import Condition, Loop, Tree
from tilegen.ir.walk import add_guard, loop_around, loops, rewrite_nodes, substitute
from tilegen.lowering.guards.running import drop_dead
from tilegen.poly import Facts


def split_peeled(tree: Tree) -> Tree:
    """The tree with its peeled loops in two parts."""
    names = {loop.name for loop in loops(tree.body) if _is_peeled(loop)}
    if not names:
        return tree
    facts = Facts(tree.kernel)
    extents = {loop.name: loop.extent for loop in loops(tree.body)}

    def change(value: object) -> object:
        if not isinstance(value, Loop) or not _is_peeled(value):
            return value
        last = value.extent - 1
        ending = drop_dead(substitute(value.body, {value.name: last}), facts, extents)
        if not facts.is_implied(Condition(last), {}):
            ending = add_guard(ending, Condition(last))
        return replace(value, extent=last), *ending

    # What lived in an iteration lives in both parts.
    buffers = tree.buffers
    for name in names:
        buffers = tuple(replace(b, scope=loop_around(tree, name, b.name)) if b.scope == name else b for b in buffers)
    return replace(tree, buffers=buffers, body=rewrite_nodes(tree.body, change))


def _is_peeled(loop: Loop) -> bool:
    """True if the loop is to be peeled, and is still one when its last iteration is gone."""
    few = loop.extent.is_const and loop.extent.const <= 2
    return loop.peeled and not few
