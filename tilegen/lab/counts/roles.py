"""Roles of a launch: which threads or blocks do what, and what that costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.hardware.lanes import WARP
from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS, Condition, Loop, Stmt
from tilegen.ir.parts.role import role_number
from tilegen.ir.walk import leaves, loads, loops
from tilegen.lab.counts.addresses import block_places
from tilegen.lowering.launch.launch import Launch


@dataclass(frozen=True)
class RoleLoop:
    """A loop of threads or blocks with roles.

    Attributes:
        loop, kind: its name and what runs it.
        parts: (role, its first iteration, how many it has).
        mixed: warps of a block with threads of several roles, which run these one after the other.
        alike: tensors that several roles load, each for itself.
        handed_on: shared buffers that a role fills and what stands after the roles reads.
        behind: (statement, threads along the axis that run it) of what stands after, where some have no work.
    """

    loop: str
    kind: str
    parts: tuple[tuple[str, int, int], ...]
    mixed: int
    alike: tuple[str, ...]
    handed_on: tuple[str, ...]
    behind: tuple[tuple[str, int], ...]


def roles_of(launch: Launch, sizes: Mapping[str, int]) -> tuple[RoleLoop, ...]:
    """The loops of threads and blocks that have roles."""
    found = {v.name: v for v in loops(launch.distributed) if v.roles and v.kind in (*THREAD_KINDS, *BLOCK_KINDS)}
    return tuple(_role_loop(launch, loop, sizes) for loop in found.values())


def _role_loop(launch: Launch, loop: Loop, sizes: Mapping[str, int]) -> RoleLoop:
    every = list(leaves((launch.distributed,)))
    inside = [(path, stmt) for path, stmt in every if any(each.name == loop.name for each in path)]
    outside = [one for one in every if one not in inside]
    loaded = Counter(name for n in range(len(loop.roles)) for name in _loaded_by(n, loop, inside))
    spaces = {b.name: b.space for b in launch.buffers.values()}
    written = dict.fromkeys(stmt.target.buffer for _, stmt in inside)
    read = {load.buffer for _, stmt in outside for load in loads(stmt)}
    behind = {}
    if loop.kind in THREAD_KINDS:
        size = launch.block[THREAD_KINDS.index(loop.kind)]
        own = [(stmt, next((v.extent.const for v in path if v.kind == loop.kind), 1)) for path, stmt in outside]
        behind = {stmt.name: threads for stmt, threads in own if threads < size}
    return RoleLoop(
        loop.name,
        loop.kind,
        tuple((role.name, role.start.evaluate(sizes), role.extent.evaluate(sizes)) for role in loop.roles),
        _mixed_warps(launch, loop) if loop.kind in THREAD_KINDS else 0,
        tuple(name for name, roles in loaded.items() if roles > 1 and spaces.get(name) == "global"),
        tuple(name for name in written if name in read and spaces.get(name) == "shared"),
        tuple(behind.items()),
    )


def _loaded_by(number: int, loop: Loop, inside: list[tuple[tuple[Loop, ...], Stmt]]) -> set[str]:
    """What the statements of a role load."""
    return {load.buffer for _, stmt in inside if role_number(stmt, loop) == number for load in loads(stmt)}


def _mixed_warps(launch: Launch, loop: Loop) -> int:
    """Warps of a block whose threads are in several roles."""
    axis = THREAD_KINDS.index(loop.kind)
    flat = np.arange(launch.threads)
    place = flat // int(np.prod(launch.block[:axis])) % launch.block[axis]
    role = np.searchsorted([role.start.const for role in loop.roles], place, side="right")
    return sum(len(set(role[first : first + WARP])) > 1 for first in range(0, launch.threads, WARP))


def blocks_along(launch: Launch, tests: tuple[Condition, ...]) -> tuple[Affine, ...]:
    """How many blocks pass the tests, a factor for each loop over blocks; tests of one such loop count."""
    factors = [factor for blocks in launch.grid for factor in blocks.factors]
    for name, place in block_places(launch).items():
        of_loop = [c.value for c in tests if name in c.value.names() and not c.equal]
        first = next((var(name) - value for value in of_loop if value.coefficient(name) == 1), const(0))
        end = next((value + var(name) + 1 for value in of_loop if value.coefficient(name) == -1), None)
        if of_loop:
            factors[place] = (factors[place] if end is None else end) - first
    return tuple(factors)
