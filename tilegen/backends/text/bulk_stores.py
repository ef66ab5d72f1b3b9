"""Bulk stores in CUDA: the functions that stand before the kernels of a text, and the lines that call them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tilegen.backends.text.bulk import box_function, coordinates_of, first_place
from tilegen.backends.text.expr import Writer
from tilegen.lowering.bulk_nodes import BulkStore, BulkStores, StoreNode, StoresRead
from tilegen.lowering.program import Spmd

_STORE_BOX = """\
// Starts the store of a box from shared memory to a tensor; what is beyond the tensor is not written.
__device__ __forceinline__ void store_box_{rank}d(const TensorMap& map, const void* from, {typed})
{{
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(from));
    asm volatile("cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%0, {{{numbers}}}], [%1];"
                 ::"l"(&map), "r"(place), {operands} : "memory");
}}"""


STORE_FUNCTIONS = {
    **{f"store_box_{rank}d(": box_function(_STORE_BOX, rank, 2) for rank in range(1, 6)},
    "end_stores(": """\
// The stores that this thread has started since the last time are a group.
__device__ __forceinline__ void end_stores()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}""",
    "wait_stores_read(": """\
// Waits until all groups of stores of this thread have read shared memory.
__device__ __forceinline__ void wait_stores_read()
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}""",
}


def store_lines(node: StoreNode, writer: Writer, lines: Callable[[Iterable[Spmd]], list[str]]) -> list[str]:
    """The lines of a node; `lines` writes those inside of it."""
    match node:
        case BulkStores(body):
            return [*lines(body), "end_stores();"]
        case StoresRead(buffers):
            names = f"{', '.join(buffers[:-1])} and {buffers[-1]} have" if buffers[1:] else f"{buffers[0]} has"
            return [f"wait_stores_read();  // {names} been read"]
        case BulkStore(source, name, coordinates):
            given = [writer.names[name], first_place(source, writer), *coordinates_of(coordinates, writer)]
            return [f"store_box_{len(coordinates)}d({', '.join(given)});"]
