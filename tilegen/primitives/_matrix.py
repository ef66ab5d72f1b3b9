"""Nests that an instruction computes, and the buffers that become fragments of its operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import Affine
from tilegen.ir.instructions import Fragment, Instruction
from tilegen.ir.matching import operand_accesses, perfect_nest
from tilegen.ir.nodes import Access, Buffer, Loop, Performed, Stmt, Tree
from tilegen.ir.show import show_stmt
from tilegen.ir.walk import accesses, leaves, loads, loops
from tilegen.primitives import LoopName


def operands_of(loop: Loop, performed: Performed) -> Mapping[str, Access] | None:
    """The operands of the instruction, if it computes the nest of `loop`, and the nest has the loops of its indices."""
    found = perfect_nest(loop)
    if found is None or {each.name for each in found[0]} != {n for i in performed.indices for n in i.names()}:
        return None
    return operand_accesses(performed, found[1])


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
    """`tree` with each register buffer in fragments that is computed from such, element by element."""
    held = {b.name: b for b in tree.buffers if b.space == "register"}
    pending = [stmt for _, stmt in leaves(tree.body) if stmt.target.buffer in held]
    changed = True
    while changed:
        changed = False
        for stmt in pending:
            target = held[stmt.target.buffer]
            for load in loads(stmt.value) if target.fragment is None else ():
                source = held.get(load.buffer)
                if source is None or source.fragment is None:
                    continue
                places = [load.index[d] for d in source.fragment_dims]
                dims = tuple(next((d for d, i in enumerate(stmt.target.index) if i == p), -1) for p in places)
                if -1 not in dims:
                    held[target.name] = replace(target, fragment=source.fragment, fragment_dims=dims)
                    changed = True
                    break
    return replace(tree, buffers=tuple(held.get(b.name, b) for b in tree.buffers))


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
        several = len(place.terms) > 1
        way = "tensorize the product before the copies that fill its operands"
        notes = (way if several else f"tile the loops first: then '{buffer.name}' has a dimension for each of them",)
        raise StepError(f"no index of '{buffer.name}' is {place}, which is an index of the operand {name}", notes=notes)
    return replace(buffer, fragment=layout, fragment_dims=dims)
