"""Where the pointers to tiles are declared: in front of the first line that needs them, outside of all loops."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.backends.text.arrays import written_by
from tilegen.backends.text.tiles import tile_coordinates
from tilegen.backends.text.values.expr import Writer
from tilegen.ir.in_place import memory_of
from tilegen.ir.walk import accesses
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.lists import taken_together
from tilegen.lowering.launch.program import For, If, Spmd


def pointer_lines(launch: Launch, writer: Writer) -> dict[int, list[str]]:
    """The declarations in front of a node, by its id."""
    found: dict[int, list[str]] = {}
    dealt = {name for name, _ in tile_coordinates(launch, writer)}
    for (array, start), (buffer, name) in writer.pointers.names.items():
        walks = any(place.names() & dealt for place in start)
        for body in _tile_loops(launch.body) if walks else [launch.body]:
            if node := _first(body, name, writer):
                kind = f"{'' if memory_of(buffer) in written_by(launch) else 'const '}{writer.storage(buffer)}"
                line = f"{kind}* {name} = &{array}[{writer.offset(launch.buffers[buffer], start)}];"
                found.setdefault(id(node), []).append(line)
    return found


def _tile_loops(body: tuple[Spmd, ...]) -> Iterator[tuple[Spmd, ...]]:
    for node in body:
        match node:
            case For(kind="tiles"):
                yield node.body
            case For():
                yield from _tile_loops(node.body)
            case If():
                yield from _tile_loops((*node.body, *node.orelse))
            case _:
                pass


def _first(body: tuple[Spmd, ...], pointer: str, writer: Writer) -> Spmd | None:
    """The first node that needs the pointer, of the innermost list that all uses are in and that is in no loop."""
    users = [node for node in body if _uses(node, pointer, writer)]
    match users:
        case [If() as node] if not taken_together(node):
            branches = [branch for branch in (node.body, node.orelse) if any(_uses(n, pointer, writer) for n in branch)]
            return _first(branches[0], pointer, writer) if len(branches) == 1 else node
        case _:
            return users[0] if users else None


def _uses(node: Spmd, pointer: str, writer: Writer) -> bool:
    return any(writer.element(access.buffer, access.index).startswith(f"{pointer}[") for access in accesses(node))
