"""Formats of operands: an instruction that takes tf32 values is given such, and rounds nothing by itself.

Theorem: an operand is given values of its format if the nest rounds each element that it reads, or if every statement
that writes the buffer writes such a value: a number rounded by a function of the format, a constant that the format
has, a choice between such values, or an element of a buffer of such values, or what stands for those outside of it. The
formats of buffers may follow from each other, for a statement reads what has been written before: the first one that
wrote another value would have read one. An input has any value, and so has an output, which may be an input, too.
"""

from __future__ import annotations

from tilegen.interpreter.scalar import FUNCTIONS
from tilegen.ir.hardware.instructions import FORMATS, ROUNDINGS
from tilegen.ir.hardware.matching import operand_accesses, rounded_operands
from tilegen.ir.nodes import Const, Expr, Load, Op, Performed, Stmt, Tree
from tilegen.ir.walk import leaves
from tilegen.poly.verdict import NoForm


def check_formats(tree: Tree, performed: Performed, stmt: Stmt) -> None:
    """Refused where an operand with a format is given other values than it has."""
    operands, rounded = operand_accesses(performed, stmt), rounded_operands(performed, stmt)
    assert operands is not None
    for layout in performed.instruction.operands:
        name = layout.operand.name
        if layout.format is None or name in rounded:
            continue
        held = operands[name].buffer
        found = _other_value(tree, held, layout.format, {held})
        if found is not None:
            form, who = layout.format, performed.instruction.name
            raise NoForm(
                f"'{who}' takes {form} values, and '{held}' has others",
                f"the values of '{found}' are not rounded to {form}",
                f"the kernel says where they are: {form}({_source_of(tree, held)}[...]) in the product, or in the "
                "equation of an intermediate tensor that the product reads",
            )


def _source_of(tree: Tree, buffer: str) -> str:
    """The tensor that a buffer is a copy of; it may be there in the kernel alone."""
    copied = {b.name: b.copy_of for b in tree.buffers if b.copy_of is not None}
    while buffer in copied:
        buffer = copied[buffer]
    return buffer


def _other_value(tree: Tree, buffer: str, form: str, seen: set[str]) -> str | None:
    """The buffer whose values decide that those of `buffer` do not have the format; None if they have it."""
    written = [stmt for _, stmt in leaves(tree.body) if stmt.target.buffer == buffer]
    if not written or tree.buffer(buffer).role in ("input", "output"):
        return buffer
    for stmt in written:
        if stmt.reduce:
            return buffer
        if (found := _other_term(tree, stmt.value, form, seen, buffer)) is not None:
            return found
    return None


def _other_term(tree: Tree, value: Expr, form: str, seen: set[str], written: str) -> str | None:
    match value:
        case Op(name) if ROUNDINGS.get(name) == form:
            return None
        case Const(number, dtype):
            return None if dtype == FORMATS[form] and FUNCTIONS[form](float(number)) == number else written
        case Op("select", (_, *choices)):
            found = (_other_term(tree, each, form, seen, written) for each in choices)
            return next((each for each in found if each is not None), None)
        case Load(buffer, _, dtype, fallback) if dtype == FORMATS[form]:
            if fallback is not None and _other_term(tree, fallback, form, seen, written) is not None:
                return written
            if buffer in seen:
                return None
            seen.add(buffer)
            return _other_value(tree, buffer, form, seen)
        case _:
            return written
