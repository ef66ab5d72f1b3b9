"""An instruction in place of the nest that it performs: each operand as one lane gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilegen.ir.affine import const, var
from tilegen.ir.instructions import Fragment, SharedRows
from tilegen.ir.lane_bits import point_of_lane
from tilegen.ir.lanes import WARP
from tilegen.ir.matching import operand_accesses, perfect_nest, rounded_operands, values_at
from tilegen.ir.nodes import Access, Loop, Performed
from tilegen.ir.ranges import simplify
from tilegen.lowering.distribute import Block
from tilegen.lowering.fragments import tests_within
from tilegen.lowering.program import If, Perform, Spmd


def perform(nest: Loop, performed: Performed, block: Block) -> tuple[Spmd, ...]:
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
        _operand(layout, accesses[layout.operand.name], performed, extents, lane)
        for layout in performed.instruction.operands
    )
    bare = replace(loops[-1], body=(replace(stmt, guard=()),))
    for loop in reversed(loops[:-1]):
        bare = replace(loop, body=(bare,))
    done = Perform(operands, bare, rounded_operands(performed, stmt))
    test = tuple(c for c in stmt.guard if c not in tests_within(loops, stmt))
    return (If(test, (done,)),) if test else (done,)


def _operand(
    layout: Fragment | SharedRows, access: Access, performed: Performed, extents: Mapping[str, int], lane: str
) -> Access:
    """The first of a lane's registers, or the row whose address the lane gives."""
    if isinstance(layout, Fragment):
        first = tuple(i.substitute(dict.fromkeys(extents, const(0))) for i in access.index)
        return replace(access, index=(*first[:-2], var(lane), first[-1]))
    place = values_at(performed, extents, point_of_lane(layout, lane))
    known = {**extents, lane: WARP}
    return replace(access, index=tuple(simplify(i.substitute(place), known) for i in access.index))
