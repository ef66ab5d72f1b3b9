"""Bulk copies that a block can wait for: a barrier counts them, or orders them after what threads have written.

Theorem: a barrier of its own, or one for each stage, tells all threads that a buffer is filled for the n-th time if

- it is filled at one place, wherever the loops around have an iteration, and used after that place in the same body;
- n is affine in these loops: but for the outermost one they have constant extents, and the iterations of a pipelined
  loop that runs several times are a multiple of its stages. A producer counts on from run to run by itself.

A barrier of the block stands between whatever fills a buffer and the store that reads it if several threads fill it.

This is asked of the last tree: a step may still move what uses a copy, or bind the threads that wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from tilegen.ir.affine import const
from tilegen.ir.hardware.fragments import deal_fragments
from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS, Loop, Node, Tree
from tilegen.ir.walk import loads, loops, stmts
from tilegen.judge.threads.cross_thread import Crossing, meetings, ways_later
from tilegen.judge.transfers.bulk import BoxCopy, boxes_in
from tilegen.judge.transfers.pipelines import staged_buffers, useful_stages
from tilegen.poly.instances import Projection, project
from tilegen.poly.verdict import NoForm


def check_bulk_waits(tree: Tree) -> None:
    """Refused where nobody can wait for a bulk copy: no other thread is there, or no barrier tells when."""
    buffers = {b.name: b for b in tree.buffers}
    for launch in tree.body:
        boxes = list(boxes_in(launch, buffers))
        filled = [box.target for _, box in boxes if not box.stores]
        several = any(each.kind in THREAD_KINDS and each.extent != const(1) or each.performed for each in loops(launch))
        for path, box in boxes:
            done, alone = ("stored", "write it together") if box.stores else ("filled", "wait for the copy")
            if not several:
                message = f"'{box.target}' is {done} by a bulk copy in a block of one thread"
                raise _no_form(box, message, f"bind(..., thread.x) gives the block threads that {alone}")
            if box.stores:
                _check_written(tree, box)
                continue
            if filled.count(box.target) > 1:
                message = f"'{box.target}' is filled by bulk copies in several places, and their barrier counts in one"
                raise _no_form(box, message, "give each nest that uses it a copy with a name of its own")
            _check_uses(launch, path[-1], box)
            _check_count(path, box, useful_stages(path[-1]) if box.target in staged_buffers(tree, path[-1]) else 1)


def _no_form(box: BoxCopy, message: str, *way: str) -> NoForm:
    others = f"without bulk(...) all threads {'store' if box.stores else 'copy'} it"
    return NoForm(message, None, *way, others, span=box.stmt.span)


def _check_uses(launch: Node, home: Loop, box: BoxCopy) -> None:
    """Refused where what is filled is used elsewhere than after the copy in the body that it stands in."""
    place = next(n for n, node in enumerate(home.body) if any(stmt is box.stmt for stmt in stmts(node)))
    behind, everywhere = (
        sum(load.buffer == box.target for node in nodes for load in loads(node))
        for nodes in (home.body[place + 1 :], (launch,))
    )
    if not behind or behind < everywhere:
        message = f"'{box.target}' is used in another body of loops than the one in which a bulk copy fills it"
        raise _no_form(box, message, "order the loops so that its uses stand after the copy")


def _check_count(path: Sequence[Loop], box: BoxCopy, stages: int) -> None:
    """Refused where the number of a filling is not affine in the loops around, which number its phase."""
    around, home = [loop for loop in path if loop.kind not in BLOCK_KINDS], path[-1]
    if home.specialized:
        return
    if stages > 1 and len(around) > 1 and (not home.extent.is_const or home.extent.const % stages):
        message = f"'{home.name}' runs several times, and {stages} stages do not divide its {home.extent} iterations"
        raise _no_form(box, message, "with a number of stages that does, each run begins with the first of them")
    for loop in around[1:]:
        if not loop.extent.is_const:
            message = (
                f"'{loop.name}' runs several times, and how often it fills '{box.target}' is no number: it has "
                f"{loop.extent} iterations"
            )
            raise _no_form(box, message, "fix the size that it runs to")


def _check_written(tree: Tree, box: BoxCopy) -> None:
    """Refused where the thread that stores a buffer has written all of it itself, so that no barrier is in between."""
    if not any(_crosses_threads(project(deal_fragments(tree)), box)):
        message = f"'{box.target}' is stored by a bulk copy, and by the thread alone that has written it"
        raise _no_form(box, message)


def _crosses_threads(program: Projection, box: BoxCopy) -> Iterator[bool]:
    """Whether other threads may have written what is stored, for each way in which something comes before that."""
    using = [placed for placed in program.leaves if box.target in placed.leaf.buffers]
    store = next(p for p in using if p.leaf.stmt.target.buffer == box.tensor and "bulk" in p.leaf.kinds)
    for one, two, pairs in meetings(program, using):
        if two is store and one is not store:
            yield any(kind == "cooperative" for kind in one.leaf.kinds)
            for way, (a, b) in product(ways_later(one, two), pairs):
                yield Crossing(program, one, two, a, b, way).is_possible()
