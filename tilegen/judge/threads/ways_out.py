"""The ways out where a loop is bound that carries a dependence.

Of a reduction blocks can use atomics, and lanes shuffles; what a role needs of another one comes after both.
"""

from __future__ import annotations

from tilegen.ir.hardware.atomics import NATIVE
from tilegen.ir.hardware.lanes import WARP
from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS
from tilegen.ir.parts.role import role_number
from tilegen.ir.walk import find_loop
from tilegen.poly.instances import Leaf, Projection


def ways_out(program: Projection, leaf: Leaf, loop: str, kind: str) -> tuple[str, ...]:
    """What a schedule can do where the loop of a reduction is to be parallel."""
    stmt = leaf.stmt
    if stmt.reduce and not stmt.is_copy:
        target = {n for i in stmt.target.index for n in i.names()}
        bindable = [n for n, k in zip(leaf.names, leaf.kinds, strict=True) if n in target and k == "serial"]
        if loop not in target and stmt.atomic:
            return (f"put what initializes '{stmt.name}' in an earlier launch, and what reads it in a later one",)
        if loop not in target:
            best = f"; '{bindable[0]}' can be bound" if bindable else ""
            first = f"'{loop}' is part of the reduction '{stmt.name}', which is built step by step{best}"
            return first, *_lanes_can(program, leaf, loop, kind), *_atomics_can(program, leaf, kind)
    return ()


def ways_out_of_roles(program: Projection, one: Leaf, two: Leaf, loop: str, kind: str) -> tuple[str, ...]:
    """What a schedule can do where the two are different roles of the loop that is to be parallel."""
    first, second = sorted((_role(program, leaf, loop), leaf.stmt.name) for leaf in (one, two))
    if first[0] == second[0]:
        return ()
    behind = "in a launch of its own" if kind in BLOCK_KINDS else "after the roles, where a barrier can stand"
    return (f"a role cannot wait for another: leave '{second[1]}' {behind}",)


def _role(program: Projection, leaf: Leaf, loop: str) -> int:
    """The number of the leaf's role in the loop; 0 where it has none."""
    found = find_loop(program.tree, loop)
    return role_number(leaf.stmt, found) if found and loop in leaf.names else 0


def _atomics_can(program: Projection, leaf: Leaf, kind: str) -> tuple[str, ...]:
    """How blocks could do it."""
    stmt, buffer = leaf.stmt, program.buffers[leaf.stmt.target.buffer]
    if stmt.reduce == "list":
        return (
            f"before all other steps, rank({stmt.name}) -> rank gives each hit its place: then all are stored at once",
        )
    if buffer.space != "global" or (stmt.reduce, buffer.dtype) not in NATIVE:
        return ()
    if stmt.hits:
        return (f"atomic({stmt.name}) lets threads and blocks add to it at once",)
    if kind not in BLOCK_KINDS:
        return ()
    first = "" if stmt.name in program.tree.reassociated else f"reassociate({stmt.name}) and "
    return (f"{first}atomic({stmt.name}) {'let' if first else 'lets'} blocks update it at once",)


def _lanes_can(program: Projection, leaf: Leaf, loop: str, kind: str) -> tuple[str, ...]:
    """How the lanes of a warp could do it."""
    extent = leaf.extents[leaf.names.index(loop)] if loop in leaf.names else None
    if kind not in THREAD_KINDS or extent is None or not extent.is_const or leaf.stmt.hits:
        return ()
    if kind != "thread.x":
        return (f"a loop bound to thread.x, the lanes of a warp, can combine '{leaf.stmt.name}' by shuffles",)
    if extent.const > WARP or WARP % extent.const:
        return (
            f"the lanes of a warp could combine it: {WARP} or a half, a quarter ... of that; '{loop}' has {extent}",
        )
    if leaf.stmt.name not in program.tree.reassociated:
        return (f"reassociate({leaf.stmt.name}) allows the lanes of a warp to combine it by shuffles",)
    return ()
