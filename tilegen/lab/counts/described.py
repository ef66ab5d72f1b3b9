"""What an instruction reads of shared memory by descriptor, in pieces of 16 bytes."""

from __future__ import annotations

from math import prod

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.hardware.instructions import ROW_BYTES, Layout, SharedMatrix
from tilegen.ir.hardware.matching import inner_part, operand_accesses, perfect_nest, values_at
from tilegen.ir.nodes import DTYPE_BYTES, Condition, Loop
from tilegen.lowering.launch.product_nodes import Described
from tilegen.lowering.launch.program import For


def matrix_rows(origin: Loop, layout: Layout, given: Described, lane: str) -> tuple[For, tuple[Affine, ...], Condition]:
    """(loop, index, test) of the pieces of a matrix, as if each lane where the test holds asked for one in every
    iteration: eight rows one after the other, and then the next 16 bytes of all rows."""
    performed, nest = origin.performed, perfect_nest(origin)
    assert isinstance(layout, SharedMatrix)
    assert performed is not None
    assert nest is not None
    operands = operand_accesses(performed, nest[1])
    assert operands is not None
    extents = {loop.name: loop.extent.const for loop in nest[0]}
    width, along = ROW_BYTES // DTYPE_BYTES[layout.operand.dtype], layout.indices.index(layout.along)
    pieces, lanes, rows = prod(layout.shape) // width, performed.instruction.lanes, layout.shape[1 - along]
    each = For(f"{layout.operand.name}.rows", const(-(-pieces // lanes)), ())
    number = var(lane) + var(each.name) * lanes
    point = {layout.indices[along]: number // rows * width, layout.indices[1 - along]: number % rows}
    values = values_at(performed, extents, point)
    inner = (inner_part(i, extents.keys()).substitute(values) for i in operands[layout.operand.name].index)
    index = tuple(start + inside for start, inside in zip(given.start.index, inner, strict=True))
    return each, index, Condition(const(pieces - 1) - number)
