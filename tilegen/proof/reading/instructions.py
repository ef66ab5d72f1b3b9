"""Instructions read back: the nest that each is, from its declaration and the operands that it is given.

    mma(C_reg[f], A_reg, B_reg)      for i < 16, j < 8, k < 16
                                       C_reg[f, <i%8*4 + j/2>, i/8*2 + j%2] += A_reg[<...>, ...] * B_reg[<...>, ...]

All lanes of the warp run it, and each has registers of its own: in front of the register stands the lane that has it.
What the nest is in the kernel, its instance, is what lowering says; the proof asks whether that is so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilegen.ir.affine import Affine, affine, const
from tilegen.ir.facts.ranges import simplify
from tilegen.ir.facts.row_digits import digits_of_row
from tilegen.ir.hardware.descriptors import ROWS, NotDescribed, described_form, start_fault
from tilegen.ir.hardware.instructions import Fragment, SharedMatrix, SharedRows
from tilegen.ir.hardware.matching import (
    inner_part,
    operand_accesses,
    operand_points,
    perfect_nest,
    rounded_operands,
    test_of,
    with_operands,
)
from tilegen.ir.hardware.memory import row_of
from tilegen.ir.nodes import DTYPE_BYTES, Access, Buffer, Condition, Const, Expr, Op
from tilegen.ir.walk import walk
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.product_nodes import Described
from tilegen.lowering.launch.program import (
    For,
    If,
    Perform,
    Spmd,
    nodes,
    with_lists,
)
from tilegen.lowering.launch.timelines import Await, Fence, Timeline, products
from tilegen.poly import Facts, Refused
from tilegen.proof.reading.on_timelines import EVENTS, Does, OnTimeline, started


def expand_instructions(body: tuple[Spmd, ...], launch: Launch) -> tuple[Spmd, ...]:
    """`body` with the nest of each instruction in place of it, in loops of the kind "matrix".

    Raises:
        Refused: an instruction of a warp in a block whose threads along x are no warp, or under a test that its lanes
            may decide differently, or an operand that does not have the places of the declaration.
    """
    out: list[Spmd] = []
    lanes = {name for name, kind, _ in launch.coordinates if kind == "thread.x"}
    for node in body:
        match node:
            case Perform():
                out.append(_expand(node, launch))
            case Fence(line, buffers):
                out += (_of_register(name, "fence", line) for name in buffers or ("",))
            case Await(line, buffers=buffers) if line.in_registers:
                out += (_of_register(name, "wait", line, node.left) for name in buffers or ("",))
                out += (_of_register(name, "fence", line) for name in buffers)  # who waits holds, too
            case For() | If():
                _check_together(node, lanes)
                out.append(with_lists(node, lambda body: expand_instructions(body, launch)))
            case _:
                out.append(node)
    return tuple(out)


def _of_register(name: str, what: Does, line: Timeline, left: int = 0) -> OnTimeline:
    return OnTimeline(name, Access(EVENTS.name, ()), Const(0, "i64"), does=what, line=line, left=left)


def _check_together(node: For | If, lanes: set[str]) -> None:
    """Refused where lanes may come to an instruction inside of `node` without the others."""
    alone = not node.decided_by.isdisjoint(lanes)
    inside = next((v for v in nodes((node,)) if isinstance(v, Perform)), None) if alone else None
    if inside:
        raise Refused(f"'{inside.instruction.name}' is run by a warp, and its lanes come to it one without the other")


def _tells_lanes_apart(test: Expr | None, launch: Launch) -> bool:
    """True if a test speaks of the place of a lane, so that some lanes of a warp may run what others do not."""
    lanes = {name for name, kind, _ in launch.coordinates if kind == "thread.x"}
    return any(isinstance(v, Affine) and not lanes.isdisjoint(v.names()) for v in walk(test))


def _expand(node: Perform, launch: Launch) -> Spmd:
    instruction, found = node.instruction, perfect_nest(node.origin)
    if launch.block[0] != instruction.lanes:
        unit = instruction.unit
        raise Refused(f"'{instruction.name}' is run by a {unit}, and {launch.block[0]} threads are along x")
    performed = node.origin.performed
    assert performed
    operands = operand_accesses(performed, found[1]) if found else None
    if found is None or operands is None or len(node.operands) != len(instruction.operands):
        raise Refused(f"it is not known what '{instruction.name}' computes where it stands")
    loops, stmt = found
    if node.rounded != rounded_operands(performed, stmt):
        raise Refused(f"'{instruction.name}' is given other operands rounded than the nest has")
    if (node.where is None) != (test_of(performed, stmt) is None) or _tells_lanes_apart(node.where, launch):
        raise Refused(f"'{instruction.name}' is run where another test holds than the nest has, or one of its lanes")
    extents = {loop.name: loop.extent.const for loop in loops}
    places: dict[str, Access] = {}
    for layout, access in zip(instruction.operands, node.operands, strict=True):
        points = operand_points(performed, layout.operand.name)
        values = dict(zip(layout.indices, points, strict=True))
        buffer = launch.buffers[access.buffer]
        if buffer.dtype != layout.operand.dtype:
            raise Refused(f"the operand {layout.operand.name} of '{instruction.name}' is no {buffer.dtype}")
        match layout, access:
            case Fragment(), Access():
                index = _register_index(buffer, access, layout, values, extents)
            case SharedRows(), Access():
                index = _row_index(launch, buffer, access, layout, values, extents)
            case SharedMatrix(), Described():
                read = operands[layout.operand.name]
                index = _described_index(buffer, access, read, layout, points, extents)
            case _:
                raise Refused(f"the operand {layout.operand.name} of '{instruction.name}' is given in another way")
        places[layout.operand.name] = Access(access.buffer, index)
    if instruction.protocol and node.rounded:
        raise Refused(f"'{instruction.name}' reads rounded values that are kept in no registers until it ends")
    new = replace(with_operands(performed, stmt, places), guard=())
    if node.where is not None:
        new = replace(new, value=Op("select", (node.where, new.value, Const(0, new.value.dtype)), new.value.dtype))
    nest: Spmd = started(new, products(instruction.protocol)) if instruction.protocol else new
    for loop in reversed(loops):
        nest = For(loop.name, loop.extent, (nest,), "matrix")
    return nest


def _register_index(
    buffer: Buffer, access: Access, layout: Fragment, values: Mapping[str, Affine], extents: Mapping[str, int]
) -> tuple[Affine, ...]:
    """Where an operand's element lies: in front of the last number, that of the register, the lane that has it."""
    if buffer.space != "register" or not access.index:
        raise Refused(f"the operand {layout.operand.name} lies in registers, and '{buffer.name}' is no array of these")
    lane, register = (simplify(each.substitute(values), extents) for each in (layout.lane, layout.within))
    *outer, first = access.index
    count = buffer.shape[-1].const
    if layout.elements_of_a_lane > count and outer:  # several fragments side by side
        outer[-1] += simplify((first + register) // count, extents)
        return (*outer, lane, simplify((first + register) % count, extents))
    return (*outer, lane, first + register)


def _row_index(
    launch: Launch,
    buffer: Buffer,
    access: Access,
    layout: SharedRows,
    values: Mapping[str, Affine],
    extents: Mapping[str, int],
) -> tuple[Affine, ...]:
    """Where an operand's element lies: its lane gives the address of the row, and it is so far after that."""
    if buffer.space != "shared":
        raise Refused(f"the operand {layout.operand.name} lies in shared memory, and '{buffer.name}' does not")
    lane, element = (simplify(each.substitute(values), extents) for each in (layout.lane, layout.within))
    lanes = {name: lane for name, kind, _ in launch.coordinates if kind == "thread.x"}
    index = [i.substitute(lanes) for i in access.index]
    for dim, (weight, count) in digits_of_row(buffer, layout.elements_of_a_row).items():
        index[dim] += element // weight % count
    return tuple(simplify(i, extents) for i in index)


def _described_index(
    buffer: Buffer,
    given: Described,
    read: Access,
    layout: SharedMatrix,
    points: tuple[Affine, ...],
    extents: Mapping[str, int],
) -> tuple[Affine, ...]:
    """Where an operand's element lies: what the nest reads, counted from the start that is given, if the hardware
    looks for it there."""
    name = layout.operand.name
    if buffer.space != "shared":
        raise Refused(f"the operand {name} lies in shared memory, and '{buffer.name}' does not")
    if given.buffer != read.buffer:
        raise Refused(f"the operand {name} lies in '{read.buffer}', and the descriptor is of '{given.buffer}'")
    try:
        form = described_form(buffer, read, layout, points, extents)
    except NotDescribed as reason:
        raise Refused(reason.sentence, reason.witness) from None
    if form != given.form:
        raise Refused(f"the descriptor of '{buffer.name}' as the operand {name} is {given.form}, and it lies in {form}")
    if fault := start_fault(buffer, given.start.index):
        raise Refused(f"no descriptor tells of '{buffer.name}' as the operand {name}", fault)
    if buffer.align % (ROWS * form.piece):
        raise Refused(f"'{buffer.name}' begins at no multiple of {ROWS * form.piece} bytes, by which it is swizzled")
    inner = (inner_part(index, extents.keys()) for index in read.index)
    return tuple(start + inside for start, inside in zip(given.start.index, inner, strict=True))


def check_rows(launch: Launch, facts: Facts, extents: Mapping[str, Affine]) -> int:
    """How many operands are in shared memory. Raises Refused where a row is not at a multiple of its bytes."""
    found = [
        (access, layout)
        for node in launch.performs
        for access, layout in zip(node.operands, node.instruction.operands, strict=True)
        if isinstance(layout, SharedRows) and isinstance(access, Access)
    ]
    for access, layout in found:
        buffer, width = launch.buffers[access.buffer], layout.elements_of_a_row
        if buffer.swizzle and not buffer.swizzle.keeps(width):
            raise Refused(f"a row of {width} elements of '{buffer.name}' is divided by its swizzle")
        digits = digits_of_row(buffer, width)
        *_, (last, (weight, _)) = digits.items()
        row = row_of(buffer) if weight == 1 else buffer.shape[last] * weight
        starts = [(access.index[dim], extent) for dim, (_, extent) in digits.items()]
        for value, by in ((row, width), *starts):
            off = affine(value) % by
            if off != const(0) and not facts.is_implied(Condition(off, equal=True), extents, launch.requires):
                raise Refused(
                    f"a row of '{buffer.name}' is not at a multiple of {width * DTYPE_BYTES[buffer.dtype]} bytes",
                    f"it begins at {value}",
                )
    return len(found)
