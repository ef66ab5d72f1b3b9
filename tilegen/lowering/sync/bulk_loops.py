"""Bulk loops in the tree: those that all threads share after all, those without a guard, and what needs no barrier of
the block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tilegen.ir.nodes import Buffer, Const, Load, Loop, Node, Stmt, Tree
from tilegen.ir.walk import leaves, rewrite_nodes, stmts
from tilegen.lowering.sync.conflicts import Conflict, Path


def is_store(nest: Node, buffers: Mapping[str, Buffer]) -> bool:
    """True for a nest of bulk loops that store a shared buffer to a tensor."""
    return all(buffers[stmt.target.buffer].space == "global" for stmt in stmts(nest))


def without_arrivals(
    node: Node, conflicts: tuple[Conflict, ...], buffers: Mapping[str, Buffer]
) -> tuple[Conflict, ...]:
    """`conflicts` without reads of what bulk copies have written: each thread waits for these by itself. A producer
    waits for the reads of what it fills anew, too."""
    found = enumerate(leaves((node,)))
    bulk = {n: path for n, (path, s) in found if path and path[-1].kind == "bulk" and not is_store(s, buffers)}
    waiting = {n for n, path in bulk.items() if any(loop.specialized for loop in path)}
    kept = (c for c in conflicts if c.kind != "RAW" or c.dependence.source not in bulk)
    return tuple(c for c in kept if c.dependence.sink not in waiting)


def deal_bulk_loops(node: Node, scalarized: frozenset[str]) -> Node:
    """`node` with all threads sharing the nests of bulk loops whose outermost one is in `scalarized`."""
    if not isinstance(node, Loop):
        return node
    if node.kind == "bulk":
        return _cooperative(node) if node.name in scalarized else node
    return replace(node, body=tuple(deal_bulk_loops(child, scalarized) for child in node.body))


def _cooperative(node: Node) -> Node:
    if not isinstance(node, Loop):
        return node
    return replace(node, kind="cooperative", body=tuple(map(_cooperative, node.body)))


def copy_whole_boxes(tree: Tree) -> Tree:
    """`tree` with copies in each iteration of the loops around bulk loops, as all threads wait in each. A guard says no
    more than where the tensor ends, and there zeros arrive, or where a narrowed loop did, and there nothing reads."""
    buffers = {b.name: b for b in tree.buffers}

    def change(value: object) -> object:
        if not isinstance(value, Loop) or value.kind != "bulk" or is_store(value, buffers):
            return value
        return replace(value, body=tuple(_whole(child) if isinstance(child, Stmt) else child for child in value.body))

    return replace(tree, body=rewrite_nodes(tree.body, change))


def _whole(stmt: Stmt) -> Stmt:
    load = stmt.value
    assert isinstance(load, Load), "the judge refuses this"
    return replace(stmt, guard=(), value=replace(load, fallback=Const(0, load.dtype))) if stmt.guard else stmt


def bulk_nests(body: tuple[Node, ...]) -> Iterator[Loop]:
    """The outermost bulk loops."""
    for node in body:
        if isinstance(node, Loop) and node.kind == "bulk":
            yield node
        elif isinstance(node, Loop):
            yield from bulk_nests(node.body)


def body_at(node: Node, path: Path) -> tuple[Node, ...]:
    """The body at `path`, which begins with the place of `node`."""
    body: tuple[Node, ...] = (node,)
    for place in path:
        inner = body[place]
        assert isinstance(inner, Loop)
        body = inner.body
    return body
