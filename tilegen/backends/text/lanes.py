"""What the lanes of a warp exchange, as lines of C: shuffles in CUDA, a round through local memory in OpenCL."""

from __future__ import annotations

from tilegen.backends.text.names import exchange_name
from tilegen.backends.text.values.dialect import CUDA
from tilegen.backends.text.values.expr import Writer
from tilegen.ir.hardware.lanes import WARP
from tilegen.ir.nodes import Const, Expr, Op
from tilegen.ir.reductions.initial import init_value
from tilegen.ir.reductions.linear import LINEAR
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import Combine


def combine_lines(node: Combine, writer: Writer, launch: Launch) -> list[str]:
    """The line that gives `node.name` its value."""
    name, kind = writer.names[node.name], writer.dialect.types[node.dtype]
    if node.arg is not None and node.start is None:
        return _pair(node, writer, launch)
    term = _term(node, writer, node.value, init_value(node.reduce, node.dtype))
    which, lane = "of", "lanes"
    word = "ones" if _counts_ones(node) else node.reduce
    if node.start is not None:
        which, lane = "up_to" if node.inclusive else "ahead_of", "lane"
        by = f"{_term(node, writer, node.arg, _neutral(node))}, " if node.arg is not None else ""
        term = f"{writer.value(node.start, -1)}, {by}{term}"
    if writer.dialect is CUDA:
        return [f"const {kind} {name} = {word}_{which}_{lane}<{node.lanes}>({term});"]
    places = ", ".join(writer.names[exchange_name(name)] for name in (node.name, node.arg_name) if name)
    place = f"{places}, {writer.index(launch.flat)}, {node.lanes}"
    return [f"const {kind} {name} = {node.reduce}_{which}_{kind}_{lane}({place}, {term});"]


def _counts_ones(node: Combine) -> bool:
    """True of a sum over a whole warp whose terms are 0 or 1, as bits of a word are."""
    match node.value:
        case Op("select", (_, Const(1), Const(0)), "i32"):
            return node.reduce == "sum" and node.lanes == WARP
        case _:
            return False


def _pair(node: Combine, writer: Writer, launch: Launch) -> list[str]:
    """The lines for a value and the index, or the factor, that goes with it."""
    assert node.arg is not None
    value, index = writer.names[node.name], writer.names[node.arg_name]
    kinds = [writer.dialect.types[dtype] for dtype in (node.dtype, node.arg_dtype)]
    lines = [
        f"{kinds[0]} {value} = {_term(node, writer, node.value, init_value(node.reduce, node.dtype))};",
        f"{kinds[1]} {index} = {_term(node, writer, node.arg, _neutral(node))};",
    ]
    if writer.dialect is CUDA:
        return [*lines, f"{node.reduce}_of_lanes<{node.lanes}>({value}, {index});"]
    places = f"{writer.names[exchange_name(node.name)]}, {writer.names[exchange_name(node.arg_name)]}"
    place = f"{places}, {writer.index(launch.flat)}, {node.lanes}"
    return [*lines, f"{node.reduce}_of_{kinds[0]}_{kinds[1]}_lanes({place}, &{value}, &{index});"]


def _neutral(node: Combine) -> Const:
    """What goes with the value of a lane that has none: where values are equal the lower index wins."""
    return Const(1, node.arg_dtype) if node.reduce == LINEAR else init_value("min", node.arg_dtype)


def local_arrays(combines: list[Combine], writer: Writer, launch: Launch) -> list[str]:
    """The local memory that the exchanges take in OpenCL, one element a thread each."""
    if writer.dialect is CUDA:
        return []
    pairs = [pair for c in combines for pair in ((c.dtype, c.name), (c.arg_dtype, c.arg_name)) if pair[0]]
    return [
        f"__local {writer.dialect.types[dtype]} {writer.names[exchange_name(name)]}[{launch.threads}];"
        for dtype, name in pairs
    ]


def _term(node: Combine, writer: Writer, value: Expr, neutral: Const) -> str:
    """What a lane puts in."""
    if not node.test:
        return writer.value(value, -1)
    return f"{writer.test(node.test)} ? {writer.value(value, 1)} : {writer.value(neutral, 1)}"
