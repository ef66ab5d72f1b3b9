"""Bulk stores: one thread starts them when all have written, and waits until they have read before it is overwritten.

    for t < n                          for t < n
      Cs[..] = ..                        if (tid == 0): wait until its stores have read
      C[..] = Cs[..]  bulk               barrier: before the next t overwrites Cs
                                         Cs[..] = ..
                                         fence; barrier: Cs is complete
                                         if (tid == 0): store boxes of Cs
                                       if (tid == 0): wait until its stores have read

The barriers are those that threads need who read and write: a store reads as thread 0 does, and goes on reading. So
that thread waits for it before a barrier which comes before the next write, and at the end of the launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeGuard

from tilegen.ir.affine import var
from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS, Access, Buffer, Condition, Loop, Node, Tree
from tilegen.judge import BoxCopy, box_copy, first_element
from tilegen.lowering.guards.guards import IsImplied
from tilegen.lowering.launch.program import For, If, Spmd, Start, with_lists
from tilegen.lowering.launch.timelines import STORES, Await, Barrier, Box, is_await
from tilegen.lowering.sync.bulk_loops import body_at, is_store
from tilegen.lowering.sync.bulk_plan import Bulk, element_of
from tilegen.lowering.sync.conflicts import Conflict, Gap, Path
from tilegen.lowering.threads.distribute import Block


def add_stores(found: Bulk, node: Node, tree: Tree, block: Block) -> Bulk:
    """`found`, with the bulk stores of the launch `node`."""
    buffers = {b.name: b for b in tree.buffers}
    first = Condition(var(block.tid), equal=True)
    for path, place, end, nest in _stores((node,), (), None, buffers):
        box = box_copy(nest, buffers)
        found.stored |= {box.target}
        found.starts[path, place] = If((first,), (Start(STORES, body=(_boxes(found, box, buffers),)),))
        found.stores.append((path, place, end, box.target))
    return found


def _stores(
    body: tuple[Node, ...], path: Path, end: Gap | None, buffers: Mapping[str, Buffer]
) -> Iterator[tuple[Path, int, Gap, Loop]]:
    """(path of the body, place in it, the end of what a block does, nest) for each store."""
    end = (path, len(body)) if end is None else end
    for place, child in enumerate(body):
        if not isinstance(child, Loop):
            continue
        if child.kind == "bulk":
            if is_store(child, buffers):
                yield path, place, end, child
            continue
        yield from _stores(child.body, (*path, place), None if child.kind in BLOCK_KINDS else end, buffers)


def _boxes(found: Bulk, box: BoxCopy, buffers: Mapping[str, Buffer]) -> Spmd:
    """The store of a box, in the loops outside of it."""
    tensor = buffers[box.tensor]
    name = found.add_map(box, tensor)
    index, place = first_element(box)
    coordinates = tuple(index[d] for d in reversed(tensor.order))
    node: Spmd = Box(STORES, Access(box.target, place), name, coordinates, element=element_of(box, tensor))
    for loop in reversed(box.outside):
        node = For(loop.name, loop.extent, (node,), "unrolled")
    return node


def add_store_waits(
    found: Bulk,
    node: Node,
    block: Block,
    conflicts: Iterable[Conflict],
    barriers: Mapping[Gap, Barrier],
    is_implied: IsImplied,
) -> None:
    """Adds the waits for the stores of the launch `node`: before a barrier on the way to whoever overwrites what they
    read, as late as can be, and at the end of what a block does."""
    chosen: dict[Gap, list[str]] = {}
    over: list[Path] = []  # stores that are waited for at once
    for conflict in sorted((c for c in conflicts if c.of_store), key=lambda c: -c.depth):
        if any(_lateness(conflict, gap) is not None for gap in chosen) or not conflict.exists:
            continue
        on_the_way = [(late, gap) for gap in barriers if (late := _lateness(conflict, gap)) is not None]
        inside = _before_certain(node, conflict, barriers, is_implied)
        behind = (conflict.before[: conflict.depth], conflict.before[conflict.depth] + 1)
        latest = max(on_the_way)[1] if on_the_way else inside or behind
        over += [conflict.before] if latest == behind else []
        chosen.setdefault(latest, []).append(conflict.buffer)
    for path, place, end, name in found.stores:
        if not any(each[: len(path) + 1] == (*path, place) for each in over):
            chosen.setdefault(end, []).append(name)
    first = Condition(var(block.tid), equal=True)
    for gap, names in chosen.items():
        found.ahead.setdefault(gap, []).append(If((first,), (Await(STORES, buffers=tuple(dict.fromkeys(names))),)))


def _before_certain(
    node: Node, conflict: Conflict, barriers: Mapping[Gap, Barrier], is_implied: IsImplied
) -> Gap | None:
    """The last place between the two accesses of a conflict, in the body that both are in, before a loop in which
    there is certain to be a barrier."""
    path, depth = conflict.before[: conflict.depth], conflict.depth
    body = body_at(node, path)
    first, last = conflict.before[depth], conflict.after[depth]
    behind, ahead = range(first + 1, len(body)), range(last)
    passed = [*behind, *ahead] if conflict.is_carried else range(first + 1, last)
    for place in reversed(passed):
        if _has_certain(body[place], (*path, place), barriers, is_implied):
            return path, place
    return None


def _has_certain(node: Node, path: Path, barriers: Mapping[Gap, Barrier], is_implied: IsImplied) -> bool:
    """True if everybody who passes the node meets a barrier in it."""
    if not isinstance(node, Loop) or node.kind in THREAD_KINDS or not is_implied(Condition(node.extent - 1), ()):
        return False
    here = any(where == path for where, _ in barriers)
    return here or any(
        _has_certain(child, (*path, place), barriers, is_implied) for place, child in enumerate(node.body)
    )


def _lateness(conflict: Conflict, gap: Gap) -> tuple[int, int, int] | None:
    """How late a gap is passed between the two accesses of a conflict; None if that is not certain."""
    (path, place), depth = gap, conflict.depth
    if len(path) < depth:
        return None
    ahead = conflict.after[: len(path)] == path and place <= conflict.after[len(path)]
    behind = conflict.before[: len(path)] == path and place > conflict.before[len(path)]
    if len(path) > depth:
        return (2, len(path), place) if ahead else (0, -len(path), place) if behind else None
    if conflict.is_carried:
        return (1, 1, place) if ahead else (1, 0, place) if behind else None
    return (1, 0, place) if ahead and behind else None


def join_stores(body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
    """`body` with neighbouring stores and waits of one thread in one test, and stores that it starts together in one
    group."""
    out: list[Spmd] = []
    for node in body:
        node = with_lists(node, join_stores)
        before = out[-1] if out else None
        if _is_about_stores(before) and _is_about_stores(node) and before.test == node.test:
            out[-1] = replace(before, body=_in_one_group((*before.body, *node.body)))
        else:
            out.append(node)
    return tuple(out)


def _is_about_stores(node: Spmd | None) -> TypeGuard[If]:
    return isinstance(node, If) and not node.orelse and all(_is_start(v) or is_await(v, STORES) for v in node.body)


def _is_start(node: Spmd | None) -> TypeGuard[Start]:
    return isinstance(node, Start) and node.line == STORES


def _in_one_group(body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
    out: list[Spmd] = []
    for node in body:
        before = out[-1] if out else None
        if _is_start(before) and _is_start(node):
            out[-1] = replace(before, body=before.body + node.body)
        else:
            out.append(node)
    return tuple(out)
