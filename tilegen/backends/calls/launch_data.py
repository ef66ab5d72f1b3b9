"""What a caller of a text has to know, as plain data: arrays, arguments in order, grid, shared memory, requirements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilegen.backends.compiler.tensor_maps import DATA_TYPES
from tilegen.backends.text import STATIC_SHARED_LIMIT, parameters_of
from tilegen.backends.text.arrays import scratch_buffers, scratch_extents
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import DTYPE_BYTES, Buffer, Tensor, Tree
from tilegen.lowering import Launch
from tilegen.lowering.integers.integers import elements
from tilegen.lowering.launch.tensor_maps import TensorMap


def kernel_data(tree: Tree) -> dict[str, Any]:
    """The kernel's tensors, numbers and sizes, what `where` says of these, and its scratch arrays."""
    kernel = tree.kernel.written_kernel
    roles: dict[str, str] = {}
    for tensor in kernel.tensors:
        if tensor.role != "intermediate":
            name = memory_of(tensor.name)
            roles[name] = "updated" if name in roles else tensor.role
    memory = {memory_of(tensor.name): tensor for tensor in kernel.tensors}
    return {
        "kernel": kernel.name,
        "tensors": [_tensor_data(name, role, memory[name]) for name, role in roles.items()],
        "scalars": [{"name": s.name, "dtype": s.dtype} for s in kernel.scalars],
        "sizes": kernel.sizes,
        "where": [str(condition) for condition in kernel.assumptions],
        "scratch": [scratch_data(buffer) for buffer in scratch_buffers(tree)],
    }


def _tensor_data(name: str, role: str, tensor: Tensor) -> dict[str, Any]:
    shape = [str(extent) for extent in tensor.shape]
    return {"name": name, "dtype": tensor.dtype, "shape": shape, "order": tensor.order, "role": role}


def scratch_data(buffer: Buffer) -> dict[str, Any]:
    """A scratch array: its extents in memory, slowest first, and the bytes of all elements, as products in sizes."""
    extents = scratch_extents(buffer)
    return {
        "name": buffer.name,
        "dtype": buffer.dtype,
        "extents": [str(extent) for extent in extents],
        "bytes": "*".join([str(DTYPE_BYTES[buffer.dtype]), *(f"({extent})" for extent in extents)]),
    }


def dynamic_shared_bytes(launch: Launch) -> int:
    """The shared memory that a launch asks for in CUDA; what is declared in the text is no part of it."""
    return launch.shared_bytes if launch.shared_bytes > STATIC_SHARED_LIMIT else 0


def launch_data(launch: Launch, language: str = "cuda") -> dict[str, Any]:
    """One launch: its arguments in their order with their types in C, dimensions, and what it is for."""
    return {
        "name": launch.name,
        "arguments": _arguments(launch, language),
        "arrays": launch.tensors,
        "scalars": [scalar.name for scalar in launch.scalars],
        "sizes": launch.sizes,
        "grid": [str(extent) for extent in launch.grid],
        "cluster": launch.cluster.dims if launch.cluster else None,
        "block": launch.launched_block,
        "shared_bytes": launch.shared_bytes,
        "dynamic_shared_bytes": dynamic_shared_bytes(launch) if language == "cuda" else 0,
        "dependent": launch.dependent,
        "attributes": [name for name, _ in launch.asks],
        "tensor_maps": [_map_data(each) for each in launch.maps],
        **needs_data([launch]),
    }


def needs_data(launches: Sequence[Launch]) -> dict[str, Any]:
    """What has to hold of sizes, of the elements of each tensor, and of addresses, in bytes."""
    return {
        "requires": list(dict.fromkeys(str(c) for each in launches for c in (*each.requires, *each.fitting))),
        "fewer_elements_than": elements(launches[0].wide),
        "alignment": {name: by for each in launches for name, by in each.alignment.items()},
    }


def _arguments(launch: Launch, language: str) -> list[dict[str, str]]:
    """In order: the name and type in C, what kind of argument it is, and what of the kernel, or of a tensor map."""
    meant = [*launch.tensors, *(m.name for m in launch.maps), *(s.name for s in launch.scalars), *launch.sizes]
    parameters = parameters_of(launch, language)
    return [
        {"name": name, "type": kind, "is": what, "of": of}
        for (what, name, kind), of in zip(parameters, meant, strict=True)
    ]


def _box_data(each: TensorMap) -> dict[str, Any]:
    if not each.windows:
        return {"box": each.reach}
    upper = [str(end) for end in each.upper]
    return {"im2col": {"lower": each.lower, "upper": upper, "channels": each.box[0], "pixels": each.pixels}}


def _map_data(each: TensorMap) -> dict[str, Any]:
    return {
        "name": each.name,
        "describes": each.buffer,
        "type": f"CU_TENSOR_MAP_DATA_TYPE_{DATA_TYPES[each.dtype][0]}",
        "dimensions": [str(extent) for extent in each.shape],
        "element_bytes": DTYPE_BYTES[each.dtype],
        **_box_data(each),
        "element_strides": each.steps,
        "swizzle_bytes": each.swizzle,
    }
