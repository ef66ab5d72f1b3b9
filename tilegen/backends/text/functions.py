"""What a function of OpenCL, which has no lambdas, is given: the memory and the integers that a lambda sees."""

from __future__ import annotations

from tilegen.backends.text.arrays import register_extents, shared_extents, written_by
from tilegen.backends.text.values.expr import Writer
from tilegen.ir.hardware.memory import stored_extents
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import Buffer
from tilegen.ir.walk import accesses, gathers, walk
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import (
    For,
    Function,
    Let,
    names_in,
    nodes,
)
from tilegen.lowering.outline.generalise import expressions

_SPACES = ("global", "shared", "register")


def seen_by(function: Function, launch: Launch, writer: Writer) -> list[tuple[str, str]]:
    """(name, declaration as a parameter) of all that `function` speaks of and does not declare: memory, then scalars,
    then coordinates, loops and sizes."""
    used = {a.buffer for a in accesses(function.body)} | {g.buffer for g in gathers(function.body)}
    memory = [b for b in launch.buffers.values() if b.name in used and b.space in _SPACES]
    found = {writer.names[b.name]: _pointer(b, launch, writer) for b in memory}
    scalars = [s for s in launch.scalars if s in walk(function.body)]
    found |= {writer.names[s.name]: f"{writer.working_type(s.dtype)} {writer.names[s.name]}" for s in scalars}
    own = {v.name for v in nodes(function.body) if isinstance(v, For | Let)} | {*function.parameters}
    integer = writer.dialect.types["i64" if launch.wide else "i32"]
    names = _integers(function, launch, memory) - own
    order = [*(name for name, _, _ in launch.coordinates), launch.tid]
    ordered = [n for n in order if n in names] + sorted(names - {*order} - {*launch.sizes})
    ordered += [size for size in launch.sizes if size in names]
    return list((found | {writer.names[n]: f"{integer} {writer.names[n]}" for n in ordered}).items())


def _integers(function: Function, launch: Launch, memory: list[Buffer]) -> frozenset[str]:
    """The names of integers in the text of a function: in expressions, extents, and the pitches of tensors."""
    printed = {value for node in function.body for value in expressions(node).printed}
    printed |= {v.extent for v in nodes(function.body) if isinstance(v, For)}
    printed |= {extent for b in memory if b.space == "global" for extent in stored_extents(b)[1:]}
    seen = [b.windows for b in memory if b.windows]
    printed |= {extent for w in seen for extent in launch.buffers[w.tensor].shape}
    printed |= {extent for w in seen for extent in w.extents.values()}
    printed |= {launch.buffers[g.buffer].shape[d] for g in gathers(function.body) for d in g.tested}
    return names_in(printed)


def _pointer(buffer: Buffer, launch: Launch, writer: Writer) -> str:
    """The parameter that an array is handed over as."""
    kind, name = writer.storage(buffer.name), writer.names[buffer.name]
    if buffer.space == "global":
        constness = "" if memory_of(buffer.name) in written_by(launch) else "const "
        return f"__global {constness}{kind}* {name}"
    space, lengths = (
        ("__local ", shared_extents(buffer)) if buffer.space == "shared" else ("", register_extents(buffer))
    )
    inner = "".join(f"[{length}]" for length in lengths[1:])
    return f"{space}{kind} (*{name}){inner}" if inner else f"{space}{kind}* {name}"
