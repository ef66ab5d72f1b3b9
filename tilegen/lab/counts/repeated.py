"""Which loops repeat a load, and of which others a compiler keeps its value."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.ir.nodes import Stmt
from tilegen.ir.walk import walk
from tilegen.lowering.launch.program import For, Spmd, VectorCopy, VectorStore


def relevant_loops(loops: tuple[For, ...], spoken: frozenset[str], buffer: str) -> tuple[For, ...]:
    """The loops that repeat a load: its index or tests name them, they write the buffer, or such a loop is inside."""
    kept: list[For] = []
    repeats = False
    for loop in reversed(loops):
        if repeats or loop.name in spoken or _writes_to(loop, buffer):
            kept.insert(0, loop)
            repeats = repeats or loop.kind == "serial"
    return tuple(kept)


def _writes_to(loop: For, buffer: str) -> bool:
    return any(target == buffer for target in _written_buffers(loop.body))


def _written_buffers(body: tuple[Spmd, ...]) -> Iterator[str]:
    for node in walk(body):
        match node:
            case Stmt(target=target, best=best):
                yield target.buffer
                if best:
                    yield best.buffer
            case VectorStore(target=target) | VectorCopy(target=target):
                yield target.buffer
            case _:
                pass
