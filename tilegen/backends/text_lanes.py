"""What the lanes of a warp exchange, as lines of C: shuffles in CUDA, a round through local memory in OpenCL."""

from __future__ import annotations

from tilegen.backends.text_expr import CUDA, Writer
from tilegen.ir.nodes import init_value
from tilegen.lowering.program import Combine, Launch


def combined(node: Combine, writer: Writer, launch: Launch) -> list[str]:
    """The line that gives `node.name` its value."""
    name, kind, term = writer.names[node.name], writer.dialect.types[node.dtype], _term(node, writer)
    if writer.dialect is CUDA:
        return [f"const {kind} {name} = {node.reduce}_of_lanes<{node.lanes}>({term});"]
    place = f"{name}_of, {writer.index(launch.flat)}, {node.lanes}"
    return [f"const {kind} {name} = {node.reduce}_of_{kind}_lanes({place}, {term});"]


def local_arrays(combines: list[Combine], writer: Writer, launch: Launch) -> list[str]:
    """The local memory that the exchanges take in OpenCL, one element a thread each."""
    if writer.dialect is CUDA:
        return []
    return [f"__local {writer.dialect.types[c.dtype]} {writer.names[c.name]}_of[{launch.threads}];" for c in combines]


def _term(node: Combine, writer: Writer) -> str:
    """What a lane puts in."""
    if not node.test:
        return writer.value(node.value, -1)
    neutral = writer.value(init_value(node.reduce, node.dtype), 1)
    return f"{writer.test(node.test)} ? {writer.value(node.value, 1)} : {neutral}"
