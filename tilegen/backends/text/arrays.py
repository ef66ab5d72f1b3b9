"""Arrays in C: their lengths, and which of them a launch writes."""

from __future__ import annotations

from tilegen.ir.affine import Affine, const
from tilegen.ir.hardware.memory import stored_extents
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import Buffer, Stmt, Tree
from tilegen.ir.walk import writes
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import VectorCopy, VectorStore
from tilegen.lowering.launch.timelines import STORES, Box, LookBack


def shared_extents(buffer: Buffer) -> list[int]:
    """The lengths of the array that holds a shared buffer, slowest dimension first, padding included."""
    assert all(buffer.shape[d].is_const for d in buffer.order), buffer.name
    return [extent.const for extent in scratch_extents(buffer)]


def scratch_extents(buffer: Buffer) -> tuple[Affine, ...]:
    """The lengths of the array that holds a buffer in global memory, slowest dimension first, padding included."""
    return stored_extents(buffer) or (const(1),)


def scratch_buffers(tree: Tree) -> tuple[Buffer, ...]:
    """What one launch writes and another one reads, in global memory: no tensor of a call."""
    given = {memory_of(t.name) for t in tree.kernel.tensors if t.role != "intermediate"}
    return tuple(b for b in tree.buffers if b.space == "global" and memory_of(b.name) not in given)


def register_extents(buffer: Buffer) -> list[int]:
    """The lengths of the array that holds a register buffer; none for a scalar."""
    assert all(extent.is_const for extent in buffer.shape), buffer.name
    return [extent.const for extent in buffer.shape]


def written_by(launch: Launch) -> frozenset[str]:
    """The buffers that the statements and bulk stores of `launch` write."""
    found: set[str] = set()
    for node in launch.nodes:
        match node:
            case Stmt():
                found |= {name for name, _ in writes(node)}
            case VectorStore(target=target) | VectorCopy(target=target):
                found.add(target.buffer)
            case LookBack(states=name):
                found.add(name)
            case Box(line, _, name) if line == STORES:
                found |= {each.buffer for each in launch.maps if each.name == name}
            case _:
                pass
    return frozenset(found)
