"""An instruction in place of the nest that it performs: each operand as one lane gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilegen.ir.affine import const, var
from tilegen.ir.facts.ranges import simplify
from tilegen.ir.hardware.descriptors import described_form
from tilegen.ir.hardware.instructions import Fragment, Layout, SharedMatrix
from tilegen.ir.hardware.lane_bits import point_of_lane
from tilegen.ir.hardware.matching import (
    inner_part,
    operand_accesses,
    operand_points,
    perfect_nest,
    rounded_operands,
    test_of,
    values_at,
)
from tilegen.ir.nodes import Access, Buffer, Loop, Performed
from tilegen.ir.walk import in_loops
from tilegen.lowering.launch.product_nodes import Described
from tilegen.lowering.launch.program import If, Perform, Spmd
from tilegen.lowering.threads.distribute import Block
from tilegen.lowering.threads.fragments import tests_within


def perform(nest: Loop, performed: Performed, block: Block, buffers: Mapping[str, Buffer]) -> tuple[Spmd, ...]:
    """The instruction, in a test of what is the same for all of its nest.

    `deal` has made sure that nobody uses what it computes where one of the other conditions does not hold.
    """
    found = perfect_nest(nest)
    assert found, f"{nest.name} has been performed by {performed.instruction.name}"
    loops, stmt = found
    accesses = operand_accesses(performed, stmt)
    assert accesses, f"{performed.instruction.name} computes what {stmt.name} does"
    (lane,) = (loop.name for loop in block.loops if loop.kind == "thread.x")
    extents = {loop.name: loop.extent.const for loop in loops}
    operands = tuple(
        _operand(buffers[access.buffer], layout, access, performed, extents, lane)
        for layout in performed.instruction.operands
        for access in (accesses[layout.operand.name],)
    )
    bare = in_loops(loops, replace(stmt, guard=()))
    assert isinstance(bare, Loop)
    done = Perform(operands, bare, rounded_operands(performed, stmt), test_of(performed, stmt))
    test = tuple(c for c in stmt.guard if c not in tests_within(loops, stmt))
    return (If(test, (done,)),) if test else (done,)


def _operand(
    buffer: Buffer, layout: Layout, access: Access, performed: Performed, extents: Mapping[str, int], lane: str
) -> Access | Described:
    """The first of a lane's registers, the row whose address the lane gives, or the matrix."""
    if isinstance(layout, SharedMatrix):
        points = operand_points(performed, layout.operand.name)
        first = tuple(i - inner_part(i, extents.keys()) for i in access.index)
        return Described(replace(access, index=first), described_form(buffer, access, layout, points, extents))
    if isinstance(layout, Fragment):
        first = tuple(i.substitute(dict.fromkeys(extents, const(0))) for i in access.index)
        return replace(access, index=(*first[:-2], var(lane), first[-1]))
    place = values_at(performed, extents, point_of_lane(layout, lane))
    known = {**extents, lane: layout.lanes}
    return replace(access, index=tuple(simplify(i.substitute(place), known) for i in access.index))
