"""Launches as text, in CUDA C++ or OpenCL C: the same lines, but for the words that the languages differ in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from tilegen.backends.compiler.architectures import features_of, instructions_of, needed_lines
from tilegen.backends.compiler.instructions import device_function
from tilegen.backends.compiler.tensor_maps import DATA_TYPES
from tilegen.backends.text.arrays import scratch_extents, shared_extents, written_by
from tilegen.backends.text.body import Body
from tilegen.backends.text.helpers import helpers
from tilegen.backends.text.lanes import local_arrays
from tilegen.backends.text.lines import comment_lines, indent_lines, wrap_lines, written_for
from tilegen.backends.text.names import TILES, names_of
from tilegen.backends.text.tiles import describe_tiles
from tilegen.backends.text.timelines import how_to_launch, in_slots
from tilegen.backends.text.values.counts import counts_of_loops
from tilegen.backends.text.values.dialect import CUDA, OPENCL, Dialect
from tilegen.backends.text.values.expr import Writer
from tilegen.backends.text.values.parameter_names import ParameterNames, parameter_names
from tilegen.backends.text.values.pointers import Pointers, pointers_to_tiles
from tilegen.backends.text.wrap import LONGEST
from tilegen.ir.affine import Affine, Div, Mod, var
from tilegen.ir.hardware.memory import shared_layout
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import BLOCK_KINDS, DTYPE_BYTES, THREAD_KINDS, Access, Buffer, Condition
from tilegen.ir.printing.show import show_fact
from tilegen.lowering import Launch
from tilegen.lowering.integers.integers import shapes
from tilegen.lowering.launch.grid import Product, limits_of_grid
from tilegen.lowering.launch.program import Combine, VectorCopy, VectorLoad, VectorStore
from tilegen.lowering.launch.tensor_maps import TensorMap
from tilegen.lowering.launch.timelines import Barrier, Fence

STATIC_SHARED_LIMIT = 48 * 1024
_AXES = ("x", "y", "z")
_VECTORS = (VectorCopy, VectorLoad, VectorStore)


def emit(launches: Sequence[Launch], language: str = "cuda", title: str = "") -> str:
    """The text of all launches, one entry point each, in their order.

    Args:
        language: "cuda" or "opencl".
        title: what the first lines of the text say, if anything.
    """
    return "\n".join(emit_lines(launches, language, title)) + "\n"


def emit_lines(launches: Sequence[Launch], language: str = "cuda", title: str = "") -> list[str]:
    """The lines of that text; those of kernels are each a `Line`, which knows the part of the program that it is of."""
    dialect = {"cuda": CUDA, "opencl": OPENCL}[language]
    kernels = [_kernel_lines(launch, dialect) for launch in launches]
    used = instructions_of(launches)
    said = [title, *needed_lines(used, features_of(launches) if dialect is CUDA else ())]
    head = wrap_lines(line for each in said for line in comment_lines(each))
    functions = [wrap_lines(device_function(instruction).splitlines()) for instruction in used]
    helping = helpers("\n".join(line for kernel in kernels for line in kernel), dialect).splitlines()
    parts = [part for part in (head, helping, *functions, *kernels) if part]
    return [line for number, part in enumerate(parts) for line in ([""] * bool(number) + part)]


def _kernel_lines(launch: Launch, dialect: Dialect) -> list[str]:
    names = names_of(launch)
    launch = in_slots(launch)
    named = parameter_names(launch, names) if dialect is CUDA else ParameterNames()
    counts = counts_of_loops(launch, names) if dialect is CUDA else {}
    pointers = pointers_to_tiles(launch, names) if dialect is CUDA else Pointers()
    writer = Writer(
        dialect, names, launch.buffers, launch.wide, launch.approximate, pointers, parameters=named, counts=counts
    )
    body = Body(writer, launch)
    declared = [*_declare_coordinates(launch, writer, body), *_shared_arrays(launch, writer, body)]
    declared += [""] if declared else []
    statements = body.lines(launch.body)
    lines = [
        *body.functions,
        *_header(launch, writer.names, cuda=dialect is CUDA),
        *_signature(launch, writer),
        "{",
        *named.declared([*declared, *statements]),
        *declared,
        *statements,
        "}",
    ]
    return wrap_lines(indent_lines(lines))


# -- what stands before the body


def _header(launch: Launch, names: Mapping[str, str], *, cuda: bool) -> list[str]:
    grid = _describe_grid(launch)
    block = _tuple(str(threads) for threads in launch.launched_block)
    shared = f", {launch.shared_bytes} bytes of shared memory" if launch.shared_bytes else ""
    if launch.shared_bytes > STATIC_SHARED_LIMIT:
        shared += " (dynamic)"
    cluster = f", clusters of {_tuple(map(str, launch.cluster.dims))}" if launch.cluster else ""
    lines = [f"// {launch.name}: grid {grid}{cluster}, block {block}{shared}"]
    sizes = ", ".join(_describe_sizes(launch))
    lines += [f"// for {sizes}"] if sizes else []
    lines.append(f"// arrays {_describe_arrays(launch, names)}")
    apart = {memory_of(b.name): b.pitch for b in (*launch.memory, *launch.buffers.values()) if b.pitch}
    lines += [f"// the rows of {name} begin {pitch} elements apart" for name, pitch in apart.items()]
    stricter = [c for c in launch.requires if not any(_is_multiple_of(other, c) for other in launch.requires)]
    needs = [*map(show_fact, stricter)]
    needs += [f"{name} aligned to {by} bytes" for name, by in launch.alignment.items()]
    needs += [f"different elements of {name}" for name in launch.kernel.different if name in launch.tensors]
    needs += [f"{name} rising from 0 to {end}" for name, end in launch.kernel.rising if name in launch.tensors]
    if needs:
        lines.append(f"// needs {', '.join(needs)}")
    lines += [f"// {how_to_launch(launch)}"] if launch.asks and cuda else []
    lines += [f"// {_describe_scratch(buffer, names, cuda)}" for buffer in scratch_of(launch)]
    return lines + [f"// {_describe_map(each, names)}" for each in launch.maps]


def _describe_arrays(launch: Launch, names: Mapping[str, str]) -> str:
    """All arrays as C would declare them, and which of them may have no memory in common with another one."""
    found = {*launch.tensors, *(memory_of(each.buffer) for each in launch.maps)}
    ordered = (*(memory_of(tensor.name) for tensor in launch.kernel.tensors), *launch.tensors)
    every = dict.fromkeys(name for name in ordered if name in found)
    held = {memory_of(name): buffer for name, buffer in launch.buffers.items()}  # of one updated, the old values too
    held |= {b.name: b for b in launch.memory if b.name in held and not b.windows}
    shapes = ("".join(f"[{_in_tiles(extent)}]" for extent in scratch_extents(held[name])) for name in every)
    listed = ", ".join(names[name] + shape for name, shape in zip(every, shapes, strict=True))
    written = {memory_of(name) for name in written_by(launch)}
    alone = [names[name] for name in every if name in written] if len(every) > 1 else []
    return f"{listed}; {' and '.join(alone)} overlap{'' if alone[1:] else 's'} no other" if alone else listed


def scratch_of(launch: Launch) -> list[Buffer]:
    """What the launch has in global memory that is no tensor of a call: other launches write it, or read it."""
    given = {memory_of(tensor.name) for tensor in launch.kernel.tensors if tensor.role != "intermediate"}
    return [launch.buffers[name] for name in launch.tensors if name not in given]


def _describe_scratch(buffer: Buffer, names: Mapping[str, str], cuda: bool) -> str:
    """The array that a caller has to have for it, the slowest dimension first."""
    kind = (CUDA if cuda else OPENCL).types[buffer.dtype]
    extents = "".join(f"[{_in_tiles(extent)}]" for extent in scratch_extents(buffer))
    return f"{names[buffer.name]} is scratch memory: {kind}{extents}"


def _in_tiles(extent: Affine) -> str:
    """`extent` for a reader: ceil(M/128)*128 for whole tiles."""
    match extent:
        case Affine(((Div() as atom, by),), 0) if by > 1:
            return f"{formula(Affine(((atom, 1),)))}*{by}"
        case _:
            return formula(extent)


def _describe_map(each: TensorMap, names: Mapping[str, str]) -> str:
    """What the host says of a tensor to the driver, the fastest dimension first; strides are in bytes."""
    strides = []
    for rank in range(1, len(each.shape)):
        inner = (each.row, *each.shape[1:rank])
        known = prod((DTYPE_BYTES[each.dtype], *(extent.const for extent in inner if extent.is_const)))
        texts = [formula(extent) for extent in inner if not extent.is_const]
        open_ = [f"({text})" if " " in text else text for text in texts]
        strides.append("*".join([str(known), *open_]))
    parts = [f"{DATA_TYPES[each.dtype][0]}, dimensions {_in_brackets(formula(extent) for extent in each.shape)}"]
    parts += [f"strides {_in_brackets(strides)}"] if strides else []
    if each.windows:
        parts += [f"im2col from {_in_brackets(map(str, each.lower))} to {_in_brackets(map(formula, each.upper))}"]
        parts += [f"{each.box[0]} channels, {each.pixels} pixels"]
    else:
        parts += [f"box {_in_brackets(map(str, each.reach))}"]
    parts += [f"element strides {_in_brackets(map(str, each.steps))}"] if max(each.steps) > 1 else []
    parts += [f"swizzle {f'{each.swizzle}B' if each.swizzle else 'NONE'}"]
    return f"{names[each.name]} describes {each.buffer}: {', '.join(parts)}"


def _in_brackets(parts: Iterable[str]) -> str:
    return f"({', '.join(parts)})"


def _is_multiple_of(one: Condition, other: Condition) -> bool:
    """True if `one`, N % 8 == 0, says more than `other` does, N % 2 == 0."""
    match one.value, other.value:
        case Affine(((Mod(arg, by), 1),), 0), Affine(((Mod(same, less), 1),), 0):
            return arg == same and by > less and by % less == 0
        case _:
            return False


def _describe_sizes(launch: Launch) -> Iterator[str]:
    """The arrays and sizes that the text is right for: those at which integers and the grid are large enough."""
    given = [(t.name, t.shape) for t in launch.kernel.tensors if t.name in launch.tensors]
    yield from (_tensor_of_shape(name, shape) for name, shape in given if any(extent.is_const for extent in shape))
    if any(not extent.is_const for shape in shapes(launch) for extent in shape):
        like = " and ".join(_tensor_of_shape(name, shape) for name, shape in launch.beyond)
        most = "2^48" if launch.wide else "2^31 - 2^20"
        yield f"arrays of fewer than {most} elements" + (f", as {like} would have" if like else "")
    yield from dict.fromkeys(map(show_fact, (*launch.kernel.assumptions, *launch.fitting)))
    for axis, (along, limit) in enumerate(zip(launch.grid, limits_of_grid(launch.dealt > 0), strict=True)):
        if not along.is_const and (axis or launch.wide or len(along.factors) > 1):
            yield f"{_describe_blocks(along)} <= {limit}"


def _tensor_of_shape(name: str, shape: Iterable[Affine]) -> str:
    return f"{name}[{', '.join(map(str, shape))}]"


def _tuple(parts: Iterable[str]) -> str:
    """(x, y, z) without trailing ones."""
    kept = list(parts)
    while len(kept) > 1 and kept[-1] == "1":
        kept.pop()
    return f"({', '.join(kept)})"


def _describe_grid(launch: Launch) -> str:
    """The blocks of a launch, for a reader; where tiles are dealt, any number along x is right."""
    tiles, *others = map(_describe_blocks, launch.grid)
    if not launch.dealt:
        return _tuple((tiles, *others))
    return f"{_tuple(('any', *others))} with as many blocks as run at once for {tiles} tiles"


def _describe_blocks(along: Product) -> str:
    """Blocks along an axis, for a reader."""
    factors = [formula(factor) for factor in along.counted]
    return "*".join(f"({f})" if len(factors) > 1 and " " in f and not f.startswith("ceil") else f for f in factors)


def formula(extent: Affine) -> str:
    """`extent` for a reader: ceil(M/128) for a rounded-up division."""
    if len(extent.terms) == 1 and not extent.const and extent.terms[0][1] == 1:
        atom = extent.terms[0][0]
        if isinstance(atom, Div) and not atom.arg.is_const:
            rest = atom.arg - (atom.by - 1)
            if rest.terms and rest.const in (0, *(c for _, c in rest.terms)):
                top = str(rest)
                return f"ceil({top if top.isidentifier() else f'({top})'}/{atom.by})"
    return str(extent)


def parameters_of(launch: Launch, language: str = "cuda") -> list[tuple[str, str, str]]:
    """What a launch takes, in order: ("array", "tensor map", "scalar" or "size"; its name; its type), as C has them."""
    dialect = {"cuda": CUDA, "opencl": OPENCL}[language]
    return _parameters(launch, Writer(dialect, names_of(launch), launch.buffers, launch.wide, launch.approximate))


def _parameters(launch: Launch, writer: Writer) -> list[tuple[str, str, str]]:
    written = written_by(launch)
    cuda = writer.dialect is CUDA
    restrict = "* __restrict__" if cuda else "* restrict"
    # A compiler may move accesses by such pointers past all that waits: for the launch before, or for other threads.
    crossing = any(isinstance(node, Barrier) and node.of_global for node in launch.nodes)
    space = "" if cuda else "__global "
    names, integer = writer.names, index_type(launch, writer.dialect)
    found = []
    for name in launch.tensors:
        constness = "" if name in written else "const "
        pointer = "*" if (cuda and launch.asks) or (crossing and name in written) else restrict
        found.append(("array", names[name], f"{space}{constness}{writer.storage(name)}{pointer}"))
    found += [("tensor map", names[each.name], "const __grid_constant__ TensorMap") for each in launch.maps]
    found += [("scalar", names[scalar.name], writer.working_type(scalar.dtype)) for scalar in launch.scalars]
    return found + [("size", names[size], integer) for size in launch.sizes]


def _signature(launch: Launch, writer: Writer) -> list[str]:
    cuda = writer.dialect is CUDA
    parameters = [f"{kind} {name}" for _, name, kind in _parameters(launch, writer)]
    bounds = ", ".join(map(str, launch.bounds))
    x, y, z = launch.launched_block
    dims = f"__cluster_dims__({', '.join(map(str, launch.cluster.dims))}) " if launch.cluster else ""
    lead = (
        f'extern "C" __global__ void {dims}__launch_bounds__({bounds})'
        if cuda
        else f"__kernel __attribute__((reqd_work_group_size({x}, {y}, {z}))) void"
    )
    one_line = f"{launch.name}({', '.join(parameters)})"
    if len(one_line) <= 110:
        return [lead, one_line]
    split = len(launch.tensors) + len(launch.maps)
    rows = [", ".join(parameters[:split]) + ("," if split < len(parameters) else "")]
    if len(rows[0]) > 100:
        rows = [f"{p}," for p in parameters[:split]]
    rows += [", ".join(parameters[split:])] if split < len(parameters) else []
    rows[-1] = rows[-1].removesuffix(",") + ")"
    return [lead, f"{launch.name}({rows[0]}", *(" " * (len(launch.name) + 1) + row for row in rows[1:])]


def index_type(launch: Launch, dialect: Dialect) -> str:
    """The type of sizes, loops and offsets."""
    return dialect.types["i64" if launch.wide else "i32"]


def _declare_coordinates(launch: Launch, writer: Writer, body: Body) -> list[str]:
    rows: list[tuple[str, str, str]] = []  # what is declared, the note beside it, the steps that made the loop
    used = body.used_names()
    integer = index_type(launch, writer.dialect)
    dealt = launch.tiles
    if dealt and not launch.ends:
        rows.append((f"const Tiles {writer.names[TILES]} = {describe_tiles(launch, writer)};", "", ""))
    for name, kind, step in launch.coordinates:
        if name in used and name not in dealt:
            value = _coordinate(launch, name, kind, writer)
            rows.append((f"const {integer} {writer.names[name]} = {value};", body.note(step), step))
    if launch.tid in used and all(launch.tid != name for name, _, _ in launch.coordinates):
        rows.append((f"const {integer} {writer.names[launch.tid]} = {writer.index(launch.flat)};", "", ""))
    plain = replace(writer, counts={})
    rows += [(f"const {integer} {name} = {plain.index(var(atom))};", "", "") for atom, name in writer.counts.items()]
    width = max((len(text) for text, note, _ in rows if note), default=0)
    lines: list[str] = []
    for text, note, step in rows:
        beside = f"{text:{width}}  // {note}" if note else text
        lines += written_for(step, [beside] if len(beside) <= LONGEST - 4 else [f"// {note}", text])
    return lines


def _coordinate(launch: Launch, name: str, kind: str, writer: Writer) -> str:
    """The built-in variable, or of an axis that loops share the digit of this one."""
    value = _hardware(kind, writer.dialect)
    if launch.left_out and kind in THREAD_KINDS:
        value = _digit_of_thread(launch, THREAD_KINDS.index(kind))
    if kind in THREAD_KINDS[1:] and any(isinstance(node, Fence) and node.line.in_registers for node in launch.nodes):
        value = f"uniform({value})"  # else the compiler takes a branch for one that lanes may part at
    if kind not in BLOCK_KINDS or len((along := launch.grid[BLOCK_KINDS.index(kind)]).factors) == 1:
        return value
    by, of = along.digit(launch.along(kind).index(name))
    for factor in by:
        value += f" / {writer.index(factor, 7)}"
    return value if of is None else f"{value} % {writer.index(of, 7)}"


def _digit_of_thread(launch: Launch, axis: int) -> str:
    """The coordinate along an axis of threads that are launched along x alone."""
    by = prod(launch.block[:axis])
    value = f"threadIdx.x / {by}" if by > 1 else "threadIdx.x"
    return f"{value} % {launch.block[axis]}" if prod(launch.block[axis + 1 :]) > 1 else value


def _hardware(kind: str, dialect: Dialect) -> str:
    """The built-in variable of a coordinate."""
    level, axis = kind.split(".")
    if dialect is CUDA:
        return f"{level}Idx.{axis}"
    return f"get_{'group' if level == 'block' else 'local'}_id({_AXES.index(axis)})"


# -- shared memory


def _shared_arrays(launch: Launch, writer: Writer, body: Body) -> list[str]:
    shared = [b for b in launch.buffers.values() if b.space in ("shared", "barrier")]
    exchanged = local_arrays([v for v in launch.nodes if isinstance(v, Combine)], writer, launch)
    if not shared:
        return ["", *exchanged] if exchanged else []
    dynamic = launch.shared_bytes > STATIC_SHARED_LIMIT and writer.dialect is CUDA
    lines = [""]
    if dynamic:
        most = max(buffer.align for buffer in shared)
        lines.append(f"extern __shared__ __align__({most}) unsigned char shared[];")
    vectors = [access for v in launch.nodes if isinstance(v, _VECTORS) for access in _vector_accesses(v)]
    operands = (operand for node in launch.performs for operand in node.operands)
    vectors += [operand if isinstance(operand, Access) else operand.start for operand in operands]
    places, _ = shared_layout(shared)
    for buffer in shared:
        first = len(lines)
        lines += [f"// {note}" for note in body.fresh_notes(buffer.step)]
        lines += [f"// {where}" for where in _swizzle_notes(buffer, writer)]
        dims = [f"[{n}]" for n in writer.lengths(buffer, shared_extents(buffer), buffer.order or (0,))]
        name, kind = writer.names[buffer.name], _kind_of(buffer, writer)
        if dynamic:
            inner = "".join(dims[1:])
            shape = f"{kind} (*{name}){inner}" if inner else f"{kind}* {name}"
            target = f"{kind} (*){inner}" if inner else f"{kind}*"
            place = f"shared + {places[buffer.name]}" if places[buffer.name] else "shared"
            lines.append(f"{shape} = reinterpret_cast<{target}>({place});")
        else:
            wants = any(v.buffer == buffer.name for v in vectors)
            align = f" __align__({buffer.align})" * (wants or buffer.align > 16)
            space = f"__shared__{align}" if writer.dialect is CUDA else "__local"
            aligned = " __attribute__((aligned(16)))" if wants and writer.dialect is OPENCL else ""
            lines.append(f"{space} {kind} {name}{''.join(dims)}{aligned};")
        lines[first:] = written_for(buffer, lines[first:])
    return lines + exchanged


def _kind_of(buffer: Buffer, writer: Writer) -> str:
    """The type of its elements in C."""
    return "unsigned long long" if buffer.space == "barrier" else writer.storage(buffer.name)


def _swizzle_notes(buffer: Buffer, writer: Writer) -> list[str]:
    """Where the elements of a swizzled buffer lie, for a reader."""
    if not buffer.swizzle:
        return []
    place = replace(writer, names={"r": "r", "c": "c"}).swizzle(buffer.swizzle, var("r"), var("c"))
    note = f"element c of row r lies at {place}"
    around, step, several = buffer.swizzle.rows * buffer.swizzle.count, 1, False
    for extent in (buffer.shape[d].const for d in reversed(buffer.order[:-1])):
        several |= extent > 1 and step > 1 and step % around != 0
        step *= extent
    return [f"{note}; rows are counted over all dimensions" if several else note]


def _vector_accesses(node: VectorCopy | VectorLoad | VectorStore) -> tuple[Access, ...]:
    match node:
        case VectorCopy(target=target, source=source):
            return target, source
        case VectorLoad(source=source):
            return (source,)
        case VectorStore(target=target):
            return (target,)
