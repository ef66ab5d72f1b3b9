"""Bulk stores: boxes of shared memory go to a tensor, at any time between their start and the end of the launch.

A bulk store is a box as a bulk copy is one; of it the hardware writes what is inside of the tensor, and nothing else.

Theorem: it does not matter when it writes if, in its launch,

- no other statement touches the tensor;
- no element is stored twice.

Then nobody can see what has been written and what has not. That the box is complete in shared memory when it starts,
and stays so until it has been read, is up to barriers and waits, which are derived.
"""

from __future__ import annotations

from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import Node
from tilegen.ir.walk import accesses, gathers, loops, stmts
from tilegen.judge.threads.cross_thread import ways_later
from tilegen.judge.transfers.bulk import BoxCopy, boxes_in, check_box
from tilegen.poly.instances import Projection
from tilegen.poly.system import example, solvable
from tilegen.poly.verdict import NoForm, Words


def check_bulk_stores(program: Projection) -> None:
    """Refused where a nest of bulk loops stores no box, or the order of what it writes matters."""
    for launch in program.tree.body:
        for path, box in boxes_in(launch, program.buffers):
            if box.stores:
                check_box(program, path, box)
                _check_source(launch, box, program)
                _check_alone(launch, box)
                _check_once(program, box)


def _check_source(launch: Node, box: BoxCopy, program: Projection) -> None:
    if any(each.target == box.target and not each.stores for _, each in boxes_in(launch, program.buffers)):
        raise NoForm(
            f"'{box.target}' is filled by bulk copies and stored by them, and no thread waits in between",
            way="keep what threads write in a buffer of its own",
        )
    scope = program.buffers[box.target].scope
    if any(loop.name == scope and loop.stages > 1 for loop in loops(launch)):
        raise NoForm(
            f"'{box.target}' is stored in bulk in '{scope}', whose copies run ahead",
            way=f"leave pipeline({scope}) out, or this store to all threads",
        )


def _check_alone(launch: Node, box: BoxCopy) -> None:
    """Nobody else in the launch touches the tensor."""
    memory = memory_of(box.tensor)
    for stmt in stmts(launch):
        if stmt is box.stmt:
            continue
        used = {memory_of(access.buffer) for access in (*accesses(stmt), *gathers(stmt))}
        if memory in used:
            does = "writes" if memory_of(stmt.target.buffer) == memory else "reads"
            raise NoForm(
                f"'{box.tensor}' is stored in bulk, and '{stmt.name}' {does} it in the same launch, at any time",
                way=f"leave what {does} it in a launch of its own, or this store to all threads",
            )


def _check_once(program: Projection, box: BoxCopy) -> None:
    """No element is stored in two iterations: nothing says which of them would be the last."""
    placed = next(p for p in program.leaves if p.leaf.stmt is box.stmt)
    leaf = placed.leaf
    (write,) = (use for use in leaf.uses if use.writes)
    for loop, shared, order in ways_later(placed, placed):
        rows, names = program.original.meeting_rows(leaf, leaf, write, write, shared, order)
        if not solvable(rows):
            continue
        found = example(rows, [*program.kernel.symbols, *leaf.names, *names.values()])
        assert found is not None
        words = Words(program.original, found, frozenset(leaf.names) - names.keys())
        raise NoForm(
            f"an element of '{box.tensor}' is stored in bulk twice, and the stores may end in either order",
            f"{words.element(write)} is stored{words.iteration(leaf)} and{words.iteration(leaf, True)}{words.sizes}",
            f"put the buffer outside of '{loop}', so that its last value alone is stored",
        )
