"""What lists store of their hits, as if all lanes had one: those of the lanes of a warp lie side by side."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Stmt
from tilegen.lowering.launch.launch import Launch


def stored_hits(stmt: Stmt, launch: Launch) -> Iterator[Access]:
    """The stores of the statement's hits, one for each part of a hit; none where it is no list."""
    if stmt.hits is None:
        return
    hits = stmt.hits
    lane = next((var(name) for name, kind, _ in launch.coordinates if kind == "thread.x"), const(0))
    index = tuple(lane if d == hits.place else i for d, i in enumerate(hits.access.index))
    for number in range(len(hits.items)):
        yield Access(hits.access.buffer, (*index[:-1], const(number)) if len(hits.items) > 1 else index)
