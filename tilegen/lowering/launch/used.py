"""What the program of a launch speaks of: its buffers within the limits of a block, and its sizes."""

from __future__ import annotations

from tilegen.errors import LimitError
from tilegen.ir.hardware.limits import SHARED_LIMIT
from tilegen.ir.hardware.memory import bytes_of, shared_layout, stored_extents
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import BLOCK_KINDS, Buffer, Tree
from tilegen.ir.walk import accesses, gathers, walk
from tilegen.lowering.launch.coordinates import Coordinates
from tilegen.lowering.launch.program import Declare, Spmd, names_in, nodes
from tilegen.lowering.launch.timelines import Box


def used_buffers(
    body: tuple[Spmd, ...], buffers: tuple[Buffer, ...], variables: frozenset[str], limit: int
) -> tuple[dict[str, Buffer], int]:
    """The buffers that the program speaks of, and the bytes of the shared ones."""
    used = {access.buffer for access in accesses(body)} | {v.buffer for v in nodes(body) if isinstance(v, Declare)}
    used |= variables | {v.buffer for v in gathers(body)}
    used |= set(map(memory_of, used))
    found = {b.name: b for b in buffers if b.name in used}
    shared = shared_layout(found.values())[1]
    if shared > SHARED_LIMIT:
        message = f"a block needs {shared} bytes of shared memory, and a GPU has {SHARED_LIMIT} at most"
        raise _too_much(message, found, "shared")
    private = sum(bytes_of(b) for b in found.values() if b.space == "register")
    if private > limit:
        message = f"a thread needs {private} bytes in registers, and {limit} are the most; a GPU has 1020"
        raise _too_much(message, found, "register")
    return found, shared


def used_sizes(tree: Tree, body: tuple[Spmd, ...], buffers: dict[str, Buffer], where: Coordinates) -> tuple[str, ...]:
    """The sizes that the program speaks of: in extents, tests and values, in the pitches of tensors, in coordinates."""
    pitches = [extent for b in buffers.values() if b.space == "global" for extent in stored_extents(b)[1:]]
    pitches += [extent for b in buffers.values() if b.windows for extent in buffers[b.windows.tensor].shape]
    seen = (b.windows for b in (*buffers.values(), *nodes(body)) if isinstance(b, Box | Buffer) and b.windows)
    pitches += [extent for windows in seen for group in windows.digits for _, extent in group[1:]]
    tested = [buffers[v.buffer].shape[d] for v in gathers(body) for d in v.tested]
    used = names_in((*walk(body), *pitches, *tested))
    for kind, blocks in zip(BLOCK_KINDS, where.grid, strict=True):
        sharing = [name for name, each, _ in where.names if each == kind] if len(blocks.factors) > 1 else []
        for position in (n for n, name in enumerate(sharing) if name in used):
            by, of = blocks.digit(position)
            used |= names_in((*by, of))
    return tuple(size for size in tree.kernel.sizes if size in used)


def _too_much(what: str, buffers: dict[str, Buffer], space: str) -> LimitError:
    largest = max((b for b in buffers.values() if b.space == space), key=bytes_of)
    part = f"the largest part is {largest.name} with {bytes_of(largest)} bytes; "
    way = "make its tile smaller" if space == "shared" else "make its tile smaller, or keep it in shared memory"
    return LimitError(what, largest.span, notes=(part + way,))
