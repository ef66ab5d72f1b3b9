"""Scheduled kernels as operators of torch: with shapes for tracing, and with a gradient where one is given.

torch itself is imported when an operator is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from tilegen.api import Kernel as KernelOfFile
from tilegen.api import Scheduled
from tilegen.backends.calls.arrays import AS_BITS, NUMPY_NAME, bare, infer_sizes, other_type, shape_of, strides_of
from tilegen.errors import UsageError
from tilegen.installation import install
from tilegen.ir.nodes import FLOATS, Kernel, Tensor

_DEVICES = ("cpu", "cuda")


def op(
    scheduled: Scheduled | KernelOfFile,
    name: str,
    *,
    backward: Callable[..., Any] | None = None,
    unproved: bool = False,
) -> Callable[..., Any]:
    """The kernel as an operator `name` of torch, which torch.compile takes as a whole; of a kernel without a schedule
    what its `compile` gives.

    It takes the kernel's inputs in their order, tensors and numbers, and by name the sizes that no tensor tells. It
    returns the outputs; what is an input and an output is written into, and not returned. It is compiled for the
    device of its tensors at the first call.

        scale = tilegen.torch.op(scheduled, "mine::scale", backward=lambda ctx, grad: (None, 2 * grad))

    Args:
        name: "namespace::operator", which no other operator has.
        backward: `backward(ctx, *grads)` gives the gradient of each input, None for numbers; `ctx.saved_tensors` are
            the tensors among the inputs, then the outputs. Without it, an input that requires a gradient is refused.
        unproved: as `compile` has it.

    Raises:
        UsageError: torch is missing, `name` is no such name or is taken, no input is a tensor, or there is a
            `backward` for a kernel that updates in place.
    """
    torch = _import_torch()
    kernel = _kernel_of(scheduled)
    _check(kernel, name, backward)
    exact = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
    try:
        torch.library.define(name, schema_of(kernel), tags=(torch.Tag.pt2_compliant_tag, exact))
    except RuntimeError as error:
        raise UsageError(f"torch takes no operator {name}: {str(error).splitlines()[0]}") from None
    for device in _DEVICES:
        torch.library.impl(name, device, _call_on(device, scheduled, unproved))
    torch.library.register_fake(name, _fake(torch, kernel, records=backward is not None))
    if backward is not None:
        torch.library.register_autograd(name, backward, setup_context=_saver(torch, kernel))
    namespace, _, word = name.partition("::")
    made: Callable[..., Any] = getattr(getattr(torch.ops, namespace), word).default
    return made


def schema_of(kernel: Kernel) -> str:
    """The operator's signature as torch writes it: (Tensor A, float alpha, *, SymInt N) -> Tensor."""
    scalars = {scalar.name: scalar.dtype for scalar in kernel.scalars}
    updated = {tensor.name for tensor in _outputs(kernel)} & set(kernel.parameters)
    parts: list[str] = []
    for name in kernel.parameters:
        if name in scalars:
            kind = "float" if scalars[name] in FLOATS else "bool" if scalars[name] == "bool" else "int"
        else:
            kind = f"Tensor(a{len(parts)}!)" if name in updated else "Tensor"
        parts.append(f"{kind} {name}")
    sizes = sizes_by_name(kernel)
    parts += ["*", *(f"SymInt {size}" for size in sizes)] if sizes else []
    results = ["Tensor"] * sum(tensor.name not in updated for tensor in _outputs(kernel))
    returned = results[0] if len(results) == 1 else f"({', '.join(results)})"
    return f"({', '.join(parts)}) -> {returned}"


def sizes_by_name(kernel: Kernel) -> tuple[str, ...]:
    """The sizes that no input's shape tells, which a call gives by name."""
    known: set[str] = set()
    for _ in kernel.sizes:
        for tensor in _inputs(kernel).values():
            for extent in tensor.shape:
                unknown = extent.names() - known
                known |= {size for size in unknown if len(unknown) == 1 and extent.linear_in(size)}
    return tuple(size for size in kernel.sizes if size not in known)


def _import_torch() -> Any:
    try:
        return import_module("torch")
    except ImportError:
        raise UsageError("torch is not installed", notes=(install("torch"),)) from None


def _check(kernel: Kernel, name: str, backward: Callable[..., Any] | None) -> None:
    if not re.fullmatch(r"[A-Za-z_]\w*::[A-Za-z_]\w*", name):
        raise UsageError(f"'{name}' is no name of an operator", notes=('they are like "mine::scale"',))
    if not _inputs(kernel):
        notes = ("torch finds the device of an operator by its tensors",)
        raise UsageError(f"kernel '{kernel.name}' has no tensor among its inputs", notes=notes)
    updated = [tensor.name for tensor in _outputs(kernel) if tensor.name in kernel.parameters]
    if updated and backward is not None:
        notes = ("torch takes gradients of operators that return new tensors",)
        raise UsageError(f"kernel '{kernel.name}' updates {updated[0]} in place, and has no gradient", notes=notes)


def _kernel_of(scheduled: Scheduled | KernelOfFile) -> Kernel:
    return (scheduled.kernel if isinstance(scheduled, Scheduled) else scheduled.ir).written_kernel


def _outputs(kernel: Kernel) -> list[Tensor]:
    return [tensor for tensor in kernel.tensors if tensor.role == "output"]


def _inputs(kernel: Kernel) -> dict[str, Tensor]:
    """The tensors among the parameters, by name."""
    scalars = {scalar.name for scalar in kernel.scalars}
    return {name: kernel.tensor(name) for name in kernel.parameters if name not in scalars}


def _call_on(device: str, scheduled: Scheduled | KernelOfFile, unproved: bool) -> Callable[..., Any]:
    """What the operator does on a device; its first call compiles."""
    kernel, compiled = _kernel_of(scheduled), list[Any]()
    outputs = _outputs(kernel)
    returned = [n for n, tensor in enumerate(outputs) if tensor.name not in kernel.parameters]

    def call(*arguments: Any, **sizes: int) -> Any:
        if not compiled:
            compiled.append(scheduled.compile(device=device, unproved=unproved))
        found = compiled[0](*arguments, **sizes)
        if len(returned) == len(outputs):
            return found
        every = found if isinstance(found, tuple) else (found,)
        return _result(tuple(every[n] for n in returned))

    return call


def _result(results: tuple[Any, ...]) -> Any:
    """As torch wants it: one alone, none as None."""
    return results[0] if len(results) == 1 else results or None


def _dtype(torch: Any, tensor: Tensor) -> Any:
    return getattr(torch, AS_BITS.get(tensor.dtype, NUMPY_NAME[tensor.dtype]))


def _fake(torch: Any, kernel: Kernel, *, records: bool) -> Callable[..., Any]:
    """What the operator returns for tensors without memory, from which torch learns shapes and refusals."""
    inputs, updated = _inputs(kernel), set(kernel.parameters)

    def empty(tensor: Tensor, sizes: Mapping[str, int], device: Any) -> Any:
        shape = shape_of(tensor, sizes)
        if tensor.order == tuple(range(len(shape))):
            return torch.empty(shape, dtype=_dtype(torch, tensor), device=device)
        strides = strides_of(shape, tensor.order, 1)
        return torch.empty_strided(shape, strides, dtype=_dtype(torch, tensor), device=device)

    def fake(*arguments: Any, **sizes: int) -> Any:
        given = {name: a for name, a in zip(kernel.parameters, arguments, strict=True) if name in inputs}
        for name, array in given.items():
            if array.dtype != _dtype(torch, inputs[name]):
                raise other_type(inputs[name], str(array.dtype).removeprefix("torch."))
            if not records:
                bare(torch, array, name)
        found = infer_sizes(kernel, {name: tuple(array.shape) for name, array in given.items()}, sizes)
        device = next(iter(given.values())).device
        return _result(tuple(empty(t, found, device) for t in _outputs(kernel) if t.name not in updated))

    return fake


def _saver(torch: Any, kernel: Kernel) -> Callable[..., None]:
    """What keeps the tensors of a call for its backward."""

    def save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        results = output if isinstance(output, tuple) else (output,)
        ctx.save_for_backward(*(each for each in inputs if isinstance(each, torch.Tensor)), *results)

    def save_with_sizes(ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: Any, output: Any) -> None:
        save(ctx, inputs, output)

    return save_with_sizes if sizes_by_name(kernel) else save
