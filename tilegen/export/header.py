"""The C header: what a caller gives to the kernel, and what is said of it."""

from __future__ import annotations

from tilegen.backends.text.arrays import scratch_buffers
from tilegen.backends.text.wrap import wrap_line
from tilegen.export.c_names import Interface
from tilegen.export.lines import fill
from tilegen.ir.nodes import SHORT_FLOATS, Tensor
from tilegen.ir.printing.show import show_fact

CHOICE = (
    "The kernel has several versions, for sizes and addresses of arrays; a launch takes the first one that is right."
)


def header(interface: Interface, title: str, choice: str = CHOICE) -> str:
    """The text of the header; `title` are the comments at its head, `choice` says what a launch takes."""
    return fill(
        "header.cuh",
        interface=interface,
        name=interface.name,
        title=title,
        about=_about(interface),
        workspace=_about_workspace(interface),
        choice=choice,
    )


def _about(interface: Interface) -> list[str]:
    kernel = interface.tree.kernel.written_kernel
    lines = ["Queues the kernel on the stream, for arrays on the current GPU:"]
    lines += [f"  {describe_tensor(interface, t)}" for t in interface.tensors]
    for scalar in interface.scalars:
        rounded = "a number that is rounded to " if scalar.dtype in SHORT_FLOATS else ""
        lines.append(f"  {interface.names[scalar.name]}: {rounded}{scalar.dtype}")
    lines.append("Elements lie one after another, the last dimension the fastest where nothing else is said.")
    if kernel.sizes:
        facts = "".join(f", {show_fact(condition)}" for condition in interface.tree.kernel.assumptions)
        lines.append(f"Sizes are at least 1, or 0 where all outputs are empty{facts}.")
    lines.append(
        "What is written shares no memory with the rest. Nothing is waited for: a fault on the GPU is reported later."
    )
    return [part for line in lines for part in wrap_line(f"// {line}")]


def describe_tensor(interface: Interface, tensor: Tensor) -> str:
    """A[M, K], f32, read: for a reader of the header."""
    read = any(t.role == "input" and t.name.removesuffix(".old") == tensor.name for t in interface.tree.kernel.tensors)
    use = "written" if interface.is_written(tensor) else "read"
    use = "updated" if use == "written" and read else use
    order = ""
    if tensor.order != tuple(range(len(tensor.order))):
        order = f", its dimensions {', '.join(map(str, tensor.order))} from the slowest to the fastest"
    shape = ", ".join(map(str, tensor.shape))
    return f"{interface.names[tensor.name]}: {tensor.dtype}[{shape}], {use}{order}"


def _about_workspace(interface: Interface) -> list[str]:
    scratch = scratch_buffers(interface.tree)
    if not scratch:
        return ["// The bytes of scratch memory that a call needs at these sizes: none, so that it takes NULL and 0."]
    parts = [f"{interface.names[b.name]}: {b.dtype}[{', '.join(map(str, b.shape))}]" for b in scratch]
    line = f"The bytes of scratch memory between launches that a call needs at these sizes, for {', '.join(parts)}."
    lines = [
        line,
        "The workspace begins at a multiple of 256; calls that may run at once have one each. 0 for wrong sizes.",
    ]
    return [part for line in lines for part in wrap_line(f"// {line}")]
