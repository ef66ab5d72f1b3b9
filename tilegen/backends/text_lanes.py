"""What the lanes of a warp exchange, as lines of C: shuffles in CUDA, a round through local memory in OpenCL."""

from __future__ import annotations

from tilegen.backends.text_expr import CUDA, Writer
from tilegen.ir.nodes import Op, init_value
from tilegen.lowering.program import Combine, Launch


def combined(node: Combine, writer: Writer, launch: Launch) -> list[str]:
    """The lines that give `node.name` its value."""
    name, kind = writer.names[node.name], writer.dialect.types[node.dtype]
    value = _term(node, writer)
    if writer.dialect is CUDA:
        return [f"const {kind} {name} = {node.reduce}_of_lanes<{node.lanes}>({value});"]
    mine = writer.index(launch.flat, 6)
    first = f"{mine} / {node.lanes} * {node.lanes}" if launch.threads > node.lanes else "0"
    neutral = writer.value(init_value(node.reduce, node.dtype))
    update = Op({"sum": "+", "prod": "*"}.get(node.reduce, node.reduce), (_named("SO_FAR"), _named("TERM")), node.dtype)
    step = writer.value(update, -1).replace("SO_FAR", name).replace("TERM", f"{name}_of[{first} + lane]")
    return [
        f"{name}_of[{writer.index(launch.flat)}] = {value};",
        "barrier(CLK_LOCAL_MEM_FENCE);",
        f"{kind} {name} = {neutral};",
        f"for (int lane = 0; lane < {node.lanes}; ++lane) {{",
        f"    {name} = {step};",
        "}",
        "barrier(CLK_LOCAL_MEM_FENCE);",
    ]


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


def _named(text: str) -> Op:
    return Op(text, (), "f32")
