"""The C++ launcher: it checks a call, chooses the version as `Program` does, and queues its launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tilegen.backends.text.arrays import scratch_buffers, scratch_extents
from tilegen.export.c_names import Interface, SizeWriter, scalar_type
from tilegen.export.checks import check_parts
from tilegen.export.launches import every_launch, launch_functions
from tilegen.export.lines import fill, wrap_code
from tilegen.export.versions import Version
from tilegen.interpreter.byte_floats import BYTE_FORMATS
from tilegen.ir.hardware.limits import DEALT_LIMIT, GRID_LIMIT
from tilegen.ir.nodes import DTYPE_BYTES, SHORT_FLOATS, Condition
from tilegen.lowering import Launch

_fill = partial(fill, "launcher.cuh")
# dtype -> its header, a float rounded to it as a float again, its largest number
_ROUNDED = {
    "f16": ("cuda_fp16.h", "__half2float(__float2half(*value))", 65504.0),
    "bf16": ("cuda_bf16.h", "__bfloat162float(__float2bfloat16(*value))", 3.3895313892515355e38),
    "e4m3": ("cuda_fp8.h", "static_cast<float>(__nv_fp8_e4m3(*value))", BYTE_FORMATS["e4m3"].largest),
    "e5m2": ("cuda_fp8.h", "static_cast<float>(__nv_fp8_e5m2(*value))", BYTE_FORMATS["e5m2"].largest),
}


def launcher(interface: Interface, table: Sequence[Version], title: str, archs: Sequence[str]) -> str:
    """The text of the launcher.

    Args:
        title: the comments at its head.
        archs: what the machine code is for, to say so where it does not load.
    """
    write = SizeWriter(interface)
    launches = every_launch(table)
    maps = any(launch.maps for launch in launches.values())
    functions = "\n\n".join(launch_functions(interface, table, write))
    choice = _choice(interface, table, write)
    checks = check_parts(interface, write)
    body = functions + choice + "".join(checks)
    found = [
        _head(interface, title, maps),
        *map(_fill, ("errors", "product", "shown")),
        *(_fill(word) for word in ("floor_div", "floor_mod") if f"{word}(" in body),
        _scratch(interface, write),
        choice,
        _launch(interface, launches, archs),
        *([_fill("tiles", most=DEALT_LIMIT)] if any(launch.dealt for launch in launches.values()) else []),
        *([_fill("maps")] if maps else []),
        functions,
        _run(interface, table),
        *checks,
        *map(_round, dict.fromkeys(s.dtype for s in interface.scalars if s.dtype in SHORT_FLOATS)),
        _fill("call", name=interface.name, clear=_clear(interface, write)),
        _api(interface),
    ]
    text = "\n\n".join(part.strip("\n") for part in found)
    return wrap_code(text)


def _head(interface: Interface, title: str, maps: bool) -> str:
    names = interface.names
    includes = ["cuda.h"] if maps else []
    includes += dict.fromkeys(_ROUNDED[s.dtype][0] for s in interface.scalars if s.dtype in SHORT_FLOATS)
    arguments = [f"    const void* {names[t.name]};" for t in interface.tensors]
    arguments += [f"    {scalar_type(s)} {names[s.name]};" for s in interface.scalars]
    scratch = scratch_buffers(interface.tree)
    arguments += [f"    const void* {names[b.name]};  // in the workspace" for b in scratch]
    return _fill(
        "head",
        title=title,
        name=interface.name,
        header=interface.header,
        upper=interface.name.upper(),
        includes="\n".join(f"#include <{each}>" for each in includes),
        sizes="\n".join(f"    Int {names[size]};" for size in interface.sizes),
        arguments="\n".join(arguments),
    )


def _scratch(interface: Interface, write: SizeWriter) -> str:
    lines = []
    for buffer in scratch_buffers(interface.tree):
        shape = scratch_extents(buffer)
        lines += [
            f"    given.{interface.names[buffer.name]} = reinterpret_cast<const void*>(begin + uintptr_t(end));",
            f"    end += ({write.product(shape)} * {DTYPE_BYTES[buffer.dtype]} + 255) / 256 * 256;",
        ]
    return _fill("scratch", lines="\n".join(lines)) if lines else _fill("no_scratch")


def _clear(interface: Interface, write: SizeWriter) -> str:
    """What sets the words to 0 by which blocks tell each other."""
    lines = ""
    for buffer in (b for b in scratch_buffers(interface.tree) if b.role == "states"):
        bytes_ = f"{write.product(scratch_extents(buffer))} * {DTYPE_BYTES[buffer.dtype]}"
        place = f"const_cast<void*>(given.{interface.names[buffer.name]})"
        lines += f"\n    if (cudaError_t error = cudaMemsetAsync({place}, 0, {bytes_}, stream))\n        return error;"
    return lines


def _choice(interface: Interface, table: Sequence[Version], write: SizeWriter) -> str:
    met: list[str] = []
    fit: list[str] = []
    for number, version in enumerate(table):
        needs = [
            write.condition(f) if isinstance(f, Condition) else f"is_aligned(given.{interface.names[f[0]]}, {f[1]})"
            for f in version.needs
        ]
        bounds = [write.condition(c) for c in version.bounds]
        bounds += [f"{write.product(shape, 1)} < {version.most_elements}" for shape in version.shapes]
        met += [f"    case {number}:  // {version.name}", f"        return {' && '.join(needs) or 'true'};"]
        end = f"        return {' && '.join(bounds) or 'true'};"
        fit[-1:] = fit[-1:] if fit[-1:] != [end] else []
        fit += [f"    case {number}:", end]
    return _fill(
        "choice",
        met="\n".join(met),
        fit="\n".join(fit),
        names=", ".join(f'"{version.name}"' for version in table),
        count=len(table),
    )


def _launch(interface: Interface, launches: Mapping[str, Launch], archs: Sequence[str]) -> str:
    return _fill(
        "launch",
        name=interface.name,
        count=len(launches),
        kernels=",\n    ".join(f'"{name}"' for name in launches),
        archs=", ".join(archs),
        limits=", ".join(map(str, GRID_LIMIT)),
    )


def _run(interface: Interface, table: Sequence[Version]) -> str:
    cases = []
    for number, version in enumerate(table):
        cases.append(f"    case {number}:  // {version.name}")
        calls = [f"launch_{launch.name}(size, given, queue, stream)" for launch in version.launches]
        for call in calls[:-1]:
            cases += [f"        if (cudaError_t error = {call})", "            return error;"]
        cases.append(f"        return {calls[-1]};")
    return _fill("run", name=interface.name, cases="\n".join(cases))


def _round(dtype: str) -> str:
    _, expression, largest = _ROUNDED[dtype]
    return _fill("round", dtype=dtype, expression=expression, largest=f"{largest!r}f")


def _api(interface: Interface) -> str:
    names = interface.names
    fields = []
    for scalar in interface.scalars:
        if scalar.dtype in SHORT_FLOATS:
            call = f'round_{scalar.dtype}("{scalar.name}", &{names[scalar.name]})'
            fields += [f"    if (cudaError_t error = {call})", "        return error;"]
    fields.append("    Arguments given = {};")
    addresses = [f"    given.{names[t.name]} = {names[t.name]};" for t in interface.tensors]
    fields += addresses + [f"    given.{names[s.name]} = {names[s.name]};" for s in interface.scalars]
    sizes = [f"int64_t {names[size]}" for size in interface.sizes]
    parameters = [*interface.parameters(), "void* workspace", "size_t workspace_bytes", "cudaStream_t stream"]
    return _fill(
        "api",
        name=interface.name,
        parameters=", ".join(parameters),
        fields="\n".join(fields),
        addresses="\n".join(addresses),
        s=f"Sizes{{{', '.join(names[size] for size in interface.sizes)}}}",
        sizes=", ".join(sizes) or "void",
        choosing=", ".join([*(f"const void* {names[t.name]}" for t in interface.tensors), *sizes]),
    )
