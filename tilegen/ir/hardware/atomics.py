"""Updates of memory that are one access each: parallel iterations can make theirs to one element, in any order."""

from __future__ import annotations

from tilegen.ir.nodes import Buffer, Stmt
from tilegen.ir.walk import loads

# What a GPU has an instruction for: the reduction and the type of its element.
NATIVE = frozenset(
    (("sum", "f32"), ("sum", "f64"), ("sum", "i32"), ("max", "i32"), ("min", "i32"), ("unordered_list", "i32"))
)

# Neighbours that one access updates: the reduction, the type, how many.
WIDE = frozenset((("sum", "f32", 2), ("sum", "f32", 4)))


def are_updates_of_one(one: Stmt, two: Stmt, buffer: Buffer) -> bool:
    """True if the two do nothing in `buffer` but make atomic updates of one reduction."""
    return one.name == two.name and all(_updates(stmt, buffer) for stmt in (one, two))


def _updates(stmt: Stmt, buffer: Buffer) -> bool:
    if stmt.hits and stmt.hits.access.buffer == buffer.name:
        return stmt.atomic  # each at a place that the count has given to it alone
    if not stmt.atomic or stmt.target.buffer != buffer.name or (stmt.reduce, buffer.dtype) not in NATIVE:
        return False
    return all(load.buffer != buffer.name for load in loads(stmt))
