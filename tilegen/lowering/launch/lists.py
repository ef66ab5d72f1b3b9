"""Lists whose hits in a loop take their places together: which loops find them, and which loops whole blocks run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from tilegen.ir.nodes import BLOCK_KINDS, Stmt
from tilegen.ir.parts.lists import takes_together
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import (
    For,
    If,
    Spmd,
    nodes,
)

SHARED_BYTES = 33 * 4  # of the first place of a block, and of how many hits each of its warps has
_WARP = 32


def taken_together(node: Spmd) -> tuple[For, Stmt] | None:
    """The loop and the list whose hits in it take their places at once; tests around may choose one of its versions."""
    match node:
        case If(body=(one,), orelse=(), roles=()):
            return taken_together(one)
        case If(body=(one,), orelse=(other,), roles=()):
            first, second = taken_together(one), taken_together(other)
            alike = first and second and (first[0].name, first[0].extent) == (second[0].name, second[0].extent)
            return first if first and second and alike and first[1] == second[1] else None
        case For(kind=kind) as loop if kind != "scatter" and takes_together(loop.extent):
            body = loop.body
            while len(body) == 1 and isinstance(body[0], If) and not body[0].orelse:
                body = body[0].body
            if len(body) != 1 or not isinstance(stmt := body[0], Stmt) or not stmt.atomic or not stmt.hits:
                return None
            counts_all = not any(loop.name in i.names() for i in stmt.target.index)
            return (loop, stmt) if stmt.hits.together and counts_all else None
        case _:
            return None


def by_whole_blocks(launch: Launch) -> frozenset[int]:
    """Which nodes, by their `id`, take the places of all hits of a block: all its threads run them, for one count."""
    if launch.threads % _WARP:
        return frozenset()
    blocks = frozenset(name for name, kind, _ in launch.coordinates if kind in BLOCK_KINDS)
    several = Counter(id(node) for node in nodes(launch.body))
    found = set()
    for node, alike in _met_by_all(launch.body, blocks.union(launch.kernel.sizes)):
        pair = taken_together(node)
        if pair and several[id(node)] == 1 and all(i.names() <= alike for i in pair[1].target.index):
            found.add(id(node))
    return frozenset(found)


def with_places(launch: Launch) -> Launch:
    """The launch with the shared memory in which blocks take places, which may stand in front of an aligned buffer."""
    if not by_whole_blocks(launch):
        return launch
    align = max((b.align for b in launch.buffers.values() if b.space == "shared"), default=4)
    return replace(launch, shared_bytes=launch.shared_bytes + -(-SHARED_BYTES // align) * align)


def _met_by_all(body: tuple[Spmd, ...], alike: frozenset[str]) -> Iterator[tuple[Spmd, frozenset[str]]]:
    """The nodes that all threads of a block run, and the names that are alike in these; none inside of a list's."""
    for node in body:
        yield node, alike
        match node:
            case _ if taken_together(node):
                pass
            case If(test=test, body=inner, orelse=other, roles=()) if all(c.value.names() <= alike for c in test):
                yield from _met_by_all((*inner, *other), alike)
            case For(kind=kind, extent=extent, ends=None) if kind != "scatter" and extent.names() <= alike:
                yield from _met_by_all(node.body, alike | {node.name})
