"""Faults in bulk copies, put into a lowered program: each function gives the launches with its kind."""

from __future__ import annotations

from dataclasses import replace

from tests.support.mutants.kinds import is_copy, is_start_of_copies, is_wait
from tests.support.mutants.places import each, edited, nodes, of
from tilegen.ir.affine import const
from tilegen.lowering.launch.program import For, If, with_lists
from tilegen.lowering.launch.timelines import BLOCK, Barrier, Fence, StartBarriers


def moved(barrier, by, launch):
    """Another barrier of the same array."""
    stages = launch.buffers[barrier.buffer].shape[0].const
    return replace(barrier, index=((barrier.index[0] + by) % stages,)) if stages > 1 else barrier


def wait_dropped(launch):
    return each(launch, is_wait, lambda n: [()])


def wait_twice(launch):
    return each(launch, is_wait, lambda n: [(n, n)])


def loads_unfenced(launch):
    """Nothing holds the next copies until those who have loaded have what they asked for, their own thread neither."""
    unheld = replace(launch, body=_without_fences(launch.body))
    return each(unheld, Barrier, lambda n: [(replace(n, fence=False),)] if n.fence else [])


def _without_fences(body):
    return tuple(with_lists(n, _without_fences) for n in body if not (isinstance(n, Fence) and n.line == BLOCK))


def wait_phase(launch):
    """Of the phase before or after; the parity is the same wrong one."""
    return each(launch, is_wait, lambda n: [(replace(n, number=n.number + by),) for by in (1, -1)])


@of(is_wait)
def wait_stage(node, launch):
    if moved(node.barrier, 1, launch) != node.barrier:
        yield (replace(node, at=moved(node.barrier, 1, launch)),)


def wait_by_one_thread(launch):
    first = tuple(c for _, n in nodes(launch.body) if isinstance(n, If) for c in n.test if c.equal)[:1]
    return each(launch, is_wait, lambda n: [(If(first, (n,)),)])


def wait_names_others(launch):
    return each(launch, is_wait, lambda n: [(replace(n, buffers=("other",)),)])


@of(is_start_of_copies)
def arrival_stage(node, launch):
    if moved(node.barrier, 1, launch) != node.barrier:
        yield (replace(node, at=moved(node.barrier, 1, launch)),)


def arrival_of_no_copy(launch):
    return each(launch, is_start_of_copies, lambda n: [n.body])


def arrival_dropped(launch):
    return each(launch, is_start_of_copies, lambda n: [()])


@of(If)
def arrival_by_all_threads(node, launch):
    if is_start_of_copies(node.body[0]):
        yield (If(kept, node.body),) if (kept := tuple(c for c in node.test if not c.equal)) else node.body


def arrival_twice(launch):
    return each(launch, is_start_of_copies, lambda n: [(n, n)])


def wrong_bytes(launch):
    return each(launch, is_start_of_copies, lambda n: [(replace(n, count=n.count + by),) for by in (16, -16)])


@of(is_copy)
def wrong_coordinate(node, launch):
    for n, coordinate in enumerate(node.coordinates):
        yield (replace(node, coordinates=(*node.coordinates[:n], coordinate + 1, *node.coordinates[n + 1 :])),)


@of(is_copy)
def wrong_place(node, launch):
    index = node.place.index
    for d, place in enumerate(index):
        yield (replace(node, place=replace(node.place, index=(*index[:d], place + 8, *index[d + 1 :]))),)


@of(is_copy)
def other_barrier_for_a_copy(node, launch):
    if moved(node.barrier, 1, launch) != node.barrier:
        yield (replace(node, at=moved(node.barrier, 1, launch)),)


def fewer_copies(launch):
    """A loop over boxes that ends early, or the copy of a box left out."""

    def change(node):
        if isinstance(node, For) and is_copy(node.body[0]):
            yield (replace(node, extent=node.extent - 1),)
        if is_start_of_copies(node):
            yield (replace(node, body=node.body[1:]),)

    return edited(launch, change)


def barriers_not_started(launch):
    return each(launch, StartBarriers, lambda n: [()])


def barriers_started_late(launch):
    at = next(n for n, node in enumerate(launch.body) if isinstance(node, StartBarriers))
    first, second, *rest = launch.body[at:]
    yield replace(launch, body=(*launch.body[:at], second, first, *rest))


def barrier_dropped(launch):
    return each(launch, Barrier, lambda n: [()])


def wrong_map(launch):
    """Another box, another swizzle, another shape."""
    for n, found in enumerate(launch.maps):
        half = found.box[-1] // 2 or 1
        others = [{"box": (*found.box[:-1], half)}, {"box": found.box[::-1]}, {"shape": found.shape[::-1]}]
        others += [{"swizzle": 0 if found.swizzle else 128}, {"shape": (found.shape[0] + 8, *found.shape[1:])}]
        for change in others:
            new = replace(found, **change)
            if new != found:
                yield replace(launch, maps=(*launch.maps[:n], new, *launch.maps[n + 1 :]))


def wrong_memory(launch):
    """Another swizzle of the buffer, or one that begins anywhere."""
    filled = {n.place.buffer for _, n in nodes(launch.body) if is_copy(n)}
    for name in filled:
        buffer = launch.buffers[name]
        if buffer.swizzle:
            bare = {name: replace(buffer, swizzle=None)}
            off = {"first": replace(buffer, name="first", swizzle=None, shape=(const(8),), order=(0,), align=16)}
            yield replace(launch, buffers=dict(launch.buffers) | bare)
            yield replace(launch, buffers=off | dict(launch.buffers) | {name: replace(buffer, align=16)})
        if len(buffer.shape) > 1:
            yield replace(launch, buffers=dict(launch.buffers) | {name: replace(buffer, pad=4)})


def unaligned_tensor(launch):
    yield replace(launch, alignment={})
    if launch.requires:
        yield replace(launch, requires=())
