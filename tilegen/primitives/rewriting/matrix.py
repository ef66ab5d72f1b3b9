"""Nests that an instruction computes, and the buffers that become fragments of its operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, var
from tilegen.ir.hardware.instructions import Fragment, Instruction
from tilegen.ir.hardware.lane_bits import NotDealt, fragment_of_lanes, lane_bits
from tilegen.ir.hardware.matching import along_rows, operand_accesses, perfect_nest
from tilegen.ir.nodes import Access, Buffer, Loop, Performed, Stmt, Tensor, Tree
from tilegen.ir.printing.show import show_stmt
from tilegen.ir.walk import accesses, constant_extents, leaves, loads, loops
from tilegen.primitives import LoopName


def operands_of(loop: Loop, performed: Performed) -> Mapping[str, Access] | None:
    """The operands of the instruction, if it computes the nest of `loop`, and the nest has the loops of its indices."""
    found = perfect_nest(loop)
    if found is None or {each.name for each in found[0]} != {n for i in performed.indices for n in i.names()}:
        return None
    return operand_accesses(performed, found[1])


def rows_fit(tree: Tree, performed: Performed) -> bool:
    """True if the rows of operands in shared memory run along the same indices as those of the instruction."""
    order = {buffer.name: buffer.order for buffer in tree.buffers}
    return all(
        along_rows(performed, layout).names() <= operand.index[order[operand.buffer][-1]].names()
        for loop in loops(tree.body)
        if (operands := operands_of(loop, performed)) is not None
        for layout in performed.instruction.operands
        if not isinstance(layout, Fragment) and (operand := operands[layout.operand.name])
    )


def no_nest_error(tree: Tree, names: tuple[LoopName, ...], instruction: Instruction) -> StepError:
    """What the loops compute instead."""
    meaning = instruction.equation.span.text if instruction.equation.span else instruction.name
    for loop in loops(tree.body):
        found = perfect_nest(loop)
        if found and sorted(each.name for each in found[0]) == sorted(names):
            stmt = replace(found[1], guard=())
            message = f"'{instruction.name}' computes {meaning}, and the loops compute {show_stmt(stmt)}"
            return StepError(message, notes=_ways_to_fit(tree, stmt, instruction))
    notes = ("order(...) puts them innermost; cache_register gives operands of the product nests of their own",)
    return StepError(f"no statement stands in the loops {', '.join(names)} alone", notes=notes)


def with_derived_fragments(tree: Tree) -> Tree:
    """`tree` with each register buffer in fragments that is computed from such, element by element or in each lane."""
    held = {b.name: b for b in tree.buffers if b.space == "register"}
    extents = constant_extents(tree.body)
    pending = [stmt for _, stmt in leaves(tree.body)]
    changed = True
    while changed:
        changed = False
        for stmt in pending:
            for access in (stmt.target, stmt.best) if stmt.best else (stmt.target,):
                target = held.get(access.buffer)
                if target is None or target.fragment is not None:
                    continue
                sources = [load for load in loads(stmt.value) if load.buffer in held and held[load.buffer].fragment]
                made = (_derived(target, access, held[load.buffer], load.index, extents) for load in sources)
                found = next(filter(None, made), None)
                if found is not None:
                    held[target.name] = found
                    changed = True
    return replace(tree, buffers=tuple(held.get(b.name, b) for b in tree.buffers))


def _derived(
    target: Buffer, access: Access, source: Buffer, index: tuple[Affine, ...], extents: Mapping[str, int]
) -> Buffer | None:
    """`target` in the layout of the fragments that it is computed from, or of what each lane makes of its own."""
    places = [index[d] for d in source.fragment_dims]
    dims = tuple(next((d for d, i in enumerate(access.index) if i == p), -1) for p in places)
    if -1 not in dims:
        return replace(target, fragment=source.fragment, fragment_dims=dims)
    try:
        layouts = lane_bits(source, index, extents)
    except NotDealt:
        return None
    loops_of = {d: name for d, i in enumerate(access.index) for name in layouts if i == var(name)}
    dims = tuple(loops_of)
    if any(name not in loops_of.values() for name, bits in layouts.items() if any(b is not None for b in bits)):
        return None  # lanes have terms of one element: no one of them has the result
    assert source.fragment
    tensor = Tensor(
        target.name, target.dtype, tuple(target.shape[d] for d in dims), "intermediate", (*range(len(dims)),)
    )
    layout = fragment_of_lanes(tensor, [layouts[name] for name in loops_of.values()], source.fragment.lanes)
    return replace(target, fragment=layout, fragment_dims=dims)


def _ways_to_fit(tree: Tree, stmt: Stmt, instruction: Instruction) -> tuple[str, ...]:
    """What to change so that a statement is the instruction's equation."""
    held = {b.name: b for b in tree.buffers}
    beyond = [load.buffer for load in loads(stmt) if held[load.buffer].space == "global"]
    if beyond:
        step = "cache_shared" if instruction.is_copy else "cache_register"
        return (f"'{beyond[0]}' is in global memory; {step}({beyond[0]}, at=...) puts its tiles where operands lie",)
    wanted = sorted(layout.operand.dtype for layout in instruction.operands)
    given = sorted(held[name].dtype for name in {access.buffer for access in accesses(stmt)})
    if wanted != given:
        typed = ", ".join(f"{layout.operand.name}: {layout.operand.dtype}" for layout in instruction.operands)
        return (f"the operands are {typed}; `tilegen help` lists instructions for other types",)
    return ("the kernel has to say it operation by operation: the same casts, the same product, a sum",)


def in_fragments(buffer: Buffer, access: Access, layout: Fragment, points: tuple[Affine, ...]) -> Buffer:
    """`buffer` in fragments of the layout: those of its dimensions that are the operand's indices."""
    name = layout.operand.name
    if buffer.space != "register":
        where = "in shared memory" if buffer.space == "shared" else "in global memory"
        notes = (f"cache_register({buffer.name}, at=...) puts it there",)
        raise StepError(f"the operand {name} lies in registers, and '{buffer.name}' is {where}", notes=notes)
    dims = tuple(next((d for d, i in enumerate(access.index) if i == point), -1) for point in points)
    if -1 in dims:
        place = points[dims.index(-1)]
        if len(place.terms) > 1:
            ways = ["tensorize the product before the copies that fill its operands"]
        else:
            tiled = f"tile the loops first: then '{buffer.name}' has a dimension for each of them"
            ways = [tiled, f"values computed there go through shared memory: cache_shared({buffer.copy_of}, at=...)"]
        raise StepError(
            f"no index of '{buffer.name}' is {place}, which is an index of the operand {name}", notes=tuple(ways)
        )
    return replace(buffer, fragment=layout, fragment_dims=dims)
