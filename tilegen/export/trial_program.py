"""The test program of an exported kernel: small results beside those of plain loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilegen.backends.text.values.dialect import CUDA
from tilegen.export.c_names import Interface, SizeWriter, scalar_type
from tilegen.export.lines import fill, wrap_code
from tilegen.export.reference import include_lines, plain_launches, reference_text
from tilegen.ir.affine import Affine
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import FLOATS, Scalar
from tilegen.lab.checks.sizes import sizes_to_check
from tilegen.lowering import Launch

# How far a result may be off, relative to 1 + its size: sums are made in another order. Integers are exact.
_TOLERANCE = {"f64": 1e-9, "f32": 1e-3, "f16": 1e-2, "bf16": 3e-2, "e4m3": 0.15, "e5m2": 0.3}
_HEADERS = {"f16": "cuda_fp16.h", "bf16": "cuda_bf16.h", "e4m3": "cuda_fp8.h", "e5m2": "cuda_fp8.h"}


def trial_program(interface: Interface, title: str, given: Mapping[str, int]) -> str:
    """The text of the test program.

    Args:
        title: the comments at its head.
        given: sizes that it computes, beside two tiles, parts of one, and ones.
    """
    launches = plain_launches(interface.tree.kernel)
    sizes = [interface.names[size] for size in interface.sizes]
    numbers = {scalar.name: _number(scalar) for scalar in interface.scalars}
    arguments = [numbers.get(name, f"array_{interface.names[name]}.data") for name in interface.order]
    includes = {f"#include <{_HEADERS[t.dtype]}>" for t in interface.tensors if t.dtype in _HEADERS}
    tried = sizes_to_check([interface.tree], {}) + (sizes_to_check([interface.tree], given)[:1] if given else [])
    text = fill(
        "trial.cuh",
        "program",
        title=title,
        name=interface.name,
        header=interface.header,
        includes="\n".join(sorted(includes | set(include_lines(launches)))),
        reference=reference_text(launches),
        parameters=", ".join(f"int64_t {size}" for size in sizes),
        arrays="\n".join(_arrays(interface)),
        sizes=", ".join(sizes),
        shown=", ".join([_shown(interface), *(f"static_cast<long long>({size})" for size in sizes)]),
        arguments=", ".join([*arguments, *sizes, "workspace.data", "bytes", "nullptr"]),
        loops="\n".join(_loops(interface, launches)),
        differing=" + ".join(_differing(interface)),
        calls="\n".join(f"    wrong += run({', '.join(str(each[s]) for s in interface.sizes)});" for each in tried),
    )
    return wrap_code(text)


def _arrays(interface: Interface) -> list[str]:
    write = SizeWriter(interface, "")
    return [
        f"    Array<{CUDA.types[t.dtype]}> array_{interface.names[t.name]}({_count(t.shape, write)}, {number});"
        for number, t in enumerate(interface.tensors, 1)
    ]


def _count(shape: Sequence[Affine], write: SizeWriter) -> str:
    return " * ".join(f"({text})" if " " in (text := write.value(extent)) else text for extent in shape) or "1"


def _shown(interface: Interface) -> str:
    sizes = ", ".join(f"{size} = %lld" for size in interface.sizes)
    return f'"{interface.name}{": " if sizes else ""}{sizes}\\n"'


def _loops(interface: Interface, launches: Sequence[Launch]) -> list[str]:
    """The calls of the plain loops, behind the arrays that lie between them."""
    write, given = SizeWriter(interface, ""), {t.name for t in interface.tensors}
    between: dict[str, str] = {}
    lines = []
    for launch in launches:
        for name in launch.tensors:
            if memory_of(name) not in given and name not in between:
                buffer, between[name] = launch.buffers[name], f"scratch_{len(between)}"
                count = _count(buffer.shape, write)
                lines.append(f"    std::vector<{CUDA.types[buffer.dtype]}> {between[name]}({count});")
        arguments = [
            f"{between[name]}.data()" if name in between else f"array_{interface.names[memory_of(name)]}.expected"
            for name in launch.tensors
        ]
        arguments += [_number(scalar) for scalar in launch.scalars]
        arguments += [interface.names[size] for size in launch.sizes]
        lines.append(f"    reference::{launch.name}({', '.join(arguments)});")
    return lines


def _differing(interface: Interface) -> list[str]:
    """What is read alone has to be as it was."""
    return [
        f'array_{interface.names[t.name]}.differing("{t.name}", '
        f"{_TOLERANCE.get(t.dtype, 0.0) if interface.is_written(t) else 0.0})"
        for t in interface.tensors
    ]


def _number(scalar: Scalar) -> str:
    """What every call gives for a number."""
    if scalar.dtype in FLOATS:
        return f"static_cast<{scalar_type(scalar)}>(1.5)"
    return "true" if scalar.dtype == "bool" else f"static_cast<{scalar_type(scalar)}>(3)"
