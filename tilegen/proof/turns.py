"""Turns: a block of two groups that take turns at one ring is two blocks, each with a ring of its own.

    group w: place 0; if w == 1: skip n           producer: for t
             for t                                             for turn < 2
               if w == 1: take turn 1                            for ko < n: wait emptied; fill, w = turn
               for ko < n: wait filled; use; release
               pass the turn to 1 - w
               skip n
               if w == 0: take turn 0

Theorem: with w as the number of a block, one turn of the producer, and neither places skipped nor turns, it is a
program with the same values, and no thread waits for ever, if the loops t and tests around both rings say nothing of
w or of threads, n neither, the skips are these, turns are taken and passed where they stand above by all threads of a
group, the barriers of the groups are not those of turns, and each group has shared memory of its own but for the ring.

Why: number the iterations in the producer's order, which is that of tiles 2t + w and of ko in them. Group w comes
by the iterations of its tiles alone: it begins n slots further for w = 1, and leaves out n of the other group behind
each tile. So both roles agree on slot and phase of each iteration, and what `rings` says of one group holds of the one
of an iteration: the producer waits until the group that used a slot last has released it, all of its warps and no
others, for the other group's arrivals come behind the next fill, which is behind this wait.

A parity tells the phase: when a group waits in an iteration, all copies ahead of its tile have arrived, for the turn
was passed on behind the waits of the tile before, by a group to which it was passed on behind those of the one
before that; those of its own tile it waits for one by one. A later phase needs its own release.

Progress: turns alternate. Group 1 takes one at the start of its tile, group 0 at the end of its own, so that tile
2t + 1 comes behind the waits of tile 2t, and these behind the waits of tile 2t - 1. Nobody arrives at a turn's barrier
twice before it is taken: in between he takes the other one. Both groups have as many tiles, so each turn that is
passed is taken. A wait for a slot needs copies and releases that stand ahead of it in the producer's order; a release
that comes late (`releases`) stands in the next iteration of its own tile, or behind that, and waits for no other tile.

Beside the ring the groups share nothing but tensors, as blocks do. All else is asked of the two blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilegen.ir.affine import const, var
from tilegen.ir.lanes import WARP
from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS, Access, Buffer, Condition, Load
from tilegen.ir.walk import rewrite, rewrite_accesses, substitute, walk
from tilegen.lowering.bulk_nodes import (
    BulkCopy,
    NextSlot,
    PassTurn,
    RingPlace,
    SkipSlots,
    StartRing,
    TakeTurn,
    TurnNode,
)
from tilegen.lowering.grid import Product
from tilegen.lowering.memory import bytes_of
from tilegen.lowering.program import Barrier, For, If, Launch, Spmd, names_in, nodes, with_body
from tilegen.lowering.turns import is_ring
from tilegen.poly import Refused
from tilegen.proof.budgets import without_budgets


def part_blocks(launch: Launch) -> Launch:
    """`launch` with a block for each group that takes turns; itself where none does. Raises Refused."""
    if not any(isinstance(node, TurnNode) or (isinstance(node, Barrier) and node.group) for node in launch.nodes):
        return launch
    match without_budgets(launch.body, launch):
        case (
            *common,
            If((consumes,), (StartRing(place), skip, *mine), (If((produces,), producing, ()),), "") as roles,
        ):
            consuming: tuple[Spmd, ...] = tuple(mine)
        case _:
            raise Refused("turns are taken, and not by groups beside a producer")
    group, threads = _groups_of(launch)
    if launch.cluster:
        raise Refused("turns are taken in a block of a cluster, whose slots others fill, too")
    if consumes != Condition(1 - var(group)) or produces != Condition(var(launch.tid), equal=True):
        raise Refused("not the first two groups take turns, or the first thread behind them is no producer")
    if any(isinstance(node, Barrier | TurnNode) for node in nodes((*common, *producing))):
        raise Refused("others than those who take turns wait with them")
    if any(isinstance(node, StartRing | NextSlot) and node.place != place for node in nodes(consuming)):
        raise Refused("a group has two places in a ring")
    turns = _Turns(group, threads, place)
    ring = next((node for node in nodes(consuming) if is_ring(node)), None)
    if not isinstance(ring, For) or skip != If((turns.is_second,), (SkipSlots(place, ring.extent),)):
        raise Refused("the second group does not begin behind the slots of the first tile")
    consuming = turns.with_barriers(turns.without_turns(consuming))
    if any(isinstance(node, TurnNode) for node in nodes(consuming)):
        raise Refused("a turn is taken or passed, or slots are skipped, once more")
    joined = replace(
        roles,
        test=(Condition(-var(turns.role)),),
        body=(StartRing(place), *consuming),
        orelse=(If((Condition(var(launch.tid) + threads * (var(turns.role) - 1), equal=True),), turns.one(producing)),),
    )
    fills = {node.target.buffer for node in nodes(producing) if isinstance(node, BulkCopy)}
    return _as_two_blocks(replace(launch, body=(*common, joined)), turns, fills)


def _groups_of(launch: Launch) -> tuple[str, int]:
    """(the coordinate that numbers groups, the threads of one): two groups, and a part of a third for the producer."""
    groups = [name for name, kind, _ in launch.coordinates if kind == "thread.y"]
    threads = launch.block[0]
    whole = threads % WARP == 0 and launch.block == (threads, 3, 1) and 0 <= launch.left_out < threads
    if len(groups) != 1 or not whole or launch.flat != var(launch.tid):
        raise Refused("a block does not have two groups of whole warps, and a producer behind them")
    if [(name, kind) for name, kind, _ in launch.coordinates if kind in THREAD_KINDS and name == launch.tid] != [
        (launch.tid, "thread.x")
    ]:
        raise Refused("the number of a thread is not that in its group")
    return groups[0], threads


@dataclass(frozen=True)
class _Turns:
    """Who takes turns, and at which place of a ring."""

    group: str
    threads: int
    place: RingPlace

    @property
    def role(self) -> str:
        """The name of what tells the producer of a block from others."""
        return f"{self.group}.role"

    @property
    def is_second(self) -> Condition:
        return Condition(var(self.group) - 1)

    def without_turns(self, body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
        """What consumers do, without the turns around the ring."""
        take, skipped = (TakeTurn(var(self.group), 2 * self.threads),), self.place
        at = [n for n, node in enumerate(body) if isinstance(node, For | If) and any(map(is_ring, nodes((node,))))]
        if len(at) != 1:
            raise Refused("a ring is used in several places, or under a test that has another side")
        (n,) = at
        ring = body[n]
        assert isinstance(ring, For | If)
        self._check_alike(ring)
        if not is_ring(ring):
            return (*body[:n], with_body(ring, self.without_turns(ring.body)), *body[n + 1 :])
        assert isinstance(ring, For)
        if n == 0 or body[n - 1] != If((self.is_second,), take):
            raise Refused("the second group does not wait for its turn before its tile")
        if body[n + 1 : n + 2] != (PassTurn(1 - var(self.group), 2 * self.threads),):
            raise Refused("a turn is not passed to the other group behind the last wait for operands")
        if body[-2:] != (SkipSlots(skipped, ring.extent), If((Condition(-var(self.group)),), take)):
            raise Refused("a group does not skip the other one's slots behind a tile, or the first takes no turn there")
        return (*body[: n - 1], ring, *body[n + 2 : -2])

    def _check_alike(self, node: For | If) -> None:
        """Refused where a loop or a test around a ring is not the same for both groups, or tells threads apart."""
        if isinstance(node, If) and node.orelse:
            raise Refused("a ring is used in several places, or under a test that has another side")
        said = node.extent.names() if isinstance(node, For) else names_in(c.value for c in node.test)
        if said & {self.group, self.place.number}:
            raise Refused("groups that take turns do not come by equally many tiles")

    def with_barriers(self, body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
        """`body` with the barriers of a group as those of its block."""

        def change(value: Any) -> Any:
            if not isinstance(value, Barrier):
                return value
            if value.group != self.group or value.threads != self.threads:
                raise Refused("a group that takes turns waits for others than its own threads")
            return replace(value, group="")

        return rewrite(body, change)

    def one(self, body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
        """What the producer does for one group."""
        if len(body) == 2 and body[0] == StartRing(self.place):
            return (body[0], *self.one(body[1:]))
        match body:
            case (For(turn, extent, (ring,)),) if extent == const(2) and is_ring(ring):
                if self.group in names_in(walk(body)):
                    raise Refused("a producer fills slots for its own number")
                return substitute((ring,), {turn: var(self.group)})
            case (For() | If() as node,) if not is_ring(node):
                return (with_body(node, self.one(node.body)),)
            case _:
                raise Refused("a producer does not fill the slots of one group after those of the other")


def _as_two_blocks(launch: Launch, turns: _Turns, fills: set[str]) -> Launch:
    """`launch` with the groups as blocks, each with the shared memory that it uses of its own."""
    axis = next((n for n, kind in enumerate(BLOCK_KINDS) if all(k != kind for _, k, _ in launch.coordinates)), None)
    if axis is None or launch.grid[axis] != Product((const(1),)):
        raise Refused("there is no axis along which groups that take turns could be blocks")
    staged = {b.name for b in launch.buffers.values() if b.space == "shared"} - fills
    buffers = {b.name: _of_one(b) if b.name in staged else b for b in launch.buffers.values()}

    def change(access: Access | Load) -> Access | Load:
        if access.buffer not in staged:
            return access
        if access.index[:1] != (var(turns.group),):
            raise Refused(f"a group that takes turns uses '{access.buffer}' of the other one")
        return replace(access, index=access.index[1:])

    grid = [Product((const(2),)) if n == axis else along for n, along in enumerate(launch.grid)]
    places = [(n, BLOCK_KINDS[axis] if n == turns.group else k, step) for n, k, step in launch.coordinates]
    return replace(
        launch,
        body=rewrite_accesses(launch.body, change),
        buffers=buffers,
        grid=(grid[0], grid[1], grid[2]),
        block=(turns.threads, 2, 1),
        coordinates=(*places, (turns.role, "thread.y", "")),
        flat=launch.flat + turns.threads * var(turns.role),
    )


def _of_one(buffer: Buffer) -> Buffer:
    """What a group has of a shared buffer."""
    if buffer.shape[:1] != (const(2),) or buffer.order[0]:
        raise Refused(f"'{buffer.name}' is not there for each group")
    one = replace(buffer, shape=buffer.shape[1:], order=tuple(d - 1 for d in buffer.order[1:]))
    if bytes_of(one) % buffer.align:
        raise Refused(f"what the second group has of '{buffer.name}' does not begin where it is to")
    return one
