"""Bulk stores in CUDA: the lines that call the functions of bulk.cuh."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tilegen.backends.text.bulk import coordinates_of, first_place
from tilegen.backends.text.expr import Writer
from tilegen.lowering.bulk_nodes import BulkStore, BulkStores, StoreNode, StoresRead
from tilegen.lowering.program import Spmd


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
