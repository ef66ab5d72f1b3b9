"""Turns: two blocks become one, in which each is a group of threads, and the groups take turns at one ring.

blocks w = 0 and 1                              one block, groups w = 0 and 1
  consumers: for t                                consumers: for t
               for ko < n: use slots                           if w == 1: take turn 1
               store                                           for ko < n: use slots of the group's run
  producer:  for t                                             pass the turn to 1 - w
               for ko < n: fill slots                          store
                                                               if w == 0: take turn 0
                                                  producer:  for t
                                                               for turn < 2
                                                                 for ko < n: fill slots, w = turn

Numbers in the ring are those of the runs of both groups. All shared memory but the slots is there once for each group.
Turns are taken tile by tile, by named barriers: a group passes them on when all operands of its tile have arrived. Each
turn that is passed is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilegen.ir.affine import affine, const, var
from tilegen.ir.hardware.threads import GROUPS
from tilegen.ir.nodes import BLOCK_KINDS, Access, Buffer, Condition, Load, Loop, Stmt
from tilegen.ir.walk import rewrite, rewrite_accesses
from tilegen.lowering.launch.coordinates import Coordinates
from tilegen.lowering.launch.grid import Product
from tilegen.lowering.launch.program import For, If, Spmd, nodes, rings, with_body
from tilegen.lowering.launch.substitution import substitute_integers
from tilegen.lowering.launch.timelines import (
    GROUP,
    TURNS,
    Arrive,
    Await,
    Barrier,
    Box,
)
from tilegen.lowering.threads.distribute import Block


def take_turns(
    body: tuple[Spmd, ...], buffers: tuple[Buffer, ...], block: Block
) -> tuple[tuple[Spmd, ...], tuple[Buffer, ...]]:
    """`body`, divided into roles, and its buffers, for both groups of a block; as they are where none take turns."""
    if not block.turns:
        return body, buffers
    at = max(n for n, node in enumerate(body) if isinstance(node, If))
    common, roles, end = body[:at], body[at], body[at + 1 :]  # at the end, blocks of a cluster wait for each other
    assert isinstance(roles, If)
    produces = roles.orelse[-1]
    assert isinstance(produces, If)
    slots = {node.place.buffer for node in nodes(produces.body) if isinstance(node, Box)}
    staged = {b.name for b in buffers if b.space == "shared"} - slots
    consuming = _in_turn(roles.body, block)
    turn, named = f"{block.turns}.turn", {block.turns: var(f"{block.turns}.turn")}
    producing = _at_ring(produces.body, lambda n: (For(turn, const(GROUPS), substitute_integers((n,), named)),))
    others = (*roles.orelse[:-1], replace(produces, body=producing))
    joined = replace(roles, body=_of_group(consuming, staged, block), orelse=others)
    return (*common, joined, *end), tuple(_of_both(b) if b.name in staged else b for b in buffers)


def _at_ring(
    body: tuple[Spmd, ...], change: Callable[[For], tuple[Spmd, ...]], last: tuple[Spmd, ...] = ()
) -> tuple[Spmd, ...]:
    """`body` with `change` made to the loop of the ring, and what is `last` at the end of its list."""
    for n, node in enumerate(body):
        if isinstance(node, For) and node.ring:
            return (*body[:n], *change(node), *body[n + 1 :], *last)
        if isinstance(node, For | If) and rings((node,)):
            return (*body[:n], with_body(node, _at_ring(node.body, change, last)), *body[n + 1 :])
    return body


def _in_turn(body: tuple[Spmd, ...], block: Block) -> tuple[Spmd, ...]:
    """What consumers do, with a turn for each run of the ring."""
    group, threads = var(block.turns), GROUPS * block.consuming
    take, give = Await(TURNS, group, count=threads), Arrive(TURNS, 1 - group, count=threads)

    def change(loop: For) -> tuple[Spmd, ...]:
        assert loop.ring
        return If((Condition(group - 1),), (take,)), replace(loop, ring=replace(loop.ring, group=block.turns)), give

    return _at_ring(body, change, (If((Condition(-group),), (take,)),))


def _of_group(body: tuple[Spmd, ...], staged: set[str], block: Block) -> tuple[Spmd, ...]:
    """`body` with barriers and shared memory of the group's own."""

    def change(access: Access | Load) -> Access | Load:
        per_group = access.buffer in staged
        return replace(access, index=(var(block.turns), *access.index)) if per_group else access

    group = var(block.turns)
    body = rewrite(body, lambda v: replace(v, line=GROUP, at=group) if isinstance(v, Barrier) else v, (Stmt, Loop))
    return rewrite_accesses(body, change)


def _of_both(buffer: Buffer) -> Buffer:
    """A shared buffer, once for each group: the second one begins at a good place, as the judge has shown."""
    order = (0, *(d + 1 for d in buffer.order))
    return replace(buffer, shape=(affine(GROUPS), *buffer.shape), order=order)


def join_blocks(where: Coordinates, block: Block) -> Coordinates:
    """The coordinates of a launch, with a loop whose blocks take turns along y in a block."""
    if not block.turns:
        return where
    along = next(kind for name, kind, _ in where.names if name == block.turns)
    grid = [Product((const(1),)) if each == along else n for each, n in zip(BLOCK_KINDS, where.grid, strict=True)]
    names = tuple((name, "thread.y" if name == block.turns else kind, step) for name, kind, step in where.names)
    return replace(where, grid=(grid[0], grid[1], grid[2]), names=names)
