"""Clusters: blocks that share the copies of their rings are blocks that copy everything for themselves.

    block c of C, which run at once              as if it were alone
      emptied: C*W arrivals a phase                W arrivals
      wait emptied[s]; expect all bytes            the same
      copy share c to slot s of all of them        for c' < C: copy share c' to slot s
      release emptied[s] of all of them            release emptied[s]

Theorem: a program of such blocks is one of blocks alone, with the same values, in which no thread waits for ever, if

- the blocks of a cluster are neighbours in the grid, told apart by one coordinate, `rank`, and the grid is a whole
  number of clusters;
- all of them run the ring's loop equally often: no test around it, and no extent, speaks of `rank`;
- what is shared goes to all blocks of the cluster, by the producer of each one share, which differ in `rank` alone;
- each warp of the consumers of each block arrives at `emptied` of all blocks, and each `emptied` waits for all of them;
- each `filled` expects the bytes of all shares;
- all threads of a cluster meet when the barriers have been started, and again behind all else.

Why: by induction over the iterations n of the ring, of S slots, of all blocks at once. A producer's wait in iteration n
ends when all warps of all blocks have released the slot in iteration n - S. So no share is put where some block still
reads. Each of these warps has seen the end of phase n/S - 1 of its own `filled`, so that the bytes of iteration n count
for phase n/S in each block, also where they come before the block's own producer says how many they are: without its
arrival the phase does not end. So phase n/S of `filled` ends when all shares are there. No warp arrives twice in one
phase of any `emptied`: its next arrival is behind shares of all blocks, each of which was sent behind the end of that
phase in its own block. All shares of iteration n need no more than releases of iteration n - S, in all blocks, so that
all of them come. The first meeting makes sure that a barrier has been started when another block arrives there, the
last one that it is still there: a thread comes to it behind all that it sends, but for copies, and for these the
consumers of each block that they go to have waited.

A ring whose copies are all its own releases to its own block alone, and has no cluster.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilegen.ir.affine import const, var
from tilegen.ir.hardware import CLUSTER_LIMIT
from tilegen.ir.nodes import BLOCK_KINDS
from tilegen.ir.walk import rewrite, substitute
from tilegen.lowering.grid import Cluster
from tilegen.lowering.program import For, Launch, Spmd, nodes
from tilegen.lowering.timelines import CLUSTER, EMPTIED, Arrive, Box, StartBarriers, is_await
from tilegen.poly import Refused


def leave_cluster(body: tuple[Spmd, ...], launch: Launch) -> tuple[Spmd, ...]:
    """`body` as the program of a block alone. Raises Refused where the blocks of a cluster do not share as above.

    That they run a ring equally often is left to the caller, who finds its loops.
    """
    meetings = [n for n, node in enumerate(nodes(body)) if is_await(node, CLUSTER)]
    shared = [node for node in nodes(body) if isinstance(node, Box) and node.blocks]
    releases = [node for node in nodes(body) if isinstance(node, Arrive) and node.line == EMPTIED]
    started = [node for node in nodes(body) if isinstance(node, StartBarriers)]
    cluster = launch.cluster
    if cluster is None:
        if meetings or shared or any(n.blocks for n in releases) or any(n.cluster for n in started):
            raise Refused("something is sent to other blocks, and the launch has no clusters")
        return body
    _check_neighbours(cluster, launch)
    first, last = body[0], body[-1]
    if not isinstance(first, StartBarriers) or not first.cluster or len(started) > 1:
        raise Refused("other blocks may arrive at barriers that have not been started")
    if not is_await(last, CLUSTER) or len(meetings) > 1:
        raise Refused("a block may leave before others have copied to its memory, or arrived at its barriers")
    reached = {*(each.blocks for each in shared), *(each.blocks for each in releases)}
    if not shared or reached != {cluster.mask}:
        raise Refused("something is sent to other blocks than all those of the cluster")
    emptied = {each.barrier.buffer for each in releases}
    if any(name in emptied and arrivals % cluster.blocks for name, arrivals in first.barriers):
        raise Refused("barriers do not wait for equally many arrivals of each block of the cluster")
    counts = tuple((n, arrivals // cluster.blocks if n in emptied else arrivals) for n, arrivals in first.barriers)
    inner: tuple[Spmd, ...] = rewrite(body[1:-1], lambda value: _alone(value, cluster))
    return (StartBarriers(counts), *inner)


def _check_neighbours(cluster: Cluster, launch: Launch) -> None:
    """The blocks of a cluster are numbered by the last digit of their place along an axis of the grid."""
    along = launch.grid[BLOCK_KINDS.index(cluster.kind)].factors
    names = [name for name, kind, _ in launch.coordinates if kind == cluster.kind]
    if not names or names[-1] != cluster.rank or len(names) != len(along) or along[-1] != const(cluster.blocks):
        raise Refused(f"'{cluster.rank}' does not number the blocks of a cluster")
    if not 2 <= cluster.blocks <= CLUSTER_LIMIT:
        raise Refused(f"a cluster has {cluster.blocks} blocks, and 2 to {CLUSTER_LIMIT} can run at once")


def _alone(value: Any, cluster: Cluster) -> Any:
    """A shared copy as those of all shares, and a release as one to this block."""
    match value:
        case Box(blocks=blocks) if blocks:
            share = f"{cluster.rank}.share"
            one = substitute(replace(value, blocks=0), {cluster.rank: var(share)})
            return For(share, const(cluster.blocks), (one,))
        case Arrive():
            return replace(value, blocks=0)
        case _:
            return value
