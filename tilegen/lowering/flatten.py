"""Thread and block loops disappear: what one thread of the launch runs, its coordinates being names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.hardware.described import described_buffers
from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS, Access, Buffer, Condition, Load, Loop, Node, Stmt
from tilegen.ir.walk import accesses, rewrite_accesses
from tilegen.lowering.launch.coordinates import Coordinates
from tilegen.lowering.launch.program import For, If, Spmd
from tilegen.lowering.launch.substitution import substitute_integers
from tilegen.lowering.launch.timelines import BLOCK, CLUSTER, COPIES, Arrive, Barrier, StartBarriers
from tilegen.lowering.sync.bulk_plan import Bulk
from tilegen.lowering.sync.conflicts import Gap
from tilegen.lowering.threads.distribute import Block
from tilegen.lowering.threads.lanes import Lanes
from tilegen.lowering.threads.perform import perform


@dataclass(frozen=True)
class Context:
    """What else is known of a launch when it becomes the program of one thread.

    Attributes:
        barriers: between threads of the block.
        dealt: the loops over a thread's share of a copy.
        groups: the gaps where a group of asynchronous copies ends.
        lanes: what those of a warp do together.
        bulk: what is copied in bulk.
    """

    block: Block
    where: Coordinates
    barriers: Mapping[Gap, Barrier]
    dealt: frozenset[str]
    groups: frozenset[tuple[tuple[int, ...], int]]
    lanes: Lanes
    buffers: Mapping[str, Buffer]
    bulk: Bulk


def flatten(node: Node, context: Context) -> tuple[Spmd, ...]:
    """The program of one thread. Guards of statements have become tests right around them."""
    body = _flat((node,), (), (), context)
    bulk = context.bulk
    line = CLUSTER if bulk.cluster else BLOCK
    return (StartBarriers(tuple(bulk.arrivals.items()), line), *body) if bulk.arrivals else body


def _flat(
    body: tuple[Node, ...], path: tuple[int, ...], around: tuple[Loop, ...], context: Context
) -> tuple[Spmd, ...]:
    """`body` inside the loops `around`; `path` says where it stands in the tree."""
    out: list[Spmd] = []
    for place, (exchanges, node) in enumerate(context.lanes.running(around, body)):
        out += [*_nodes_in_gap(context, path, place), *exchanges]
        if isinstance(node, Stmt):
            out += _statement(node, around, context)
            continue
        if node.performed:
            out += perform(node, node.performed, context.block, context.buffers)
            continue
        if node.kind == "bulk":  # the first nest of several has started all of them
            out += [start] if (start := context.bulk.starts.get((path, place))) else []
            continue
        inner = _flat(node.body, (*path, place), (*around, node), context)
        if node.kind in BLOCK_KINDS:
            out += inner
        elif node.kind in THREAD_KINDS:
            size = context.block.size[THREAD_KINDS.index(node.kind)]
            short = node.extent.const < size
            out += context.lanes.under(Condition(node.extent - 1 - var(node.name)), inner) if short else inner
        else:
            out += _flatten_loop(node, inner, node.name in context.dealt)
    return (*out, *_nodes_in_gap(context, path, len(body)))


def _nodes_in_gap(context: Context, path: tuple[int, ...], place: int) -> list[Spmd]:
    """What stands in a gap between statements."""
    group: list[Spmd] = [Arrive(COPIES)] if (path, place) in context.groups else []
    barrier = context.barriers.get((path, place))
    ahead, behind = (nodes.get((path, place), []) for nodes in (context.bulk.ahead, context.bulk.waits))
    return [*group, *ahead, *([barrier] if barrier else []), *behind]


def _flatten_loop(loop: Loop, body: tuple[Spmd, ...], dealt: bool) -> tuple[Spmd, ...]:
    """A loop of one iteration is its body, but for that of a ring, which counts on from run to run."""
    if loop.extent == const(1) and not loop.specialized:
        body = substitute_integers(body, {loop.name: const(0)})
        # The round of a copy stays until its places have their names.
        return (For(loop.name, loop.extent, body),) if dealt else body
    return (For(loop.name, loop.extent, body, loop.kind, loop.step),)


def _statement(stmt: Stmt, around: tuple[Loop, ...], context: Context) -> tuple[Spmd, ...]:
    """The statement in a test of its guard; outside the loops of an axis it is the first one's work.

    Registers that every thread has are everybody's work. What lanes combine comes before its update.
    """
    lane = context.lanes.loop(around, stmt)
    exchange, stmt = context.lanes.exchange_and_update(stmt, lane) if lane else (None, stmt)
    inside = {loop.kind for loop in around if loop is not lane}
    copied = {kind for name, kind in context.lanes.register_copies if name == stmt.target.buffer}
    first = tuple(test for kind, test in context.where.leaders.items() if kind not in inside | copied)
    guard = first + stmt.guard
    bare = replace(stmt, guard=())
    done = If(guard, (bare,)) if guard else bare
    return (exchange, done) if exchange else (done,)


# -- dimensions that the text does not need


def kept_dims(buffers: tuple[Buffer, ...], node: Node, threads: frozenset[str]) -> dict[str, tuple[int, ...]]:
    """For each buffer on the chip, the dimensions that stay: without those of one element that no instruction takes.

    Register buffers lose those in which a thread has one place, too: every thread has its own slice. What is read by
    descriptor keeps all.
    """
    described = described_buffers(node)
    uses: dict[str, list[tuple[Affine, ...]]] = {}
    for access in accesses(node):
        uses.setdefault(access.buffer, []).append(access.index)
    kept: dict[str, tuple[int, ...]] = {}
    for buffer in buffers:
        if buffer.space == "global" or buffer.name in described:
            continue
        points = uses.get(buffer.name, [])
        whole = buffer.order[-1:] if buffer.pad or buffer.fragment else ()
        dims = [d for d in buffer.order if buffer.shape[d] != const(1) or d in whole]
        if buffer.space == "register":
            lane = len(buffer.shape) - 2 if buffer.fragment else None
            dims = [d for d in dims if d != lane and not _is_one_in_thread({point[d] for point in points}, threads)]
        kept[buffer.name] = tuple(sorted(dims or buffer.order[-1:] if buffer.space == "shared" else dims))
    return kept


def _is_one_in_thread(places: set[Affine], threads: frozenset[str]) -> bool:
    """True if each thread has one place of these: a coordinate, or a sum of its coordinates that is always the same."""
    if len(places) == 1:
        (place,) = places
        return bool(place.names()) and place.names() <= threads
    return all(place in map(var, threads) for place in places)


def without_dims(buffer: Buffer, kept: tuple[int, ...]) -> Buffer:
    """`buffer` with only the `kept` dimensions."""
    order = tuple(kept.index(d) for d in buffer.order if d in kept)
    return replace(buffer, shape=tuple(buffer.shape[d] for d in kept), order=order)


def drop_dims(body: tuple[Spmd, ...], kept: Mapping[str, tuple[int, ...]]) -> tuple[Spmd, ...]:
    """`body` with only the `kept` dimensions in every access to a buffer on the chip."""

    def change(access: Access | Load) -> Access | Load:
        dims = kept.get(access.buffer)
        return access if dims is None else replace(access, index=tuple([access.index[d] for d in dims]))

    return rewrite_accesses(body, change)
