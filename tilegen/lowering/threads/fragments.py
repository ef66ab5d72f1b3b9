"""Fragments are dealt out to lanes before all else, and instructions run whole at the borders of a tensor."""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.hardware.fragments import deal_fragments
from tilegen.ir.nodes import Condition, Loop, Stmt, Tree
from tilegen.ir.walk import rewrite_nodes
from tilegen.lowering.guards.register_guards import spare


def deal(tree: Tree) -> tuple[Tree, frozenset[tuple[str, str]]]:
    """The tree of lanes, and (statement, buffer) of the starts of fragments that do no harm without their guard."""
    if not any(b.fragment for b in tree.buffers):
        return tree, frozenset()
    found = (spare(node, tree.buffers, tree.kernel).starts for node in tree.body)
    return deal_fragments(tree), frozenset().union(*found)


def tests_within(nest: tuple[Loop, ...], stmt: Stmt) -> tuple[Condition, ...]:
    """The conditions of a statement that differ between the iterations of the nest around it."""
    inside = {loop.name for loop in nest}
    return tuple(c for c in stmt.guard if c.value.names() & inside)


def without_instructions(tree: Tree) -> Tree:
    """`tree` with serial loops in place of what instructions and the lanes of a warp do together.

    Bulk copies are shared by all threads.
    """

    def change(node: object) -> object:
        if isinstance(node, Loop) and node.kind == "bulk":
            return replace(node, kind="cooperative")
        if isinstance(node, Loop) and node.kind == "matrix":
            return replace(node, kind="serial", performed=None)
        return node

    buffers = tuple(replace(b, fragment=None, fragment_dims=()) for b in tree.buffers)
    return replace(tree, buffers=buffers, body=rewrite_nodes(tree.body, change))
