"""Which shared buffers instructions read by descriptor, and where these begin."""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.hardware.descriptors import ROWS, piece_of
from tilegen.ir.hardware.instructions import SharedMatrix
from tilegen.ir.hardware.matching import operand_accesses, perfect_nest
from tilegen.ir.nodes import Node, Tree
from tilegen.ir.walk import loops


def described_buffers(node: Node) -> frozenset[str]:
    """The shared buffers in `node` that instructions read by descriptor."""
    found: set[str] = set()
    for loop in loops(node):
        nest = perfect_nest(loop) if loop.performed else None
        operands = operand_accesses(loop.performed, nest[1]) if loop.performed and nest else None
        for layout in loop.performed.instruction.operands if loop.performed and operands else ():
            if isinstance(layout, SharedMatrix) and operands:
                found.add(operands[layout.operand.name].buffer)
    return frozenset(found)


def align_described(tree: Tree) -> Tree:
    """`tree` with what is read by descriptor at multiples of the bytes that the hardware swizzles alike."""
    found = frozenset().union(*map(described_buffers, tree.body))
    buffers = (replace(b, align=ROWS * piece_of(b)) if b.name in found else b for b in tree.buffers)
    return replace(tree, buffers=tuple(buffers))
