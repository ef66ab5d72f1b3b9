"""The launches of all versions in C++: a function for each kernel of the .cu, with its grid and arguments."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.backends.compiler.tensor_maps import DATA_TYPES
from tilegen.backends.text import STATIC_SHARED_LIMIT
from tilegen.export.c_names import Interface, SizeWriter
from tilegen.export.versions import Version
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import DTYPE_BYTES
from tilegen.lowering import Launch
from tilegen.lowering.launch.tensor_maps import TensorMap


def every_launch(table: Sequence[Version]) -> dict[str, Launch]:
    """The launches of all versions by name; the versions share some."""
    return {launch.name: launch for version in table for launch in version.launches}


def launch_functions(interface: Interface, table: Sequence[Version], write: SizeWriter) -> list[str]:
    """A function for each of them."""
    launches = every_launch(table)
    return [_function(number, launch, interface, write) for number, launch in enumerate(launches.values())]


def dynamic_shared_bytes(launch: Launch) -> int:
    """The shared memory that a launch asks for; what is declared in the text is no part of it."""
    return launch.shared_bytes if launch.shared_bytes > STATIC_SHARED_LIMIT else 0


def _function(number: int, launch: Launch, interface: Interface, write: SizeWriter) -> str:
    names = interface.names
    arguments = [f"&given.{names[name]}" for name in launch.tensors]
    arguments += [f"&map_{n}" for n, _ in enumerate(launch.maps)]
    arguments += [f"&given.{names[scalar.name]}" for scalar in launch.scalars]
    arguments += [f"&{names[size]}" for size in launch.sizes]
    blocks = ", ".join(write.product(along.factors) for along in launch.grid)
    threads = ", ".join(map(str, launch.launched_block))
    integer, word = "long long" if launch.wide else "int", "launch_tiles" if launch.dealt else "launch"
    lines = [
        f"cudaError_t launch_{launch.name}([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue, "
        "cudaStream_t stream)",
        "{",
        *(f"    const {integer} {names[size]} = static_cast<{integer}>(size.{names[size]});" for size in launch.sizes),
        *(line for n, each in enumerate(launch.maps) for line in _map_lines(n, each, interface, write)),
        f"    const void* arguments[] = {{{', '.join(arguments)}}};",
        f"    const Int blocks[3] = {{{blocks}}};",
        f"    return {word}({number}, blocks, dim3({threads}), {dynamic_shared_bytes(launch)}, "
        f"{str(launch.dependent).lower()}, arguments, queue, stream);",
        "}",
    ]
    return "\n".join(lines)


def _map_lines(number: int, each: TensorMap, interface: Interface, write: SizeWriter) -> list[str]:
    name = interface.names[memory_of(each.buffer)]
    extents = ", ".join(map(write.value, each.shape))
    box = ", ".join(map(str, each.box))
    kind = f"CU_TENSOR_MAP_DATA_TYPE_{DATA_TYPES[each.dtype][0]}"
    swizzle = f"CU_TENSOR_MAP_SWIZZLE_{f'{each.swizzle}B' if each.swizzle else 'NONE'}"
    rank = len(each.box)
    return [
        f"    CUtensorMap map_{number} = {{}};",
        "    if (queue)",
        f'        if (cudaError_t error = describe<{rank}>(&map_{number}, "{name}", {kind}, {DTYPE_BYTES[each.dtype]}, '
        f"given.{name}, {{{extents}}}, {{{box}}}, {swizzle}))",
        "            return error;",
    ]
