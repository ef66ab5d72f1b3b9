"""Blocks on symbolic values: warps and roles that run at their own pace, held by nothing but barriers and their phases.

A touch of a slot is ordered before the next copy to it by a release: the warp arrives when all of its lanes are there,
and who has waited for that phase knows of all that they touched, and waited for,
before. If all who still run wait, it is a "hang".

The blocks of a cluster run at once, and each gets as far as it can before the next one goes on: what is ordered by
nothing but luck comes in a wrong order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.enumeration.runs import Wrong
from tests.support.simulator.ptx_isa import WARP
from tests.support.simulator.warp import warp_steps
from tilegen.ir.hardware.threads import GROUPS
from tilegen.lowering.launch.program import If, Start
from tilegen.lowering.launch.timelines import EMPTIED, FILLED, Arrive, Await, Barrier


def has_ring(launch):
    """True if a producer waits until something has been released."""
    return any(isinstance(node, Arrive | Await) and node.line == EMPTIED for node in launch.nodes)


def clusters_of(launch, blocks):
    """The blocks in groups that run at once, each in the order of the ranks in it; every other one turned round."""
    if any(isinstance(node, Barrier) and node.line.arrivals == "grid" for node in launch.nodes):
        return [blocks]
    dims = launch.cluster.dims if launch.cluster else (1, 1, 1)
    groups = {}
    for block in blocks:
        groups.setdefault(tuple(place // size for place, size in zip(block, dims, strict=True)), []).append(block)
    if any(len(group) != dims[0] * dims[1] * dims[2] for group in groups.values()):
        raise Wrong("bounds")  # the grid is no whole number of clusters
    return list(groups.values())


@dataclass(eq=False)
class Told:
    """What a warp of a block has told at a barrier: its touches of elements, and phases that it has seen.

    Who waits there knows of the touches. When one of each block of the cluster does, they are forgotten.
    """

    shared: object
    touched: list
    seen: dict
    listeners: list = field(default_factory=list)

    def tell(self, listener):
        self.listeners.append(listener)
        mine = {(self.shared.rank, key, touch) for key, touch in self.touched}
        listener.known |= mine
        for barrier, phase in self.seen.items():
            listener.seen[barrier] = max(phase, listener.seen.get(barrier, -1))
        if len(self.listeners) == len(self.shared.cluster):
            for key, touch in self.touched:
                self.shared.epoch[key].discard(touch)
            for each in self.listeners:
                each.known -= mine


class RingThread:
    """The part of a thread that waits for others in its own time, and says that it has read."""

    def wait_phase(self, node, path):
        """Goes on when the barrier's phase has the parity, and knows of what was touched before who arrived there."""
        barrier = self._barrier(node.at)
        while (self.shared.ended[barrier] - 1) % 2 != node.number.evaluate(self.env) % 2:
            yield "wait", path
        self.seen[self.shared.rank, barrier] = self.shared.ended[barrier] - 1
        for told in self.shared.released.pop(barrier, ()):
            told.tell(self)

    def count_on(self, loop, count):
        """The iterations of a loop, and in a ring the number of each among those of all runs, of other groups, too."""
        ring = loop.ring
        if ring and ring.group:
            self.env[ring.number] += (GROUPS - 1 if ring in self.turned else self.env[ring.group]) * count
            self.turned.add(ring)
        for value in self.iterations(loop, count):
            yield value
            if ring:
                self.env[ring.number] += 1

    def stop_at(self, node, path):
        """Where all meet that the row says, or some threads of the block from a first one on."""
        self._wait(node.wait)
        if node.fence:
            self.fence()
        if not {*node.line.asks} <= {*self.home.launch.asks}:
            raise Wrong("hang")  # not all of them need run
        first = node.at.evaluate(self.env) * node.count if node.at else 0
        return "meet", path, node.line.arrivals, range(first, first + node.count) if node.count else None

    def turn(self, node, path):
        """Comes to a named barrier of so many threads: who takes a turn waits there for the others."""
        yield "warp", path
        turns, group = self.shared.turns, node.at.evaluate(self.env)
        ended, count = turns.get(group, (0, 0))
        turns[group] = (ended, count + 1) if count + 1 < node.count else (ended + 1, 0)
        yield "warp", (*path, "behind")
        while isinstance(node, Await) and turns[group][0] == ended:
            yield "wait", path

    def release(self, node, path):
        """One lane arrives when the others of its warp are there, too; in a cluster, one at each block."""
        yield "warp", path
        barrier, warp = self._barrier(node.at), self.number // WARP
        if self.number % WARP == 0:
            mine = {each.thread for each in self.shared.threads if each.number // WARP == warp}
            mine |= set() if warp % 4 else {("warpgroup", warp // 4)}  # whose products its first lane notes
            touched = [(key, t) for key in self.shared.brought for t in self.epoch.get(key, ()) if t[0] in mine]
            told = Told(self.shared, touched, dict(self.seen))
            for shared in self.reached(node.blocks, barrier):
                shared.released.setdefault(barrier, []).append(told)
                self.arrive(shared, barrier)
        yield "warp", (*path, "behind")


class _Block:
    """The threads of a block in groups: consumers warp by warp, and each other thread for itself.

    `at` has for each group that still runs where it stands.
    """

    def __init__(self, launch, shared):
        self.shared = shared
        test = next((n.test for n in launch.body if isinstance(n, If) and _produces(n.orelse)), ())
        self.groups = []
        for first in range(0, len(shared.threads), WARP):
            warp = shared.threads[first : first + WARP]
            consumers = [each for each in warp if each._holds(test)]
            self.groups += [consumers] if consumers else []
            self.groups += [[each] for each in warp if each not in consumers]
        self.running = {n: warp_steps(group) for n, group in enumerate(self.groups)}
        self.at = dict.fromkeys(self.running)

    def state(self):
        """What changes when one of a cluster goes on."""
        shared = self.shared
        counts = (self.at, shared.ended, shared.arrived, shared.expected, shared.turns)
        return {*self.running}, *map(dict, counts)

    def step(self):
        """Each group goes on to where it stops next; those who meet others wait until all are there."""
        for n, steps in list(self.running.items()):
            if self.at[n] is not None and self.at[n][0] == "meet":
                continue
            self.at[n] = next(steps, None)
            if self.at[n] is None:
                del self.running[n]
        self.shared.left = not self.running


def run_roles(launch, cluster):
    """Runs the threads of the blocks of a cluster, whose memories are given in the order in which they go ahead."""
    blocks = [_Block(launch, shared) for shared in cluster]
    while any(block.running for block in blocks):
        for block in blocks:
            before = [each.state() for each in blocks]
            block.step()
            _meet(block, blocks)
            if [each.state() for each in blocks] != before:
                break
        else:
            stops = {block.at[n][0] for block in blocks for n in block.running}
            raise Wrong("divergence" if stops == {"meet"} else "hang")
    for shared in cluster:
        if any(count for _, count in shared.turns.values()):
            raise Wrong("divergence")  # a turn was passed, and nobody took it
        arrived = {*shared.brought.values()}
        if any(all(t.last_seen(shared, barrier) < phase for t in shared.threads) for barrier, phase in arrived):
            raise Wrong("race")  # the block ends, and a copy is on its way


def _produces(body):
    return any(
        (isinstance(n, Start) and n.line == FILLED) or _produces((*getattr(n, "body", ()), *getattr(n, "orelse", ())))
        for n in body
    )


def _meet(block, blocks):
    """Lets those go on who are where all meet that it is for; what they have touched is forgotten."""
    for stop in {block.at[n] for n in block.running if block.at[n][0] == "meet"}:
        _, _, who, part = stop
        those = blocks if who in ("cluster", "grid") else [block]
        needed = [(each, n) for each in those for n, g in enumerate(each.groups) if not part or g[0].number in part]
        if any(n not in each.running for each, n in needed):
            raise Wrong("divergence")  # some have left
        if any(each.at[n] != stop for each, n in needed):
            continue
        for each in those:
            mine = [thread for b, n in needed if b is each for thread in each.groups[n]]
            touching = {thread.thread for thread in mine} | {("warp", thread.number // WARP) for thread in mine}
            for key in each.shared.epoch if part else ():
                each.shared.epoch[key] = {touch for touch in each.shared.epoch[key] if touch[0] not in touching}
            if not part:
                each.shared.epoch.clear()
            if who == "grid":
                mine[0].home.seen.clear()
        for each, n in needed:
            each.at[n] = ("go", stop)
