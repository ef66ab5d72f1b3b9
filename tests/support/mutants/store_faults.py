"""Faults in bulk stores, put into a lowered program: each function gives the launches with its kind."""

from __future__ import annotations

from dataclasses import replace

from tests.support.mutants.kinds import is_start_of_stores, is_store, is_wait_for_stores
from tests.support.mutants.places import each, edited, nodes, of
from tilegen.ir.affine import const
from tilegen.ir.nodes import Condition
from tilegen.lowering.launch.program import For, If, Start
from tilegen.lowering.launch.timelines import Await, Barrier


def fence_dropped(launch):
    return each(launch, Barrier, lambda n: [(replace(n, fence=False),)] if n.fence else [])


def barrier_dropped(launch):
    return each(launch, Barrier, lambda n: [()])


def wait_dropped(launch):
    return each(launch, is_wait_for_stores, lambda n: [()])


def wait_twice(launch):
    return each(launch, is_wait_for_stores, lambda n: [(n, n)])


@of(If)
def wait_by_another_thread(node, launch):
    """That has started no store."""
    if is_wait_for_stores(node.body[-1]):
        for by in (1, 32):
            moved = tuple(Condition(c.value - by, equal=True) if c.equal else c for c in node.test)
            yield (replace(node, body=node.body[:-1]), If(moved, node.body[-1:]))


@of(If)
def wait_ahead_of_the_stores(node, launch):
    if [type(v) for v in node.body] == [Start, Await]:
        yield (replace(node, body=node.body[::-1]),)


def wait_behind_the_barrier(launch):
    def change(node):
        for n, (one, two) in enumerate(zip(node.body, node.body[1:], strict=False) if isinstance(node, For) else ()):
            if isinstance(one, If) and is_wait_for_stores(one.body[-1]) and isinstance(two, Barrier):
                yield (replace(node, body=(*node.body[:n], two, one, *node.body[n + 2 :])),)

    return edited(launch, change)


@of(If)
def started_by_all_threads(node, launch):
    if is_start_of_stores(node.body[0]):
        yield (If(kept, node.body),) if (kept := tuple(c for c in node.test if not c.equal)) else node.body


@of(If)
def started_by_another_thread(node, launch):
    """Than the one that waits."""
    if is_start_of_stores(node.body[0]):
        moved = tuple(Condition(c.value - 1, equal=True) if c.equal else c for c in node.test)
        yield (If(moved, node.body[:1]), replace(node, body=node.body[1:]))


def stored_twice(launch):
    return each(launch, lambda n: is_start_of_stores(n) or is_store(n), lambda n: [(n, n)])


def stored_never(launch):
    return each(launch, is_start_of_stores, lambda n: [()])


def in_no_group(launch):
    return each(launch, is_start_of_stores, lambda n: [n.body])


@of(For)
def fewer_boxes(node, launch):
    if is_store(node.body[0]):
        yield (replace(node, extent=node.extent - 1),)


@of(is_store)
def wrong_coordinate(node, launch):
    for n, coordinate in enumerate(node.coordinates):
        for by in (1, -4):
            moved = (*node.coordinates[:n], coordinate + by, *node.coordinates[n + 1 :])
            yield (replace(node, coordinates=moved),)
    yield (replace(node, coordinates=node.coordinates[::-1]),)


@of(is_store)
def wrong_place(node, launch):
    index = node.place.index
    for d, place in enumerate(index):
        moved = replace(node.place, index=(*index[:d], place + 4, *index[d + 1 :]))
        yield (replace(node, place=moved),)


def wrong_memory(launch):
    """Another swizzle of the buffer, or one that begins anywhere."""
    for name in {n.place.buffer for _, n in nodes(launch.body) if is_store(n)}:
        buffer = launch.buffers[name]
        if buffer.swizzle:
            off = {"first": replace(buffer, name="first", swizzle=None, shape=(const(8),), order=(0,), align=16)}
            yield replace(launch, buffers=dict(launch.buffers) | {name: replace(buffer, swizzle=None)})
            yield replace(launch, buffers=off | dict(launch.buffers) | {name: replace(buffer, align=16)})
        yield replace(launch, buffers=dict(launch.buffers) | {name: replace(buffer, pad=4)})
