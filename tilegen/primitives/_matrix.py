"""Nests that an instruction computes, and the buffers that become fragments of its operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import Affine
from tilegen.ir.instructions import Fragment, Instruction
from tilegen.ir.matching import operand_accesses, perfect_nest
from tilegen.ir.nodes import Access, Buffer, Loop, Stmt, Tree
from tilegen.ir.show import show_stmt
from tilegen.ir.walk import loops
from tilegen.primitives import LoopName


def find_nest(
    tree: Tree, names: tuple[LoopName, ...], instruction: Instruction
) -> tuple[Loop, Stmt, Mapping[str, Access]]:
    """The nest of these loops that the instruction computes: its outermost loop, its statement, the operands."""
    other: Stmt | None = None
    for loop in loops(tree.body):
        found = perfect_nest(loop)
        if found is None or sorted(each.name for each in found[0]) != sorted(names):
            continue
        other = found[1]
        operands = operand_accesses(instruction, other)
        if operands is not None:
            return loop, other, operands
    meaning = instruction.equation.span.text if instruction.equation.span else instruction.name
    if other is None:
        notes = ("order(...) puts them innermost; cache_register gives operands of the product nests of their own",)
        raise StepError(f"no statement stands in the loops {', '.join(names)} alone", notes=notes)
    raise StepError(f"'{instruction.name}' computes {meaning}, and the loops {show_stmt(other)}")


def is_outermost(loop: Loop, nest: Loop) -> bool:
    """True for the loop of the nest, whose inner loops have got their kind already."""
    one, two = perfect_nest(loop), perfect_nest(nest)
    return one is not None and two is not None and one[1] is two[1] and loop.name == nest.name


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
        notes = ("tensorize the product before the copies that fill its operands",)
        raise StepError(f"no index of '{buffer.name}' is {place}, which is an index of the operand {name}", notes=notes)
    return replace(buffer, fragment=layout, fragment_dims=dims)
