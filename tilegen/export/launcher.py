"""The C++ launcher: it checks a call, chooses the version as `Program` does, and queues its launches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from tilegen.backends.calls.launch_data import dynamic_shared_bytes
from tilegen.backends.compiler.tensor_maps import DATA_TYPES
from tilegen.backends.text.arrays import scratch_buffers, scratch_extents
from tilegen.export.c_names import Interface, SizeWriter, scalar_type
from tilegen.export.checks import words_of_checks
from tilegen.export.lines import fill
from tilegen.export.versions import Version, every_launch
from tilegen.interpreter.byte_floats import BYTE_FORMATS
from tilegen.ir.hardware.limits import DEALT_LIMIT, GRID_LIMIT
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import DTYPE_BYTES, SHORT_FLOATS, Buffer, Condition, Scalar, Tensor
from tilegen.lowering import Launch
from tilegen.lowering.launch.tensor_maps import TensorMap

_WORKSPACE_ALIGNMENT = 256


@dataclass(frozen=True)
class _Rounded:
    """Of a short float: its header, a float rounded to it as a float again, its largest number."""

    header: str
    expression: str
    largest: float


_ROUNDED = {
    "f16": _Rounded("cuda_fp16.h", "__half2float(__float2half(*value))", 65504.0),
    "bf16": _Rounded("cuda_bf16.h", "__bfloat162float(__float2bfloat16(*value))", 3.3895313892515355e38),
    "e4m3": _Rounded("cuda_fp8.h", "static_cast<float>(__nv_fp8_e4m3(*value))", BYTE_FORMATS["e4m3"].largest),
    "e5m2": _Rounded("cuda_fp8.h", "static_cast<float>(__nv_fp8_e5m2(*value))", BYTE_FORMATS["e5m2"].largest),
}


def launcher(interface: Interface, table: Sequence[Version], title: str, archs: Sequence[str]) -> str:
    """The text of the launcher.

    Args:
        title: the comments at its head.
        archs: what the machine code is for, to say so where it does not load.
    """
    launches = every_launch(table)
    has_maps = any(launch.maps for launch in launches.values())
    short = tuple(dict.fromkeys(s.dtype for s in interface.scalars if s.dtype in SHORT_FLOATS))
    return fill(
        "launcher.cuh",
        **words_of_checks(interface),
        name=interface.name,
        title=title,
        archs=archs,
        includes=[*(["cuda.h"] if has_maps else []), *dict.fromkeys(_ROUNDED[dtype].header for dtype in short)],
        say=_Parts(interface),
        scratch=scratch_buffers(interface.tree),
        table=table,
        launches=launches,
        maps_of_windows=sorted({each.windows is not None for launch in launches.values() for each in launch.maps}),
        short_types=short,
        rounded=_ROUNDED,
        dtype_bytes=DTYPE_BYTES,
        alignment=_WORKSPACE_ALIGNMENT,
        grid_limit=GRID_LIMIT,
        dealt_limit=DEALT_LIMIT,
    )


class _Parts:
    """What is said in C++ of parts of a kernel."""

    def __init__(self, interface: Interface) -> None:
        self._names, self._write = interface.names, SizeWriter(interface)

    def type_of(self, scalar: Scalar) -> str:
        return scalar_type(scalar)

    def bytes_of(self, memory: Tensor | Buffer) -> str:
        shape = memory.shape if isinstance(memory, Tensor) else scratch_extents(memory)
        return f"{self._write.product(shape)} * {DTYPE_BYTES[memory.dtype]}"

    def needs_of(self, version: Version) -> str:
        needs = [
            self._write.condition(f) if isinstance(f, Condition) else f"is_aligned(given.{self._names[f[0]]}, {f[1]})"
            for f in version.needs
        ]
        return " && ".join(needs) or "true"

    def bounds_of(self, table: Sequence[Version]) -> Iterator[tuple[str, list[int]]]:
        """What sizes have to be, with the numbers of the versions side by side of which that is so."""
        bounds = list(map(self._bounds_of_one, table))
        return ((text, list(numbers)) for text, numbers in groupby(range(len(table)), bounds.__getitem__))

    def _bounds_of_one(self, version: Version) -> str:
        bounds = [self._write.condition(c) for c in version.bounds]
        bounds += [f"{self._write.product(shape, 1)} < {version.most_elements}" for shape in version.shapes]
        return " && ".join(bounds) or "true"

    def blocks_of(self, launch: Launch) -> str:
        return ", ".join(self._write.product(along.counted) for along in launch.grid)

    def shared_of(self, launch: Launch) -> int:
        return dynamic_shared_bytes(launch)

    def arguments_of(self, launch: Launch) -> str:
        """In the order of the kernel's parameters."""
        found = [f"&given.{self._names[name]}" for name in launch.tensors]
        found += [f"&map_{number}" for number, _ in enumerate(launch.maps)]
        found += [f"&given.{self._names[scalar.name]}" for scalar in launch.scalars]
        return ", ".join(found + [f"&{self._names[size]}" for size in launch.sizes])

    def described(self, each: TensorMap) -> str:
        """The arguments that describe a tensor."""
        name, extents = self._names[memory_of(each.buffer)], ", ".join(map(self._write.value, each.shape))
        kind, steps = f"CU_TENSOR_MAP_DATA_TYPE_{DATA_TYPES[each.dtype][0]}", ", ".join(map(str, each.steps))
        if each.windows:
            upper = ", ".join(f"int({self._write.value(end)})" for end in each.upper)
            box = f"{{{', '.join(map(str, each.lower))}}}, {{{upper}}}, {each.box[0]}, {each.pixels}"
        else:
            box = f"{{{', '.join(map(str, each.reach))}}}"
        swizzle = f"CU_TENSOR_MAP_SWIZZLE_{f'{each.swizzle}B' if each.swizzle else 'NONE'}"
        what = f'"{name}", {kind}, {DTYPE_BYTES[each.dtype]}, given.{name}, {{{extents}}}'
        return f"{what}, {box}, {{{steps}}}, {swizzle}"
