"""Registers start without a guard: what nobody reads can be written as well."""

from __future__ import annotations

from collections.abc import Iterable

from tilegen.ir.affine import var
from tilegen.ir.nodes import THREAD_KINDS, Buffer, Const, Loop, Node, Stmt
from tilegen.ir.walk import leaves, loops, reads, stmts, writes


def starts(node: Node, buffers: Iterable[Buffer]) -> frozenset[tuple[str, str]]:
    """(name, buffer) of the statements that give registers their first value, a constant.

    In each iteration of the buffer's scope such a statement comes before all other uses and touches each
    element once. Run without its guard, what it writes more lands in elements of undefined content.
    """
    found: set[tuple[str, str]] = set()
    for buffer in buffers:
        if buffer.space != "register" or buffer.scope is None:
            continue
        scopes = [loop for loop in loops(node) if loop.name == buffer.scope]
        first = [start for scope in scopes if (start := _start(scope, buffer.name))]
        names = {start.name for start in first}
        every = [s for s in stmts(node) if s.name in names and s.target.buffer == buffer.name]
        if len(names) == 1 and len(every) == len(first):
            found.add((names.pop(), buffer.name))
    return frozenset(found)


def _start(scope: Loop, buffer: str) -> Stmt | None:
    """The first statement in `scope` that uses `buffer`, if it can do without its guard."""
    for path, stmt in leaves(scope.body):
        if not any(name == buffer for name, _ in (*reads(stmt), *writes(stmt))):
            continue
        once = all(loop.kind in THREAD_KINDS or var(loop.name) in stmt.target.index for loop in path)
        whole = all(len(i.terms) <= 1 and not i.const for i in stmt.target.index)
        fits = stmt.target.buffer == buffer and isinstance(stmt.value, Const) and stmt.reduce is None
        return stmt if once and whole and fits else None
    return None
