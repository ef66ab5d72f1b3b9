"""Registers start without a guard: what nobody reads can be written as well."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tilegen.ir.affine import var
from tilegen.ir.nodes import THREAD_KINDS, Buffer, Const, Loop, Node, Stmt
from tilegen.ir.walk import leaves, reads, rewrite, writes


def unguarded_starts(node: Node, buffers: Iterable[Buffer]) -> Node:
    """`node` without the guards of statements that give registers their first value, a constant.

    In each iteration of the buffer's scope the statement comes before all other uses and touches each
    element once, so what it writes more than before lands in elements whose content is undefined.
    """
    for buffer in buffers:
        if buffer.space == "register" and buffer.scope is not None:
            node = _started(node, buffer)
    return node


def _started(node: Node, buffer: Buffer) -> Node:
    def change(value: Any) -> Any:
        if not isinstance(value, Loop) or value.name != buffer.scope:
            return value
        start = _start(value, buffer.name)
        if start is None:
            return value
        return replace(value, body=rewrite(value.body, lambda v: replace(v, guard=()) if v is start else v))

    new: Node = rewrite(node, change)
    return new


def _start(scope: Loop, buffer: str) -> Stmt | None:
    """The first statement in `scope` that uses `buffer`, if it can do without its guard."""
    for path, stmt in leaves(scope.body):
        if not any(name == buffer for name, _ in (*reads(stmt), *writes(stmt))):
            continue
        once = all(loop.kind in THREAD_KINDS or var(loop.name) in stmt.target.index for loop in path)
        whole = all(len(i.terms) <= 1 and not i.const for i in stmt.target.index)
        fits = stmt.target.buffer == buffer and isinstance(stmt.value, Const) and stmt.reduce is None
        return stmt if stmt.guard and once and whole and fits else None
    return None
