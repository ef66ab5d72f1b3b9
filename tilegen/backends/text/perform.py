"""Calls of instructions, and the waits for those that go on while their lanes do, as lines of C."""

from __future__ import annotations

from collections.abc import Iterable

from tilegen.backends.text.values.expr import Writer
from tilegen.ir.affine import const
from tilegen.ir.hardware.instructions import Fragment, Layout
from tilegen.ir.hardware.memory import bytes_of
from tilegen.ir.nodes import Access
from tilegen.lowering.launch.product_nodes import Described
from tilegen.lowering.launch.program import Perform


def call_of(node: Perform, writer: Writer) -> str:
    """The call of an instruction, its output first."""
    *inputs, output = zip(node.instruction.operands, node.operands, strict=True)
    arguments = [_operand(layout, given, node.rounded, writer) for layout, given in (output, *inputs)]
    return f"{node.instruction.name}({', '.join(arguments)});"


def _operand(layout: Layout, given: Access | Described, rounded: tuple[str, ...], writer: Writer) -> str:
    """The first of an operand's registers, the row in shared memory, or the descriptor."""
    if isinstance(given, Described):
        form, start = given.form, writer.element(given.buffer, given.start.index)
        return f"describe_{form.piece}<{form.stride}, {form.leading}>(&{start})"
    *outer, last = given.index
    if isinstance(layout, Fragment) and last == const(0):
        text = writer.element(given.buffer, tuple(outer))
    else:
        text = f"&{writer.element(given.buffer, given.index)}"
    if layout.operand.name not in rounded:
        return text
    assert isinstance(layout, Fragment)
    return f"{layout.format}_fragment<{layout.elements_of_a_lane}>({text}).values"


def hold_lines(names: Iterable[str], writer: Writer) -> list[str]:
    """Of each buffer the words that a lane has."""
    buffers = [writer.buffers[name] for name in names]
    first = [writer.element(b.name, (const(0),) * len(b.shape)) for b in buffers]
    return [f"hold<{bytes_of(b) // 4}>(&{text});" for b, text in zip(buffers, first, strict=True)]
