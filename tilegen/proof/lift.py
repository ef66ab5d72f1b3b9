"""The lowered program as an ordinary tree again: what the threads of a block do from barrier to barrier is a nest.

    for bi  block.x                            const int bi = blockIdx.x, ti = threadIdx.x;
      for ko                                   for (ko ...) {
        for ti  thread.x                           As[ti] = A[ko*32 + ti];
          A.shared[ti] = A[ko*32 + ti]             __syncthreads();
        -- barrier                                 ...
        for ti  thread.x                       }
          ...

Between two barriers no thread may need another's work, which is asked of the thread loops; then the nests
one after the other are what the block does. Registers get dimensions over the threads, since each has its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import Access, Buffer, Condition, Kernel, Load, Loop, Node, Stmt, Tree
from tilegen.ir.walk import leaves, rewrite_accesses, substitute, walk
from tilegen.lowering.guards.known import implication_checker
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.product_nodes import Described
from tilegen.lowering.launch.program import (
    Combine,
    Declare,
    For,
    Spmd,
    names_in,
    nodes,
)
from tilegen.lowering.launch.timelines import Arrive, Barrier, Box
from tilegen.poly import Refused, Unproved
from tilegen.proof.obligations import Extra, Question, questions
from tilegen.proof.reading.bulk import barrier_of, expand_bulk, is_bulk_copy, is_wait, without_events
from tilegen.proof.reading.coordinates import Axes, axes_of, extents_of, inline_names, rename_to_axes
from tilegen.proof.reading.exchanges import Exchanges, exchanges_of, join_terms
from tilegen.proof.reading.extras import Extras
from tilegen.proof.reading.instructions import expand_instructions
from tilegen.proof.reading.lane_loops import expand_vectors
from tilegen.proof.reading.on_timelines import EVENTS, GroupCount, OnTimeline, is_event, wait_for_copies
from tilegen.proof.reading.roles import Ring, join_roles
from tilegen.proof.reading.running import read_running
from tilegen.proof.reading.versions import MEANT, merge_versions
from tilegen.proof.waiting.barriers import FoundBarrier, Gap
from tilegen.proof.waiting.budgets import without_budgets


@dataclass
class Lifted:
    """Launches as one tree.

    Attributes:
        body: one node for each launch.
        buffers: all of its memory; a register buffer that is declared twice is two.
        barriers: the barriers, by their place.
        extras: what the text runs beyond the tree.
        loops: every loop with its extent.
        described: the buffers that instructions read by descriptor, or bulk stores.
        rings: by the number of the launch.
    """

    kernel: Kernel
    body: tuple[Node, ...] = ()
    buffers: dict[str, Buffer] = field(default_factory=dict)
    barriers: dict[Gap, FoundBarrier] = field(default_factory=dict)
    extras: list[Extra] = field(default_factory=list)
    loops: dict[str, Affine] = field(default_factory=dict)
    described: set[str] = field(default_factory=set)
    rings: dict[int, Ring] = field(default_factory=dict)

    def tree(self, reassociated: tuple[str, ...]) -> Tree:
        """The program that is asked about."""
        return Tree(self.kernel, tuple(self.buffers.values()), self.body, reassociated)

    def questions(self, reassociated: tuple[str, ...]) -> tuple[Question, ...]:
        """What has to hold of them."""
        return questions(self.tree(reassociated), self.barriers, self.extras, self.described, self.rings)


def lift(kernel: Kernel, launches: tuple[Launch, ...]) -> Lifted:
    """The tree of what the launches do. Raises Refused or Unproved where they cannot be read so."""
    result = Lifted(kernel)
    for launch in launches:
        where = axes_of(launch, result.loops)
        result.described |= {v.buffer for v in launch.inside if isinstance(v, Described)}
        result.described |= {v.place.buffer for v in launch.inside if isinstance(v, Box) and v.line.writes_tensors}
        joined, ring = join_roles(without_budgets(inline_names(launch.body, launch), launch), launch)
        body = expand_bulk(expand_instructions(joined, launch), launch, ring)
        if ring:
            result.rings[len(result.body)] = ring = substitute(ring, where.values)
        body = expand_vectors(body, launch)
        around = where.extents | extents_of(nodes(body))
        body = rename_to_axes(body, where, around)
        body = merge_versions(body, launch, around)
        result.loops |= where.extents | extents_of(nodes(body))
        result.buffers |= {
            b.name: b
            for b in (_of_launch(b, launch, where) for b in launch.buffers.values())
            if b.space in ("global", "shared", "barrier")
        }
        result.buffers |= {EVENTS.name: EVENTS} if any(map(is_event, nodes(body))) else {}
        if ring and ring.turn:
            turns = Buffer(barrier_of("turns", launch), "i64", (const(2),), "barrier", (0,))
            result.buffers |= {turns.name: turns}
        body, readers = read_running(body)
        _Lift(result, launch, where, exchanges_of(body, launch, where, readers)).run(body)
    return result


def _of_launch(buffer: Buffer, launch: Launch, where: Axes) -> Buffer:
    """Shared memory lives as long as its block, and barriers are a launch's own."""
    if buffer.space == "barrier":
        return replace(buffer, name=barrier_of(buffer.name, launch))
    return replace(buffer, scope=where.blocks[-1][1]) if buffer.space == "shared" else buffer


Names = Mapping[str, str]
Tests = tuple[Condition, ...]


@dataclass
class _Lift:
    """The work on one launch."""

    result: Lifted
    launch: Launch
    where: Axes
    exchanges: Exchanges
    leaf: int = 0
    made: GroupCount = GroupCount()
    apart: frozenset[str] = frozenset()  # the axes of threads whose loops stand around
    # Which thread updates what lanes have combined, by the identity of the update.
    firsts: dict[int, Tests] = field(default_factory=dict)

    def run(self, body: tuple[Spmd, ...]) -> None:
        number = len(self.result.body)
        path = (number, *(0 for _ in self.where.blocks[1:]))
        self.leaf = sum(1 for _ in leaves(without_events(self.result.body)))
        nest = self._lift_joint(body, path, self.where.blocks[-1][1], {})
        for kind, name, extent in reversed(self.where.blocks):
            nest = (Loop(name, extent, nest, kind),)
        (launch,) = nest
        is_implied = implication_checker(self.result.kernel, self.result.loops, self.launch.requires)
        extras = Extras(self.result.kernel, self.result.buffers, self.result.loops, is_implied, self.firsts)
        self.result.body += (extras.restore_tests(launch),)
        events = [is_event(stmt) for _, stmt in leaves((launch,))]
        self.result.extras += [Extra(self.leaf + n - sum(events[:n]), tests) for n, tests in extras.found]

    # -- lists that all threads of a block run together

    def _lift_joint(self, body: tuple[Spmd, ...], path: tuple[int, ...], scope: str, names: Names) -> tuple[Node, ...]:
        """`body`, the list at `path`: loops with barriers stay outside of the thread loops."""
        names = dict(names)
        out: list[Node] = []
        # What is done between two barriers, each node with the axes along which all threads do the same, and
        # a number for what lanes combine: every lane has put in its term before the next node.
        segment: list[tuple[tuple[frozenset[str], int], Node]] = []

        def close() -> None:
            for (axes, _), run in groupby(segment, key=lambda pair: pair[0]):
                out.extend(self._in_thread_loops(tuple(node for _, node in run), axes))
            segment.clear()

        for node in body:
            match node:
                case Barrier():
                    if node.line.arrivals != "block":
                        raise Refused("a part of the block waits at a barrier, and nobody knows which")
                    close()
                    if node.wait is not None:
                        out.append(wait_for_copies(node.wait, self.made))
                        self.result.buffers[EVENTS.name] = EVENTS
                    gap = (path, len(out))
                    again = gap in self.result.barriers
                    if not node.claims:
                        raise Refused("a barrier names nothing that it guards")
                    self.result.barriers[gap] = FoundBarrier(**vars(node), again=again)
                case Declare(name):
                    names[name] = self._add_buffer(name, scope)
                case For() if self._is_divided(node):
                    close()
                    out.append(self._lift_by_units(node, (*path, len(out)), names))
                case Arrive(line) if line.counts_groups:
                    self.made = replace(self.made, groups=self.made.groups + 1)
                case Combine():
                    pass  # it is read back with the update after it
                case _:
                    if is_wait(node) or self._fills_ring(node):
                        close()  # who reads after it needs no barrier, and stands in a nest of its own
                    axes = next(iter(self._axes(node)), frozenset())
                    meeting = self.exchanges.meeting(node)
                    segment += [((axes, meeting), each) for each in self._lift_alone((node,), scope, names)]
                    if self._fills_ring(node):
                        close()
        close()
        return tuple(out)

    def _lift_by_units(self, loop: For, path: tuple[int, ...], names: Names) -> Loop:
        """The loop at `path`, which all threads run together; or those of a warp, where each has ends of its own and
        waits for no other in it."""
        apart = [axis for axis in self.where.threads if axis[1] not in self._lanes and axis[1] not in self.apart]
        decided = frozenset().union(*(v.decided_by for v in nodes((loop,)) if isinstance(v, For)))
        plain = all(isinstance(v, For | Declare | Stmt) and not is_event(v) for v in nodes(loop.body))
        if not plain or decided.isdisjoint(name for _, name, _ in apart):
            return self._lift_divided(loop, path, names)
        before, self.apart = self.apart, self.apart | {name for _, name, _ in apart}
        nest = self._lift_divided(loop, (*path, *(0 for _ in apart)), names)
        self.apart = before
        for kind, name, extent in reversed(apart):
            nest = Loop(name, extent, (nest,), kind)
        return nest

    def _lift_divided(self, loop: For, path: tuple[int, ...], names: Names) -> Loop:
        """The loop at `path`, which all threads run together that are not `apart`."""
        if not loop.decided_by.isdisjoint(name for _, name, _ in self.where.threads if name not in self.apart):
            raise Refused(f"threads meet in loop '{loop.name}', which they run differently often")
        if loop.kind == "scatter":
            raise Refused(f"threads meet in loop '{loop.name}', of which each runs what its data pick")
        if loop.ends and any(is_event(node) and loop.name in names_in(walk(node)) for node in nodes(loop.body)):
            raise Refused(f"events are counted by the iterations of '{loop.name}', whose first one data give")
        before = self._enter_loop(loop)
        inner = self._lift_joint(loop.body, path, loop.name, names)
        self.made = before
        return Loop(loop.name, loop.extent, inner, "ragged" if loop.ends else "serial", ends=loop.ends)

    def _is_divided(self, loop: For) -> bool:
        """True if threads wait for each other in the loop, or do some of it each and some of it together."""
        divides = any(isinstance(v, Barrier | Combine) or is_wait(v) for v in nodes(loop.body))
        divides |= any(map(self._fills_ring, nodes(loop.body))) and not self._fills_ring(loop)
        return divides or len(self._axes(loop)) > 1

    def _fills_ring(self, node: Spmd) -> bool:
        """True for a nest of copies to a slot of a ring."""
        return len(self.result.body) in self.result.rings and is_bulk_copy(node)

    def _axes(self, node: Spmd) -> frozenset[frozenset[str]]:
        """Along which axes all threads do the same, for each statement in `node`."""
        if isinstance(node, For) and node.kind == "matrix":
            return frozenset((self._lanes,))
        if isinstance(node, For):
            return frozenset().union(*map(self._axes, node.body))
        return frozenset((self.exchanges.axes(node),)) if isinstance(node, Stmt) else frozenset()

    @property
    def _lanes(self) -> frozenset[str]:
        """The axis of the lanes that run an instruction together."""
        return frozenset(name for kind, name, _ in self.where.threads if kind == "thread.x")

    def _in_thread_loops(self, body: tuple[Node, ...], together: frozenset[str]) -> tuple[Node, ...]:
        for kind, name, extent in reversed(self.where.threads):
            if name not in together and name not in self.apart:
                body = (Loop(name, extent, body, kind),)
        return body

    # -- what each thread does by itself

    def _lift_alone(self, body: tuple[Spmd, ...], scope: str, names: Names) -> tuple[Node, ...]:
        names = dict(names)
        out: list[Loop | Stmt] = []
        for node in body:
            match node:
                case Declare(name):
                    names[name] = self._add_buffer(name, scope)
                case For():
                    before = self._enter_loop(node)
                    inner = self._lift_alone(node.body, node.name, names)
                    kind = node.kind if node.kind in MEANT else "serial"
                    out.append(Loop(node.name, node.extent, inner, kind, ends=node.ends))
                    self.made = before
                case Stmt():
                    stmt = self._lift_statement(node, names)
                    if isinstance(stmt, OnTimeline) and stmt.line.counts_groups:
                        stmt = replace(stmt, made=self.made)
                    out.append(stmt)
                case Arrive(line) if line.counts_groups:
                    self.made = replace(self.made, groups=self.made.groups + 1)
                case _:
                    raise Unproved(f"a {type(node).__name__} is not followed")
        return tuple(out)

    def _enter_loop(self, loop: For) -> GroupCount:
        """Counts the groups of asynchronous copies in front of each iteration; returns those after the loop.

        Where that is no affine number, the count begins anew in each iteration, and after the loop.
        """
        inside, before = _groups_made(loop.body), self.made
        if inside is None or (inside and loop.ends):
            self.made = GroupCount(since=loop.name)
            return GroupCount(since=f"behind {loop.name}")
        if inside == 0:
            return before
        self.made = replace(before, groups=before.groups + var(loop.name) * inside)
        return replace(before, groups=before.groups + loop.extent * inside)

    def _add_buffer(self, name: str, scope: str) -> str:
        """The buffer that this declaration makes."""
        buffer, new = self.launch.buffers[name], name
        while new in self.result.buffers:
            new += "_"
        threads = [extent for _, axis, extent in self.where.threads if (name, axis) not in self.exchanges.alike]
        rank = len(threads)
        order = (*range(rank), *(d + rank for d in buffer.order))
        shape = (*threads, *buffer.shape)
        self.result.buffers[new] = replace(buffer, name=new, shape=shape, order=order, scope=scope)
        return new

    def _lift_statement(self, stmt: Stmt, names: Names) -> Stmt:
        if is_event(stmt):
            return replace(stmt, name=names.get(stmt.name, stmt.name))
        threads, alike = [name for _, name, _ in self.where.threads], self.exchanges.alike

        def change(access: Access | Load) -> Access | Load:
            name = access.buffer
            if self.launch.buffers[name].space != "register":
                return access
            if name not in names:
                raise Refused(f"'{name}' is used where it is not declared")
            index, at = access.index, {thread: var(thread) for thread in threads}
            if len(index) > len(self.launch.buffers[name].shape):  # an operand's slots, each in the lane that has it
                *outer, lane, register = index
                index, at = (*outer, register), at | dict.fromkeys(self._lanes, lane)
            own = [at[thread] for thread in threads if (name, thread) not in alike]
            return replace(access, buffer=names[name], index=(*own, *index))

        combine = self.exchanges.updates.get(id(stmt))
        if combine is not None:
            everywhere = all((stmt.target.buffer, axis) in alike for axis in combine.lane.names())
            is_implied = implication_checker(self.result.kernel, self.result.loops, self.launch.requires)
            kept = self.launch.buffers[stmt.target.buffer].space == "register"
            stmt, combine = rewrite_accesses((stmt, combine), change)
            new = join_terms(stmt, combine, everywhere, kept, is_implied)
            self.firsts[id(new)] = tuple(c for c in stmt.guard if c not in new.guard)
            return new
        return rewrite_accesses(stmt, change)


def _groups_made(body: tuple[Spmd, ...]) -> int | None:
    """The groups of asynchronous copies that one run of `body` makes; None if a size decides that."""
    count = 0
    for node in body:
        if isinstance(node, Arrive) and node.line.counts_groups:
            count += 1
        elif isinstance(node, For) and (inner := _groups_made(node.body)) != 0:
            if inner is None or not node.extent.is_const:
                return None
            count += inner * node.extent.const
    return count
