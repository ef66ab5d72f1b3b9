"""What the sizes of a call are checked for in C++: the sentences are those of a call from Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilegen.export.c_names import Interface, SizeWriter
from tilegen.ir.affine import Affine
from tilegen.ir.printing.show import show_fact


@dataclass(frozen=True)
class Refusal:
    """A test of what is refused, and what is said then: a format of printf, and its values."""

    test: str
    sentence: str


def words_of_checks(interface: Interface) -> dict[str, Any]:
    """What `sizes.cuh` takes: when no output has an element, and what is refused of sizes, and of extents."""
    write = SizeWriter(interface)
    return {
        "interface": interface,
        "names": interface.names,
        "empty": _emptiness(interface, write),
        "facts": list(_refused_facts(interface, write)),
        "extents": list(_refused_extents(interface, write)),
    }


def _emptiness(interface: Interface, write: SizeWriter) -> str:
    tensors = interface.tree.kernel.written_kernel.tensors
    outputs = [t for t in tensors if t.role == "output"]
    if any(all(extent.is_const and extent.const for extent in t.shape) for t in outputs):
        return "false"
    extents = dict.fromkeys(write.value(e) for t in tensors for e in t.shape if not e.is_const)
    empty = [[f"{write.value(e)} == 0" for e in t.shape if not e.is_const or not e.const] for t in outputs]
    tests = [f"({' || '.join(each)})" if len(each) > 1 else each[0] for each in dict.fromkeys(map(tuple, empty))]
    return " && ".join([*(f"{extent} >= 0" for extent in extents), *tests])


def _refused_facts(interface: Interface, write: SizeWriter) -> Iterator[Refusal]:
    for condition in interface.tree.kernel.assumptions:
        said = f"kernel '{interface.name}' is for {_escaped(show_fact(condition))} only"
        yield _refusal(interface, f"!({write.condition(condition)})", said, condition.value)


def _refused_extents(interface: Interface, write: SizeWriter) -> Iterator[Refusal]:
    """Extents that are neither a number nor a size, which is checked by itself."""
    for tensor in interface.tree.kernel.written_kernel.tensors:
        for extent in tensor.shape:
            if not extent.is_const and not str(extent).isidentifier():
                shape = ", ".join(map(_escaped, tensor.shape))
                said = f"{tensor.name}[{shape}] has an extent {_escaped(extent)} below 1"
                yield _refusal(interface, f"{write.value(extent)} < 1", said, extent)


def _refusal(interface: Interface, test: str, said: str, value: Affine) -> Refusal:
    names = sorted(value.names())
    values = ", ".join(f"{name} = %lld" for name in names)
    shown = "".join(f", shown(size.{interface.names[name]})" for name in names)
    return Refusal(test, f'"{said}, and {values}"{shown}' if names else f'"{said}"')


def _escaped(value: object) -> str:
    """In a format of printf."""
    return str(value).replace("%", "%%")
