"""The test program of an exported kernel: small results beside those of plain loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilegen.backends.text.values.dialect import CUDA
from tilegen.export.c_names import Interface, SizeWriter, scalar_type
from tilegen.export.lines import fill
from tilegen.export.reference import include_lines, plain_launches, reference_text
from tilegen.ir.affine import Affine
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import FLOATS, Buffer, Scalar
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
    sizes = interface.own_sizes
    numbers = {scalar.name: _number(scalar) for scalar in interface.scalars}
    arguments = [numbers.get(name, f"array_{interface.names[name]}.data") for name in interface.order]
    includes = {f"#include <{_HEADERS[t.dtype]}>" for t in interface.tensors if t.dtype in _HEADERS}
    tried = sizes_to_check([interface.tree], {}) + (sizes_to_check([interface.tree], given)[:1] if given else [])
    return fill(
        "trial.cuh",
        title=title,
        name=interface.name,
        interface=interface,
        names=interface.names,
        types=CUDA.types,
        say=_Loops(interface, launches),
        includes=sorted(includes | set(include_lines(launches))),
        reference=reference_text(launches),
        parameters=", ".join(interface.size_parameters),
        own_sizes=", ".join(sizes),
        shown=", ".join([_shown(interface), *(f"static_cast<long long>({size})" for size in sizes)]),
        arguments=", ".join([*arguments, *sizes, "workspace.data", "bytes", "nullptr"]),
        differing=" + ".join(_differing(interface)),
        tried=[[each[size] for size in interface.sizes] for each in tried],
    )


class _Loops:
    """The calls of the plain loops, each with the arrays to make before it, which it fills for a later one."""

    def __init__(self, interface: Interface, launches: Sequence[Launch]) -> None:
        self._interface, self._write = interface, SizeWriter(interface, "")
        self._between, given = dict[str, str](), {t.name for t in interface.tensors}
        self.calls: list[tuple[Launch, list[tuple[str, Buffer]]]] = []
        for launch in launches:
            fresh = [n for n in launch.tensors if memory_of(n) not in given and n not in self._between]
            self._between |= {name: f"scratch_{len(self._between) + n}" for n, name in enumerate(fresh)}
            self.calls.append((launch, [(self._between[name], launch.buffers[name]) for name in fresh]))

    def count_of(self, shape: Sequence[Affine]) -> str:
        """How many elements there are."""
        texts = map(self._write.value, shape)
        return " * ".join(f"({text})" if " " in text else text for text in texts) or "1"

    def arguments_of(self, launch: Launch) -> str:
        names = self._interface.names
        found = [
            f"{self._between[name]}.data()" if name in self._between else f"array_{names[memory_of(name)]}.expected"
            for name in launch.tensors
        ]
        return ", ".join([*found, *map(_number, launch.scalars), *(names[size] for size in launch.sizes)])


def _shown(interface: Interface) -> str:
    sizes = ", ".join(f"{size} = %lld" for size in interface.sizes)
    return f'"{interface.name}{": " if sizes else ""}{sizes}\\n"'


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
