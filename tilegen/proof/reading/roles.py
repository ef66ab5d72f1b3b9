"""Roles: threads that a test parts, each with loops of their own, as one program again.

    if consumer                                 for ko < n
      for ko < n: wait; use As; release           if producer: wait; fill As
    else if producer                              if consumer: wait; use As; release
      for ko < n: wait; fill As

A thread keeps its role, and what it does is the same in both programs, step by step: one is as good as the other, for
whatever threads wait for. That waits are right is asked of the one on the right (`happens_before`), in which the
producer's part of an iteration stands before the consumers'.

Numbers. Those of a role's loop are of the iterations of all of its runs, from 0 on. The loops around both and how often
they run are the same, in all threads of a block or cluster; so an iteration has one number in all of them, and the next
one has the next number, be it of the next run. In the one program an event stands with its number in its run, `ko` in
iteration ko and n after the loop.

Turns. Where groups of consumers take turns, the producer has one more loop, of a run for each of them, and a group w
does its part of the run t in which it is its turn. By what a ring with a group means these are the runs of the group,
all of one length; so it agrees with the producer on the numbers. What waits for a turn after a run is after the runs
of all groups in the one program, and each thread keeps its own order.

A slot in memory is called ko % S there, and not number % S: each iteration uses its own slot alone, so that the name
makes no difference. Barriers of the consumers stand in the one program as if the producer were at them, though it is
not. That orders nothing wrongly: it touches slots, for which there are waits, and tensors that no thread of the launch
writes (`check_boxes`). Beside the roles, in what all threads run, nothing uses memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.hardware.lanes import WARP
from tilegen.ir.hardware.threads import GROUPS
from tilegen.ir.nodes import THREAD_KINDS, Access, Condition
from tilegen.ir.walk import accesses, substitute, walk
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import (
    Combine,
    For,
    If,
    Spmd,
    Start,
    names_in,
    nodes,
    rings,
    with_body,
)
from tilegen.lowering.launch.timelines import BLOCK, CONSUMERS, GROUP, Arrive, Await, Barrier, Box, RingPlace
from tilegen.poly import Refused


@dataclass(frozen=True)
class Ring:
    """A loop whose iterations a producer and consumers share out, in several runs.

    Attributes:
        runs: the loops around it, of blocks apart.
        slots: how many there are.
        buffers: the memory that has them.
        consumes: the test of who is a consumer; `warps` of them, in each block of a cluster, use a slot.
        tests: under which it runs.
        turn: the last one of the runs, if in its iteration n only consumers of `group` n do their part.
        ranks: the numbers of two blocks of a cluster of `blocks`: whose memory it is, and who does something to that.
    """

    loop: str
    extent: Affine
    runs: tuple[str, ...]
    slots: int
    buffers: frozenset[str]
    consumes: Condition
    warps: int
    tests: tuple[Condition, ...] = ()
    turn: str = ""
    group: Affine = Affine()
    ranks: tuple[Affine, ...] = ()
    blocks: int = 1

    @property
    def threads_of_turn(self) -> int:
        """Those of one group take it, those of another one pass it."""
        return 2 * WARP * self.warps


def join_roles(body: tuple[Spmd, ...], launch: Launch) -> tuple[tuple[Spmd, ...], Ring | None]:
    """(`body` as one program, the ring that its roles share; None if it has no roles). Raises Refused."""
    found = [(place, roles) for place, node in enumerate(body) if (roles := _roles_of(node))]
    others = [node for node in body if not _roles_of(node)]
    said = {node.line.arrivals for node in nodes(others) if isinstance(node, Arrive | Await)}
    if rings(others) or said & {"warps", "threads"}:
        raise Refused("something is released or counted, and no producer waits for that")
    if not found:
        if launch.cluster:
            raise Refused("blocks of a cluster share copies, and no producer waits until all have read")
        if launch.left_out:
            raise Refused("threads of a block are left out, and there is no producer beside whom they would be idle")
        return body, None
    if len(found) > 1 or any(isinstance(node, Barrier | Combine) for node in nodes(others)):
        raise Refused("producers stand in several places, or others wait for all threads of their block")
    if used := accesses(others):
        raise Refused(f"'{used[0].buffer}' is used outside of the roles, and the barriers are those of the consumers")
    ((at, roles),) = found
    joined, ring = _join(roles, launch)
    return (*body[:at], *joined, *body[at + 1 :]), ring


def share_of(rank: str) -> str:
    """The loop over the blocks of a cluster that do something to the memory of one of them."""
    return f"{rank}.share"


@dataclass(frozen=True)
class _Roles:
    """What consumers and what the producer do, and the tests of who is what."""

    tests: tuple[tuple[Condition, ...], tuple[Condition, ...]]
    consuming: tuple[Spmd, ...]
    producing: tuple[Spmd, ...]


def _roles_of(node: Spmd) -> _Roles | None:
    match node:
        case If(one, consuming, (If(other, producing, ()),)) if rings(consuming) and rings(producing):
            other = (*(Condition(-1 - test.value) for test in one), *other)
            return _Roles((one, other), consuming, producing)
        case _:
            return None


def _join(roles: _Roles, launch: Launch) -> tuple[tuple[Spmd, ...], Ring]:
    consuming, producing = roles.consuming, roles.producing
    consumers = _check_threads(*roles.tests, launch)
    (runs, loop, place), (of_consumers, own, numbered) = _path(producing), _path(consuming)
    names = tuple(node.name for node in runs if isinstance(node, For))
    consumes, turn, group, around = roles.tests[0][0], "", numbered.group, runs
    if group:
        *around, last = runs or [loop]
        turn, consumers = names[-1] if names else "", consumers // GROUPS
        if last != For(turn, const(GROUPS), ()) or consumes.value != const(GROUPS - 1) - var(group):
            raise Refused("groups that take turns are not all groups of consumers")
        if not loop.extent.names().isdisjoint(names):
            raise Refused("groups that take turns have runs of different lengths")
    if (around, replace(loop, ring=replace(place, group=group))) != (of_consumers, own) or place.group:
        raise Refused("producer and consumers do not go through the same loops and tests, from one place in a ring")
    threads = {name for name, kind, _ in launch.coordinates if kind in THREAD_KINDS} | {launch.tid}
    rank, blocks = (launch.cluster.rank, launch.cluster.blocks) if launch.cluster else ("", 1)
    if names_in(walk((runs, loop.extent))) & {*threads, rank}:
        raise Refused(f"how often '{loop.name}' runs is not the same for all threads of a block or cluster")
    fills = frozenset(node.place.buffer for node in nodes(producing) if isinstance(node, Box) and node.line.has_phases)
    tests = tuple(test for node in runs if isinstance(node, If) for test in node.test)
    ranks = (var(rank), var(share_of(rank))) if rank else ()
    who = (consumes, consumers // WARP, tests, turn, var(consumes_along(consumes)), ranks, blocks)
    ring = Ring(loop.name, loop.extent, names, place.slots, fills, *who)
    joined = _Parts(ring, place, consumers, roles.tests).merge(consuming, producing)
    if place.number in names_in(walk(joined)):
        raise Refused(f"a place in the ring of '{ring.loop}' is used outside of it")
    return joined, ring


def _check_threads(consumes: tuple[Condition, ...], produces: tuple[Condition, ...], launch: Launch) -> int:
    """How many threads are consumers: whole warps, the first ones. The producer is the one after them."""
    consuming = consuming_threads(consumes[0], launch)
    numbers = {launch.flat - consuming, var(launch.tid) - consuming}
    if (launch.tid, "thread.x") in ((name, kind) for name, kind, _ in launch.coordinates):  # it is that in its row
        numbers = {var(launch.tid)} if prod(launch.block) - consuming == launch.block[0] else set()
    if len(consumes) > 1 or consuming % WARP or produces[1:] not in {(Condition(n, equal=True),) for n in numbers}:
        raise Refused("the producer is not the first thread after whole warps of consumers")
    if not 0 <= launch.left_out < prod(launch.block) - consuming:
        raise Refused("more threads are left out than are idle beside the producer")
    return consuming


def consuming_threads(consumes: Condition, launch: Launch) -> int:
    """How many threads are consumers: those with the first coordinates along the last axis. Raises Refused."""
    axes = {name: THREAD_KINDS.index(kind) for name, kind, _ in launch.coordinates if kind in THREAD_KINDS}
    name = consumes_along(consumes)
    first = consumes.value + var(name)
    last = max((axis for axis, size in enumerate(launch.block) if size > 1), default=0)
    known = first.is_const and 0 <= first.const < launch.block[last] - 1
    if consumes.equal or axes.get(name) != last or not known:
        raise Refused("consumers are not distinguished from others by the last coordinate of a thread")
    return prod(launch.block) // launch.block[last] * (first.const + 1)


def consumes_along(consumes: Condition) -> str:
    """The coordinate that distinguishes consumers from others."""
    names = consumes.value.names()
    return min(names) if len(names) == 1 else ""


def _path(role: tuple[Spmd, ...]) -> tuple[list[For | If], For, RingPlace]:
    """The loops and tests around the ring of a role, its loop, and the place in the ring; of none what is inside."""
    path = [node for node in nodes(role) if isinstance(node, For | If) and rings((node,))]
    match [with_body(node, ()) for node in path]:
        case [*runs, For(ends=None, ring=RingPlace() as place) as loop] if len(rings(role)) == 1:
            if not any(isinstance(node, If) and node.orelse for node in runs):
                return runs, loop, place
    raise Refused("a role does not count the iterations of one loop")


@dataclass(frozen=True)
class _Parts:
    """What two roles do, with the tests of who consumes and who produces."""

    ring: Ring
    place: RingPlace
    consuming: int
    tests: tuple[tuple[Condition, ...], tuple[Condition, ...]]

    def merge(self, consuming: tuple[Spmd, ...], producing: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
        """Both lists as one, down to the loop of the ring."""
        (one, ahead, behind), (other, first, last) = self._part(consuming), self._part(producing)
        if isinstance(other, For) and other.name == self.ring.turn:
            return self._merge_turn(consuming, producing)
        if isinstance(one, For) and one.name == self.ring.loop:
            self._check_numbers((one.body, other.body, behind, last))
            here, there = ({self.place.number: value} for value in (var(one.name), one.extent))
            inner = (*self._of(substitute(other.body, here), 1), *self._of(substitute(one.body, here), 0))
            behind, last = substitute((behind, last), there)
        else:
            inner = self.merge(one.body, other.body)
        if any(self._slots((ahead, behind, first, last))):
            raise Refused(f"slots of '{self.ring.loop}' are used outside of it")
        ahead, behind = ((*self._of(two, 1), *self._of(one, 0)) for two, one in ((first, ahead), (last, behind)))
        return (*ahead, with_body(one, inner), *behind)

    def _merge_turn(self, consuming: tuple[Spmd, ...], producing: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
        """Both lists as one, where the producer has a loop of runs and each group of consumers one of these."""
        other, first, last = self._part(producing)
        one, ahead, behind = self._part(consuming)
        takes = (any(isinstance(v, Await) and v.line.arrivals == "threads" for v in nodes((node,))) for node in behind)
        at = next((n for n, take in enumerate(takes) if take), len(behind))
        is_turn = Condition(var(self.ring.turn) - self.ring.group, equal=True)
        turn = replace(self, tests=((*self.tests[0], is_turn), self.tests[1]))
        run = with_body(other, turn.merge((*ahead, one, *behind[:at]), other.body))
        return (*self._of(first, 1), run, *self._of(last, 1), *self._of(behind[at:], 0))

    def _part(self, role: tuple[Spmd, ...]) -> tuple[For | If, tuple[Spmd, ...], tuple[Spmd, ...]]:
        """(the node that the ring is in, what stands before it and after it)."""
        at = next(n for n, node in enumerate(role) if rings((node,)))
        node = role[at]
        assert isinstance(node, For | If)
        return node, role[:at], role[at + 1 :]

    def _check_numbers(self, value: Any) -> None:
        """Refused where a slot or an event is another one than the number of an iteration says."""
        number = var(self.place.number)
        if any(access.index[0] != number % self.ring.slots for access in self._slots(value)):
            raise Refused(f"an iteration of '{self.ring.loop}' uses another slot than its own")
        said = [(n.at, n.number) for n in walk(value) if isinstance(n, Start | Arrive | Await) and n.line.has_phases]
        if not names_in(walk(said)) <= number.names():
            raise Refused(f"what is said at barriers in '{self.ring.loop}' is not said of the numbers of iterations")

    def _slots(self, value: Any) -> list[Access]:
        return [Access(a.buffer, a.index) for a in accesses(value) if a.buffer in self.ring.buffers]

    def _of(self, body: tuple[Spmd, ...], role: int) -> tuple[Spmd, ...]:
        """`body` as what the consumers do, or else the producer."""
        out: list[Spmd] = []
        release = (GROUP, self.ring.group) if self.ring.turn else (CONSUMERS, None)
        for node in body:
            match node:
                case Barrier(count=self.consuming) if role == 0 and (node.line, node.at) == release:
                    out.append(replace(node, line=BLOCK, at=None, count=0))
                case Barrier() | Combine():
                    raise Refused("all threads of a block wait for each other, and some of them are producers")
                case For() if any(isinstance(each, Barrier) for each in nodes(node.body)):
                    out.append(with_body(node, self._of(node.body, role)))
                case _:
                    out.append(If(self.tests[role], (node,)))
        return tuple(out)
