"""Instructions that run on while their lanes go on: issued one after the other, and waited for before anybody looks.

    begin wgmma
    for fk < 4
      wgmma(C, A[.. fk ..], B[.. fk ..])
    complete wgmma: C

Between the two stand such instructions alone, so that their order is all that they depend on. They read shared memory
by a way of their own: what threads have written reaches it by a fence, ahead of the barrier.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from typing import TypeVar

from tilegen.ir.descriptors import ROWS, piece_of
from tilegen.ir.instructions import SharedMatrix
from tilegen.ir.matching import operand_accesses, perfect_nest
from tilegen.ir.nodes import Node, Tree
from tilegen.ir.walk import loops, stmts
from tilegen.lowering.product_nodes import Begin, Complete
from tilegen.lowering.program import Barrier, For, If, Perform, Spmd, nodes, with_body

Slot = TypeVar("Slot")


def complete_batches(body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
    """`body` with a begin before each run of asynchronous instructions of one protocol, and the wait behind it."""
    out: list[Spmd] = []
    for protocol, run in groupby(body, key=_protocol_of):
        batch = tuple(run)
        if protocol:
            results = {stmt.target.buffer for v in nodes(batch) if isinstance(v, Perform) for stmt in stmts(v.origin)}
            out += (Begin(protocol), *batch, Complete(protocol, tuple(sorted(results))))
        else:
            out += map(_complete_inside, batch)
    return tuple(out)


def _protocol_of(node: Spmd) -> str:
    """The protocol of the instructions in `node`, if it holds nothing else."""
    inside = [v for v in nodes((node,)) if not isinstance(v, For | If)]
    protocols = {v.instruction.protocol if isinstance(v, Perform) else "" for v in inside}
    return protocols.pop() if len(protocols) == 1 else ""


def _complete_inside(node: Spmd) -> Spmd:
    match node:
        case For():
            return with_body(node, complete_batches(node.body))
        case If():
            return with_body(node, complete_batches(node.body), complete_batches(node.orelse))
        case _:
            return node


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


def with_fences(slots: Mapping[Slot, Barrier], node: Node, stored: frozenset[str]) -> dict[Slot, Barrier]:
    """The barriers, those with a fence that make a buffer complete which is read by descriptor in `node`, or one of
    those that bulk stores read."""
    described = described_buffers(node) | stored
    return {key: replace(b, fence=not described.isdisjoint(b.completes)) for key, b in slots.items()}
