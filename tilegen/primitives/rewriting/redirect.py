"""Redirecting the accesses to a buffer to a copy of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilegen.ir.nodes import Access, Buffer, Load, Loop, Node, Stmt, Tree
from tilegen.ir.walk import rewrite_accesses, rewrite_nodes, stmts
from tilegen.primitives.rewriting.region import Point, Region, is_meant, uses_in
from tilegen.primitives.rewriting.terms_alone import sent_to_copy
from tilegen.primitives.rewriting.tree import change_loops


def redirect(
    body: tuple[Node, ...],
    old: Buffer,
    new: str,
    index: Callable[[Point], Point],
    using: frozenset[str] = frozenset(),
    *,
    beyond: bool = False,
) -> tuple[Node, ...]:
    """`body` with every access to `old` redirected to `new`, at the place `index(point)`.

    A copy statement that accessed the tensor itself records the element that it copies.

    Args:
        beyond: what copies read may be beyond `new`, too. Else `new` has what they give there.
    """

    def send(stmt: Stmt) -> Stmt:
        met: list[Point] = []

        def change(access: Access | Load) -> Access | Load:
            if access.buffer != old.name or not is_meant(access.index, using):
                return access
            met.append(access.index)
            if isinstance(access, Load):
                fallback = access.fallback if beyond and stmt.is_copy else None
                return replace(access, buffer=new, index=index(access.index), fallback=fallback)
            return Access(new, index(access.index))

        sent = rewrite_accesses(stmt, change)
        return replace(sent_to_copy(sent), element=met[0]) if met and stmt.is_copy and old.role != "copy" else sent

    return rewrite_nodes(body, lambda node: send(node) if isinstance(node, Stmt) else node)


def with_copies(
    tree: Tree,
    region: Region,
    copy: Buffer,
    index: Callable[[Point], Point],
    before: tuple[Node, ...],
    after: tuple[Node, ...],
) -> Tree:
    """The tree with the region redirected to `copy`, `before` before its first use, `after` after its last."""
    old = region.buffer.name

    def change(loop: Loop) -> Loop:
        places = [n for n, child in enumerate(loop.body) if uses_in((child,), old, region.using)]
        if not places:
            return loop
        body = redirect(loop.body, region.buffer, copy.name, index, region.using)
        first, last = places[0], places[-1] + 1
        return replace(loop, body=(*body[:first], *before, *body[first:last], *after, *body[last:]))

    kept = tuple(b for b in tree.buffers if not (region.moves and b.name == old))
    return reparent(change_loops(replace(tree, buffers=(*kept, copy)), region.at, change), old, copy.name)


def reparent(tree: Tree, old: str, new: str) -> Tree:
    """The tree where copies of `old` that are filled from `new` now, and from nowhere else, are copies of `new`."""
    met: dict[str, set[str]] = {}
    for stmt in stmts(tree.body):
        if stmt.is_copy and isinstance(stmt.value, Load):
            met.setdefault(stmt.target.buffer, set()).add(stmt.value.buffer)
            met.setdefault(stmt.value.buffer, set()).add(stmt.target.buffer)

    def change(buffer: Buffer) -> Buffer:
        others = met.get(buffer.name, set())
        moved = buffer.copy_of == old and buffer.name != new and new in others and old not in others
        return replace(buffer, copy_of=new) if moved else buffer

    return replace(tree, buffers=tuple(change(b) for b in tree.buffers))
