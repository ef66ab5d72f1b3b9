"""Bulk copies: which nests one thread starts together, which barrier they complete, and where all threads wait for it.

    for ko < n                            if (tid == 0)
      As[(ko + 2)%3, ..] = A[..]  bulk      filled[(ko + 2)%3]: the bytes of As and Bs, phase (ko + 2)/3
      Bs[(ko + 2)%3, ..] = B[..]  bulk    wait for phase ko/3 of filled[ko%3]
      use As[ko%3, ..], Bs[ko%3, ..]      use As[ko%3][..], Bs[ko%3][..]

There is a barrier for each stage. Its phases are numbered from 0: what fills it for the n-th time completes phase n.
The wait stands before the first use in an iteration, and makes sure of all threads by itself: no thread waits for the
others before it reads. That they have all read before it is filled again, a barrier of the block makes sure.

Copies do not wait for loads that are under way: whoever reads a slot otherwise than by descriptor has a fence before it
says that the slot can be filled again. (PTX ISA, "async proxy": a fence stands between accesses by threads and by it.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from tilegen.ir.affine import Affine, Mod, const, var
from tilegen.ir.facts.ranges import begins
from tilegen.ir.hardware.described import described_buffers
from tilegen.ir.hardware.lanes import WARP
from tilegen.ir.nodes import BLOCK_KINDS, DTYPE_BYTES, THREAD_KINDS, Access, Buffer, Condition, Load, Loop, Node, Tree
from tilegen.ir.walk import loads, loops
from tilegen.judge import BoxCopy, box_copy, first_element, share_of
from tilegen.lowering.launch.grid import Cluster
from tilegen.lowering.launch.program import For, If, Spmd, Start, nodes, with_body
from tilegen.lowering.launch.timelines import BLOCK, EMPTIED, FILLED, Arrive, Await, Box, Fence, is_await
from tilegen.lowering.sync.bulk_loops import body_at, is_store
from tilegen.lowering.sync.bulk_plan import Bulk, element_of
from tilegen.lowering.sync.conflicts import Gap, Path
from tilegen.lowering.sync.pipeline import Pipe
from tilegen.lowering.threads.distribute import Block


@dataclass(frozen=True)
class _Run:
    """Bulk nests that stand side by side in the body at `path`, inside the loops `around`, under one test."""

    path: Path
    place: int
    around: tuple[Loop, ...]
    boxes: tuple[BoxCopy, ...]
    test: tuple[Condition, ...]

    @property
    def buffers(self) -> tuple[str, ...]:
        return tuple(box.target for box in self.boxes)

    @property
    def slot(self) -> Affine:
        """The stage that a pipelined loop fills."""
        return first_element(self.boxes[0])[1][0]


def _tile_number(slot: Affine) -> Affine:
    """The number of the tile in a slot; in a loop of few iterations the slot is that itself."""
    return next((atom.arg for atom, _ in slot.terms if isinstance(atom, Mod)), slot)


def bulk_copies(node: Node, tree: Tree, pipes: tuple[Pipe, ...], block: Block, taken: frozenset[str]) -> Bulk:
    """What the launch `node` does by bulk copies: nothing where it has no bulk loops."""
    found = Bulk()
    buffers = {b.name: b for b in tree.buffers}
    runs = list(_runs((node,), (), (), buffers))
    if not runs:
        return found
    found.filled = frozenset(name for run in runs for name in run.buffers)
    found.cluster = _cluster_of(runs)
    for names in dict.fromkeys(run.buffers for run in runs):
        of_buffer = [run for run in runs if run.buffers == names]
        pipe = next((p for p in pipes if p.buffers & {*names}), None)
        stages = buffers[names[0]].shape[0].const if pipe else 1
        name = found.add_barriers("filled", names, stages, 1, taken)
        _add_starts(found, name, of_buffer, pipe, buffers, block)
        waits = _pipelined_waits(node, of_buffer, pipe) if pipe else _plain_waits(node, of_buffer)
        for gap, tile, test in waits:
            phase = _phase(of_buffer[0], tile, pipe, stages)
            wait = Await(FILLED, Access(name, (tile % stages if pipe else const(0),)), phase, names)
            found.waits.setdefault(gap, []).append(If(test, (wait,)) if test else wait)
    ring = next((run for run in runs if run.around[-1].specialized), None)
    if ring:
        _add_producer(found, ring, block, taken, not described_buffers(node).issuperset(ring.buffers))
    return found


def _cluster_of(runs: list[_Run]) -> Cluster | None:
    """The blocks that share copies: those of a ring, whose producers know when all have read."""
    for run in runs:
        for box in run.boxes:
            if box.multicast and run.around[-1].specialized:
                blocks = next(loop for loop in run.around if loop.name == box.multicast)
                return Cluster(blocks.name, blocks.kind, blocks.extent.const)
    return None


def _add_producer(found: Bulk, run: _Run, block: Block, taken: frozenset[str], loaded: bool) -> None:
    """Lets a thread after the consumers start the copies, when what lay there has been read; some of it is `loaded`,
    and not read by descriptor alone."""
    assert block.consumers
    (_, loop), names = (run.path, run.around[-1]), run.buffers
    stages, tile = loop.stages, var(loop.name)
    warps, cluster = block.consuming // WARP, found.cluster
    arrivals = warps * cluster.blocks if cluster else warps
    emptied = Access(found.add_barriers("emptied", names, stages, arrivals, taken), (tile % stages,))
    wait = Await(EMPTIED, emptied, tile // stages - 1, names)
    start = found.starts[run.path, run.place]
    assert isinstance(start, If)
    found.starts[run.path, run.place] = If((block.first_producer,), (wait, *start.body))
    for gap, waits in found.waits.items():
        if gap[0] == run.path:
            found.waits[gap] = [If((block.consumers,), (each,)) for each in waits]
    release = Arrive(EMPTIED, emptied, tile // stages, names, blocks=cluster.mask if cluster else 0)
    behind = (Fence(BLOCK), release) if loaded else (release,)
    found.waits[run.path, len(loop.body)] = [If((block.consumers,), behind)]


def join_waits(body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
    """`body` with each wait that stands under a test, and what is after it under the same, in one test."""
    out: list[Spmd] = []
    for node in body:
        node = with_body(node, join_waits(node.body)) if isinstance(node, For) else node
        before = out[-1] if out else None
        waits = isinstance(before, If) and is_await(before.body[-1])
        if waits and isinstance(before, If) and isinstance(node, If) and node == replace(before, body=node.body):
            out[-1] = replace(before, body=before.body + node.body)
        else:
            out.append(node)
    return tuple(out)


# -- what is started together


def _runs(
    body: tuple[Node, ...], path: Path, around: tuple[Loop, ...], buffers: Mapping[str, Buffer]
) -> Iterator[_Run]:
    open_: _Run | None = None
    for place, child in enumerate(body):
        if not isinstance(child, Loop) or child.kind != "bulk" or is_store(child, buffers):
            if open_ is not None:
                yield open_
            open_ = None
            if isinstance(child, Loop) and child.kind != "bulk":
                yield from _runs(child.body, (*path, place), (*around, child), buffers)
            continue
        box = box_copy(child, buffers)
        test = tuple(c for c in box.stmt.guard if not c.value.names() & {each.name for each in loops(child)})
        if open_ is not None and open_.test == test:
            open_ = replace(open_, boxes=(*open_.boxes, box))
            continue
        if open_ is not None:
            yield open_
        open_ = _Run(path, place, around, (box,), test)
    if open_ is not None:
        yield open_


def _add_starts(
    found: Bulk, name: str, runs: list[_Run], pipe: Pipe | None, buffers: Mapping[str, Buffer], block: Block
) -> None:
    for run in runs:
        stages = buffers[run.buffers[0]].shape[0].const if pipe else 1
        tile, slot = (_tile_number(run.slot), run.slot) if pipe else (const(0), const(0))
        at = Access(name, (slot,))
        body: list[Spmd] = []
        total = 0
        for box in run.boxes:
            body.append(_copies(found, box, buffers, at))
            size = DTYPE_BYTES[buffers[box.target].dtype]
            total += prod((*box.extents, *(each.extent.const for each in box.outside))) * size
        start = Start(FILLED, at, _phase(run, tile, pipe, stages), count=total, body=tuple(body))
        first = Condition(var(block.tid), equal=True)
        found.starts[run.path, run.place] = If((*run.test, first), (start,))
        repeats = any(loop.kind not in (*BLOCK_KINDS, *THREAD_KINDS) for loop in run.around)
        if repeats and not run.around[-1].specialized:
            found.again |= {*run.buffers}


def _copies(found: Bulk, box: BoxCopy, buffers: Mapping[str, Buffer], barrier: Access) -> Spmd:
    """The copy of a box, in the loops outside of it; of a shared one, this block's part to all of the cluster."""
    tensor, blocks = buffers[box.tensor], 0
    if found.cluster and box.multicast:
        share, blocks = share_of(box, found.cluster.blocks, tensor), found.cluster.mask
        assert share
        box = share
    name = found.add_map(box, tensor, buffers[tensor.windows.tensor] if tensor.windows else None)
    source, place = first_element(box)
    coordinates = tuple(source[d] for d in reversed(tensor.order))
    target, element = Access(box.target, place), element_of(box, tensor)
    node: Spmd = Box(FILLED, target, name, coordinates, barrier, blocks, tensor.windows, element, box.step)
    for loop in reversed(box.outside):
        node = For(loop.name, loop.extent, (node,), "unrolled")
    return node


# -- phases


def _phase(run: _Run, tile: Affine, pipe: Pipe | None, stages: int) -> Affine:
    """How often the barrier of this tile has been filled before: the tiles of the loops around count, too."""
    around = [loop for loop in run.around if loop.kind not in BLOCK_KINDS]
    if pipe is None:
        return _count(around)
    *outer, loop = around
    if not outer or loop.specialized:  # its roles count on from one run to the next
        return tile // stages
    whole = next(each for each in _extents_of(run, pipe, loop))
    assert whole.is_const, "the judge refuses this"
    return (_count(outer) * whole.const + tile) // stages


def _extents_of(run: _Run, pipe: Pipe, loop: Loop) -> Iterator[Affine]:
    """The iterations of the pipelined loop, beside which the loop stands that fills the first stages."""
    for each in (loop, *(child for outer in run.around for child in outer.body)):
        if isinstance(each, Loop) and each.name == pipe.loop:
            yield each.extent


def _count(around: list[Loop]) -> Affine:
    """The number of an iteration of the loops around, counted from the first one of all."""
    count = const(0)
    for number, loop in enumerate(around):
        assert not number or loop.extent.is_const, "the judge refuses this"
        count = count * (loop.extent.const if number else 1) + var(loop.name)
    return count


# -- waits


Wait = tuple[Gap, Affine, tuple[Condition, ...]]


def _plain_waits(node: Node, runs: list[_Run]) -> Iterator[Wait]:
    """A wait before the first use after the copies, in the body that both are in."""
    (run,) = runs
    using = next(place for place, child in enumerate(body_at(node, run.path)) if any(_loads(child, run)))
    yield (run.path, using), const(0), ()


def _pipelined_waits(node: Node, runs: list[_Run], pipe: Pipe) -> Iterator[Wait]:
    """In an iteration the wait for the last tile that is used in it; before the loop those for tiles before that."""
    main = [run for run in runs if run.around[-1].name == pipe.loop]
    run = (main or runs)[0]
    outside = run.path[:-1]
    body = body_at(node, outside)
    place, loop = next((n, c) for n, c in enumerate(body) if isinstance(c, Loop) and c.name == pipe.loop)
    using = {n: tiles for n, child in enumerate(loop.body) if (tiles := _tiles_ahead(child, run, pipe))}
    early = [{_tile_number(slot) for slot in _slots(child, run)} for child in body[:place]]
    furthest = max([*map(max, using.values()), *(tile.const + 1 for tiles in early for tile in tiles)])
    for tile in range(furthest):
        ahead = [n for n, tiles in enumerate(early) if const(tile) in tiles]
        yield (outside, min(ahead, default=place)), const(tile), _remain(loop, const(tile))
    at = var(pipe.loop) + furthest
    for last in [n for n, tiles in using.items() if furthest in tiles][:1]:  # none in a loop of one iteration
        yield ((*outside, place), last), at, _remain(loop, at) if furthest else ()


def _remain(loop: Loop, tile: Affine) -> tuple[Condition, ...]:
    """That the loop has this tile."""
    return (begins(loop.extent - 1 - tile),)


def _tiles_ahead(node: Node, run: _Run, pipe: Pipe) -> set[int]:
    """Which tiles are read in an iteration of a pipelined loop: 0 is its own, 1 that of the next."""
    found = {_tile_number(slot) - var(pipe.loop) for slot in _slots(node, run)}
    assert all(each.is_const for each in found), "a pipeline reads what one of the next iterations has copied"
    return {each.const for each in found}


def _slots(node: Node, run: _Run) -> Iterator[Affine]:
    yield from (load.index[0] for load in _loads(node, run))


def _loads(node: Node, run: _Run) -> Iterator[Load]:
    yield from (load for load in loads(node) if load.buffer in run.buffers)


def fence_starts(bulk: Bulk, node: Node) -> None:
    """Gives a fence to the thread that starts copies again to what it may have loaded itself: after its own loads no
    barrier has to stand."""
    loaded = bulk.again - described_buffers(node)
    for gap, start in bulk.starts.items():
        filled = {each.place.buffer for each in nodes((start,)) if isinstance(each, Box)}
        if isinstance(start, If) and not loaded.isdisjoint(filled):
            bulk.starts[gap] = replace(start, body=(Fence(BLOCK), *start.body))
