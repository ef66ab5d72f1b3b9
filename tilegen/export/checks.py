"""What a call is checked for before anything is launched, in C++: the sentences are those of a call from Python."""

from __future__ import annotations

from tilegen.export.c_names import Interface, SizeWriter
from tilegen.export.lines import fill
from tilegen.ir.affine import Affine
from tilegen.ir.nodes import DTYPE_BYTES, Condition, Tensor
from tilegen.ir.printing.show import show_fact

WORKSPACE_ALIGNMENT = 256


def check_parts(interface: Interface, write: SizeWriter) -> list[str]:
    """The functions that check sizes, and arrays."""
    spans = [f"        {_span(interface, tensor, write)}," for tensor in interface.tensors]
    arrays = fill("launcher.cuh", "arrays", spans="\n".join(spans), alignment=f"{WORKSPACE_ALIGNMENT}u")
    return [size_checks(interface, write), arrays]


def size_checks(interface: Interface, write: SizeWriter) -> str:
    """The functions that check sizes alone."""
    lines = "\n".join(_size_lines(interface, write))
    return fill("launcher.cuh", "sizes", empty=_emptiness(interface, write), lines=lines)


def _size_lines(interface: Interface, write: SizeWriter) -> list[str]:
    kernel = interface.tree.kernel.written_kernel
    lines = ["    const int least = has_no_output(size) ? 0 : 1;"] if interface.sizes else []
    for size in interface.sizes:
        call = f'check_size("{size}", size.{interface.names[size]}, least)'
        lines += [f"    if (cudaError_t error = {call})", "        return error;"]
    for condition in kernel.assumptions:
        lines += _fact_lines(interface, condition, write)
    extents = [(t, e) for t in kernel.tensors for e in t.shape if not e.is_const and not _is_size(e)]
    lines += ["    if (least == 0)", "        return cudaSuccess;"] if extents else []
    for tensor, extent in extents:
        lines += _extent_lines(interface, tensor, extent, write)
    return lines


def _emptiness(interface: Interface, write: SizeWriter) -> str:
    tensors = interface.tree.kernel.written_kernel.tensors
    outputs = [t for t in tensors if t.role == "output"]
    if any(all(extent.is_const and extent.const for extent in t.shape) for t in outputs):
        return "false"
    extents = dict.fromkeys(write.value(e) for t in tensors for e in t.shape if not e.is_const)
    empty = [[f"{write.value(e)} == 0" for e in t.shape if not e.is_const or not e.const] for t in outputs]
    tests = [f"({' || '.join(each)})" if len(each) > 1 else each[0] for each in dict.fromkeys(map(tuple, empty))]
    return " && ".join([*(f"{extent} >= 0" for extent in extents), *tests])


def _is_size(extent: Affine) -> bool:
    return str(extent).isidentifier()


def _fact_lines(interface: Interface, condition: Condition, write: SizeWriter) -> list[str]:
    said = f"kernel '{interface.name}' is for {_escaped(show_fact(condition))} only"
    return _refusal(interface, f"!({write.condition(condition)})", said, condition.value)


def _extent_lines(interface: Interface, tensor: Tensor, extent: Affine, write: SizeWriter) -> list[str]:
    shape = ", ".join(map(_escaped, tensor.shape))
    said = f"{tensor.name}[{shape}] has an extent {_escaped(extent)} below 1"
    return _refusal(interface, f"{write.value(extent)} < 1", said, extent)


def _refusal(interface: Interface, test: str, said: str, value: Affine) -> list[str]:
    names = sorted(value.names())
    values = ", ".join(f"{name} = %lld" for name in names)
    shown = "".join(f", shown(size.{interface.names[name]})" for name in names)
    sentence = f"{said}, and {values}" if names else said
    return [f"    if ({test})", f'        return fail(cudaErrorInvalidValue, "{sentence}"{shown});']


def _escaped(value: object) -> str:
    """In a format of printf."""
    return str(value).replace("%", "%%")


def _span(interface: Interface, tensor: Tensor, write: SizeWriter) -> str:
    bytes_ = DTYPE_BYTES[tensor.dtype]
    name = interface.names[tensor.name]
    size = f"{write.product(tensor.shape)} * {bytes_}"
    return f'{{"{tensor.name}", given.{name}, {size}, {bytes_}, {str(interface.is_written(tensor)).lower()}}}'
