"""Rings: a producer fills slots that consumers empty, each in a loop of its own, and both are one program.

    consumers: for n < N                         producer: for n < N
                 wait filled[n%S] phase n/S                  wait emptied[n%S] phase n/S - 1
                 use slot n%S                                arrive at filled[n%S], phase n/S, with the bytes
                 arrive at emptied[n%S], phase n/S           copy to slot n%S

Theorem: iterations n of both, the producer's first, are a program with the same values, and no thread waits for ever,
if the loops have one number of iterations, the same in all threads of a block, slots and phases are these, `filled`
is arrived at once a phase, by the producer with the bytes that its copies bring, and `emptied` by each warp of the
consumers, S slots and barriers are there, and nothing else touches the slots, the barriers or what is copied.

Why: by induction over n. A wait of the producer for phase n/S - 1 ends when all warps of the consumers have used the
slot in iteration n - S (phase -1 is over from the beginning), so that nothing is overwritten that is still read. A wait
of the consumers for phase n/S ends when the bytes of iteration n have come, so that they read what iteration n copies.
Of a barrier no later phase can end before either has seen this one, for its arrivals come behind that wait: a parity
tells the phase. Each wait is for arrivals that stand ahead of it in the one program, so all of them come.

The loops may run several times, inside loops and tests that are the same in both roles and in all threads of a block:
n counts the iterations of all runs. Each role does so in integers of its own: slot n%S and phase n/S, both 0 before
all, and the next ones at the end of each iteration. The iterations of both are one program in that order; which slot an
iteration has there tells nothing, and it is written as n%S with the n of its run.

A warp arrives by one lane when its lanes have met behind their reads, whatever the shape of the block; asynchronous
instructions have completed before (`check_completed`). The producer may leave while copies are on their way:
consumers wait for all of them, for each iteration has its wait, and shared memory is there until the last thread
leaves. Barriers of the consumers stand in the one program as if the producer were at them, though it is not. That
orders nothing wrongly: it touches slots, for which the waits are, and tensors that no thread of the launch writes
(`check_boxes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tilegen.ir.affine import Affine, var
from tilegen.ir.lanes import WARP
from tilegen.ir.nodes import THREAD_KINDS, Access, Condition
from tilegen.ir.walk import accesses, rewrite, substitute, walk
from tilegen.lowering.bulk_nodes import (
    BulkCopies,
    BulkCopy,
    BulkWait,
    NextSlot,
    Release,
    RingPlace,
    StartBarriers,
    StartRing,
)
from tilegen.lowering.program import Barrier, Combine, For, If, Launch, Spmd, names_in, nodes, with_body
from tilegen.poly import Refused
from tilegen.proof.bulk import bytes_of_copies
from tilegen.proof.clusters import leave_cluster
from tilegen.proof.releases import release_in_turn


@dataclass(frozen=True)
class _Roles:
    """What consumers and what the producer do, and the tests of who is what."""

    consumes: Condition
    produces: Condition
    consuming: tuple[Spmd, ...]
    producing: tuple[Spmd, ...]


def join_roles(body: tuple[Spmd, ...], launch: Launch) -> tuple[tuple[Spmd, ...], frozenset[str]]:
    """(`body` as one program, whose rings need no waits; the buffers that are slots of rings). Raises Refused."""
    body = leave_cluster(body, launch)
    found = [(place, roles) for place, node in enumerate(body) if (roles := _roles_of(node))]
    if not found:
        if any(isinstance(node, Release) or (isinstance(node, BulkWait) and not node.arrival) for node in nodes(body)):
            raise Refused("something is released, and no producer waits for that")
        if launch.cluster:
            raise Refused("blocks of a cluster share copies, and no producer waits until all have read")
        if launch.left_out:
            raise Refused("threads of a block are left out, and there is no producer beside whom they would be idle")
        return body, frozenset()
    if len(found) > 1 or not isinstance(body[0], StartBarriers):
        raise Refused("producers stand in several places, or their barriers have not been started")
    (place, roles), start = found[0], body[0]
    roles = replace(roles, consuming=release_in_turn(roles.consuming))
    _check_threads(roles, launch)
    names = frozenset(name for name, kind, _ in launch.coordinates if kind in THREAD_KINDS) | {launch.tid}
    names |= {launch.cluster.rank} if launch.cluster else set()
    loop, used, ring = _find_ring(roles, names)
    arrivals = {ring.filled: 1, ring.emptied: consuming_threads(roles.consumes, launch) // WARP}
    if any((name, count) not in start.barriers for name, count in arrivals.items()):
        raise Refused("the barriers of a ring are not started with the arrivals that they get")
    _check_loop(loop, used, ring, launch)
    _check_nothing_else(body, roles, ring, used, consuming_threads(roles.consumes, launch))
    consuming = (node for node in roles.consuming if not isinstance(node, StartRing))
    joined = tuple(_join(node, roles, loop, used, ring) for node in consuming)
    others = replace(start, barriers=tuple(each for each in start.barriers if each[0] not in arrivals))
    return (others, *body[1:place], *joined, *body[place + 1 :]), frozenset(ring.slots)


def _roles_of(node: Spmd) -> _Roles | None:
    """The roles that a test tells apart; None where it tells no producer from others."""
    match node:
        case If((consumes,), consuming, (If((produces,), producing, ()),)) if any(
            isinstance(each, BulkWait) and not each.arrival for each in nodes(producing)
        ):
            return _Roles(consumes, produces, consuming, producing)
        case _:
            return None


def _check_threads(roles: _Roles, launch: Launch) -> None:
    """Consumers are the first threads of the block, in whole warps; the producer is one behind them."""
    consuming = consuming_threads(roles.consumes, launch)
    producer = launch.flat - consuming
    if consuming % WARP or roles.produces not in (
        Condition(producer, equal=True),
        Condition(var(launch.tid) - consuming, equal=True),
    ):
        raise Refused("the producer is not the first thread behind whole warps of consumers")
    if not 0 <= launch.left_out < prod(launch.block) - consuming:
        raise Refused("more threads are left out than are idle beside the producer")


def consuming_threads(consumes: Condition, launch: Launch) -> int:
    """How many threads are consumers: those with the first coordinates along the last axis. Raises Refused."""
    axes = {name: THREAD_KINDS.index(kind) for name, kind, _ in launch.coordinates if kind in THREAD_KINDS}
    names = consumes.value.names()
    (name,) = names if len(names) == 1 else ("",)
    first = consumes.value + var(name)
    last = max((axis for axis, size in enumerate(launch.block) if size > 1), default=0)
    known = first.is_const and 0 <= first.const < launch.block[last] - 1
    if consumes.equal or axes.get(name) != last or not known:
        raise Refused("consumers are not told from others by the last coordinate of a thread")
    return prod(launch.block) // launch.block[last] * (first.const + 1)


@dataclass(frozen=True)
class _Ring:
    """The names of its barriers and slots, and of the loop; where a role is in it."""

    loop: str
    filled: str
    emptied: str
    slots: tuple[str, ...]
    place: RingPlace


def _find_ring(roles: _Roles, threads: frozenset[str]) -> tuple[For, For, _Ring]:
    """(the producer's loop, the consumers' loop, the ring); `threads` are the names that tell threads apart, and the
    blocks of a cluster."""
    start, *producing = roles.producing
    if not isinstance(start, StartRing) or roles.consuming[:1] != (start,):
        raise Refused("producer and consumers do not begin at the same place of a ring")
    place = start.place
    loop, used = _same_loop(tuple(producing), roles.consuming[1:], threads)
    if loop.body[-1:] != (NextSlot(place),) or used.body[-1:] != (NextSlot(place),):
        raise Refused(f"an iteration of '{loop.name}' does not end at the next slot of its ring")
    match loop.body[:-1]:
        case (BulkWait(emptied, _, _, False), BulkCopies(filled, _, _, copies)):
            slots = dict.fromkeys(node.target.buffer for node in nodes(copies) if isinstance(node, BulkCopy))
            return loop, used, _Ring(loop.name, filled.buffer, emptied.buffer, tuple(slots), place)
        case _:
            raise Refused("a producer does more than wait for room and fill it")


def _same_loop(producing: tuple[Spmd, ...], consuming: tuple[Spmd, ...], threads: frozenset[str]) -> tuple[For, For]:
    """The loop of a ring in both roles, inside the same loops and tests."""
    (first,) = producing if len(producing) == 1 else (None,)
    match first:
        case If(test, inner, (), "", ()):
            same = [node for node in consuming if isinstance(node, If) and node.test == test and not node.orelse]
            if len(same) != 1 or names_in(c.value for c in test) & threads:
                raise Refused("a producer runs under a test that is not one of all consumers")
            return _same_loop(inner, same[0].body, threads)
        case For(name, extent, inner):
            loops = [node for node in consuming if isinstance(node, For) and node.name == name]
            if len(loops) != 1 or loops[0].extent != extent:
                raise Refused(f"producer and consumers have different loops '{name}'")
            if extent.names() & threads:
                raise Refused(f"how often '{name}' runs is not the same for all threads of a block or cluster")
            if isinstance(inner[0], BulkWait):
                return first, loops[0]
            return _same_loop(inner, loops[0].body, threads)
        case _:
            raise Refused("a producer does more than one loop")


def _check_loop(loop: For, used: For, ring: _Ring, launch: Launch) -> None:
    """Slots, phases and bytes are those of the theorem."""
    stages = {launch.buffers[name].shape[0] for name in (*ring.slots, ring.filled, ring.emptied)}
    count = stages.pop()
    if stages or not count.is_const:
        raise Refused(f"the ring of '{ring.loop}' has different numbers of slots and barriers")
    slot, phase = var(ring.place.number) % count.const, var(ring.place.number) // count.const
    if ring.place.slots != count.const:
        raise Refused(f"the ring of '{ring.loop}' has {count} slots, and {ring.place.slots} are counted")
    empty, fill = loop.body[:2]
    assert isinstance(empty, BulkWait)
    assert isinstance(fill, BulkCopies)
    _check_event(empty.barrier, empty.phase, ring.emptied, slot, phase - 1)
    _check_event(fill.barrier, fill.phase, ring.filled, slot, phase)
    for node in nodes(fill.body):
        if isinstance(node, BulkCopy):
            _check_event(node.barrier, phase, ring.filled, slot, phase)
            _check_slot(node.target, slot)
    if (found := bytes_of_copies(fill.body, launch)) != fill.bytes:
        raise Refused(f"'{ring.filled}' waits for {fill.bytes} bytes, and {found} arrive")
    waits = [n for n, node in enumerate(used.body) if isinstance(node, BulkWait) and node.barrier.buffer == ring.filled]
    ends = [n for n, node in enumerate(used.body) if isinstance(node, Release)]
    if len(waits) != 1 or len(ends) != 1:
        raise Refused(f"consumers do not wait and release once in each iteration of '{ring.loop}'")
    wait, release = used.body[waits[0]], used.body[ends[0]]
    assert isinstance(wait, BulkWait)
    assert isinstance(release, Release)
    if not wait.arrival or any({*each.buffers} != {*ring.slots} for each in (empty, wait, release)):
        raise Refused(f"a wait in '{ring.loop}' or a release names other buffers than are filled")
    _check_event(wait.barrier, wait.phase, ring.filled, slot, phase)
    _check_event(release.barrier, release.phase, ring.emptied, slot, phase)
    for place, node in enumerate(used.body):
        for access in _slots_used((node,), ring):
            _check_slot(access, slot)
            if not waits[0] < place < ends[0]:
                raise Refused(f"'{access.buffer}' is used before it has arrived, or after it has been released")


def _check_event(barrier: Access, phase: Affine, name: str, slot: Affine, wanted: Affine) -> None:
    if barrier != Access(name, (slot,)) or phase != wanted:
        raise Refused(f"at '{name}' phase {phase} of barrier {barrier.index[0]} stands, and not {wanted} of {slot}")


def _check_slot(access: Access, slot: Affine) -> None:
    if access.index[0] != slot:
        raise Refused(f"'{access.buffer}' is used in slot {access.index[0]}, and what has been waited for is in {slot}")


def _slots_used(body: tuple[Spmd, ...], ring: _Ring) -> Iterator[Access]:
    """The uses of slots: their first index says of which."""
    for access in accesses(body):
        if access.buffer in ring.slots:
            yield Access(access.buffer, access.index)


def _check_nothing_else(body: tuple[Spmd, ...], roles: _Roles, ring: _Ring, used: For, consuming: int) -> None:
    """Beside the two loops nothing touches the ring, waits for the whole block, or writes what is copied."""
    mine = {ring.filled, ring.emptied}
    others = tuple(node for node in (*body, *rewrite(roles.consuming, _without(used))) if not _roles_of(node))
    for node in nodes((*others, used)):
        if isinstance(node, Combine) or (isinstance(node, Barrier) and (node.threads != consuming or node.group)):
            raise Refused("all threads of a block wait for each other, and some of them are producers")
    for node in nodes(others):
        if isinstance(node, BulkWait | BulkCopies | Release) and node.barrier.buffer in mine:
            raise Refused(f"'{node.barrier.buffer}' is used outside of '{ring.loop}'")
    if used_outside := next(_slots_used(others, ring), None):
        raise Refused(f"'{used_outside.buffer}' is used outside of '{ring.loop}'")
    counting = [node for node in nodes((*body, *others)) if isinstance(node, StartRing | NextSlot)]
    if len(counting) != 5:  # both in each role; what consumers start with is seen twice
        raise Refused(f"a place in the ring of '{ring.loop}' changes in between")
    if names_in(walk(others)) & {ring.place.number}:
        raise Refused(f"a place in the ring of '{ring.loop}' is used outside of it")


def _without(loop: For) -> Callable[[Any], Any]:
    return lambda value: () if value is loop else value


def _join(node: Spmd, roles: _Roles, loop: For, used: For, ring: _Ring) -> Spmd:
    """What the consumers do, under their test, and in the ring's loop first what the producer does."""
    if isinstance(node, Barrier):
        return replace(node, threads=0)  # whoever touches anything but the ring waits at it
    if isinstance(node, For | If) and node is not used and any(each is used for each in nodes((node,))):
        return with_body(node, tuple(_join(each, roles, loop, used, ring) for each in node.body))
    if node is not used and isinstance(node, For) and any(isinstance(each, Barrier) for each in nodes(node.body)):
        return with_body(node, tuple(_join(each, roles, loop, used, ring) for each in node.body))
    if node is not used:
        return If((roles.consumes,), (node,))
    fill = loop.body[1]
    assert isinstance(fill, BulkCopies)
    rest = tuple(
        _join(each, roles, loop, used, ring)
        for each in used.body
        if not isinstance(each, Release | NextSlot)
        and not (isinstance(each, BulkWait) and each.barrier.buffer == ring.filled)
    )
    joined = with_body(used, (If((roles.produces,), fill.body), *rest))
    return substitute(joined, {ring.place.number: var(used.name)})
