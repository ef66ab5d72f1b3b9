"""Specialized loops on symbolic values: roles that run at their own pace, held by nothing but phases of barriers.

A touch of a slot is ordered before the next copy to it by a release: the warp arrives when all of its lanes are there,
and who has waited for that phase knows of all that they touched, and waited for,
before. If all who still run wait, it is a "hang".
"""

from __future__ import annotations

from enumeration import Wrong
from ptx_isa import WARP
from simulate_warp import warp_steps

from tilegen.lowering.bulk_nodes import BulkCopies, Release
from tilegen.lowering.program import If


def has_ring(launch):
    """True if a producer waits until something has been released."""
    return any(isinstance(node, Release) or getattr(node, "arrival", True) is False for node in launch.nodes)


class RingThread:
    """The part of a thread that waits for others in its own time, and says that it has read."""

    def wait_phase(self, node, path):
        """Goes on when the barrier's phase has the parity, and knows of what was touched before who arrived there."""
        barrier = self._barrier(node.barrier)
        while (self.shared.ended[barrier] - 1) % 2 != node.phase.evaluate(self.env) % 2:
            yield "wait", path
        self.seen[barrier] = self.shared.ended[barrier] - 1
        for touched, seen in self.shared.released.pop(barrier, ()):
            for key, touch in touched:
                self.epoch[key].discard(touch)
            for other, phase in seen.items():
                self.seen[other] = max(phase, self.seen.get(other, -1))

    def go_on(self, at, *, started):
        """At the first slot, or the next one; the phase is counted on, as what it means is."""
        slot = self.env[at.slot] + 1 if started else 0
        phase = self.env[at.phase] if started else 0
        self.env |= {at.slot: slot % at.slots, at.phase: phase + slot // at.slots}

    def release(self, node, path):
        """One lane arrives when the others of its warp are there, too."""
        yield "warp", path
        barrier, warp = self._barrier(node.barrier), self.number // WARP
        if self.number % WARP == 0:
            mine = {each.thread for each in self.home.threads if each.number // WARP == warp}
            mine |= set() if warp % 4 else {("warpgroup", warp // 4)}  # whose products its first lane notes
            touched = [(key, t) for key in self.shared.brought for t in self.epoch.get(key, ()) if t[0] in mine]
            self.shared.released.setdefault(barrier, []).append((touched, dict(self.seen)))
            self.arrive(barrier)
        yield "warp", (*path, "behind")


def run_roles(launch, threads, shared, epoch):
    """Runs the threads of a block: consumers warp by warp, and each other thread for itself."""
    test = next((n.test for n in launch.body if isinstance(n, If) and _produces(n.orelse)), ())
    groups = []
    for first in range(0, len(threads), WARP):
        warp = threads[first : first + WARP]
        consumers = [each for each in warp if each._holds(test)]
        groups += [consumers] if consumers else []
        groups += [[each] for each in warp if each not in consumers]
    running = {n: warp_steps(group) for n, group in enumerate(groups)}
    at = dict.fromkeys(running)
    while running:
        before = dict(at), dict(shared.ended), dict(shared.arrived)
        for n, steps in list(running.items()):
            if at[n] is not None and at[n][0] in ("barrier", "part"):
                continue  # until all are there
            at[n] = next(steps, None)
            if at[n] is None:
                del running[n]
        _open_barriers(at, running, groups, epoch)
        if (at, shared.ended, shared.arrived) == before:
            raise Wrong("hang")
    arrived = {barrier for barrier, _ in shared.brought.values()}
    if any(threads[0].seen.get(barrier, -1) < shared.ended[barrier] - 1 for barrier in arrived):
        raise Wrong("race")  # the block ends, and a copy is on its way


def _produces(body):
    return any(
        isinstance(n, BulkCopies) or _produces((*getattr(n, "body", ()), *getattr(n, "orelse", ()))) for n in body
    )


def _open_barriers(at, running, groups, epoch):
    """Lets those go on who are at a barrier at which all are that it is for."""
    stops = {at[n] for n in running if at[n] is not None and at[n][0] in ("barrier", "part")}
    for stop in stops:
        part = stop[2] if stop[0] == "part" else None
        needed = [n for n, group in enumerate(groups) if part is None or group[0].number < part]
        if any(n not in running or at[n] is None for n in needed):
            raise Wrong("divergence")  # some have left
        if any(at[n] != stop for n in needed):
            if all(at[n][0] in ("barrier", "part") for n in needed):
                raise Wrong("divergence")
            continue
        mine = {each.thread for n in needed for each in groups[n]}
        for key in epoch:
            epoch[key] = {touch for touch in epoch[key] if touch[0] not in mine}
        for n in needed:
            at[n] = ("go", stop)
