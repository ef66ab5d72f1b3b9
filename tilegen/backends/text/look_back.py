"""Blocks that hand on a value: the number that each draws, and how it finds what the value is before it."""

from __future__ import annotations

from tilegen.backends.text.expr import Writer
from tilegen.lowering.launch.program import For, LookBack, nodes


def number_line(loop: For, writer: Writer, integer: str) -> str:
    """The declaration of the iteration that the block is."""
    states = next(node.states for node in nodes(loop.body) if isinstance(node, LookBack))
    return f"const {integer} {writer.names[loop.name]} = draw_number({writer.names[states]});"


def look_back_line(node: LookBack, writer: Writer) -> str:
    """The call, behind which the register has what all blocks of smaller numbers have added to it."""
    value = writer.element(node.buffer, ())
    given = [writer.names[node.states], writer.names[node.block], writer.index(node.blocks), value]
    kind = writer.storage(node.buffer)
    return f"{value} = {node.reduce}_of_blocks_before<{kind}>({', '.join(given)}, {writer.value(node.value, -1)});"
