"""The region of a cache: the uses of a buffer inside a loop, and what has to be loaded and stored at its borders."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, affine
from tilegen.ir.nodes import ONLY, Buffer, Const, Loop, Node, Stmt, Tree
from tilegen.ir.walk import gathers, leaves, loads, loops, writes
from tilegen.primitives.rewriting.tree import need_loop

Point = tuple[Affine, ...]


@dataclass(frozen=True)
class BufferUse:
    """One access to the buffer: the loops around it inside the region, its statement, its index."""

    path: tuple[Loop, ...]
    stmt: Stmt
    index: Point
    writes: bool


@dataclass(frozen=True)
class Region:
    """The bodies of the loop `at` that use `buffer`, and whether values enter or leave them."""

    buffer: Buffer
    at: str
    uses: tuple[BufferUse, ...]
    using: frozenset[str]  # only the uses that depend on one of these loops; empty: all of them
    loads: bool  # values from before are read
    stores: bool  # values are needed afterwards
    moves: bool  # every use of an inner buffer is in here: it need not exist outside
    sizes: frozenset[str]  # of the kernel

    @property
    def fallback(self) -> Const | None:
        """What reads outside the buffer give, where the reads say so."""
        found = {load.fallback for u in self.uses for load in loads(u.stmt) if load.buffer == self.buffer.name}
        found = found - {None} or found
        if len(found) > 1:
            raise StepError(f"the reads of '{self.buffer.name}' differ in what they read outside it")
        return found.pop() if found else None


def region_of(tree: Tree, buffer: Buffer, at: str, using: tuple[str, ...] = ()) -> Region:
    """What uses `buffer` below the loop `at`. StepError if nothing does."""
    for name in (at, *using):
        need_loop(tree, name)
    wanted = frozenset(using)
    uses = [u for loop in loops(tree.body) if loop.name == at for u in uses_in(loop.body, buffer.name, wanted)]
    if not uses:
        depending = f" at an index that depends on {' or '.join(using)}" if using else ""
        computed = any(gather.buffer == buffer.name for gather in gathers(tree.body))
        notes = ("what is read at an index that is computed stays where it is: no copy could serve it",) * computed
        raise StepError(f"nothing inside loop '{at}' uses '{buffer.name}'{depending}", notes=notes)
    everywhere = len(uses_in(tree.body, buffer.name, frozenset()))
    moves = buffer.role in ("intermediate", "copy") and everywhere == len(uses)
    first = uses[0].stmt
    loads_first = not moves and any(u.stmt is first and not u.writes for u in uses)
    stores = not moves and any(u.writes for u in uses)
    return Region(buffer, at, tuple(uses), wanted, loads_first, stores, moves, frozenset(tree.kernel.sizes))


def uses_in(body: tuple[Node, ...], name: str, using: frozenset[str]) -> list[BufferUse]:
    """The uses of the buffer `name` that depend on a loop of `using`, or all if that is empty, in program order."""
    found: list[BufferUse] = []
    for path, stmt in leaves(body):
        found += [BufferUse(path, stmt, load.index, False) for load in loads(stmt) if load.buffer == name]
        written = [index for buffer, index in writes(stmt) if buffer == name]
        if stmt.reduce not in (None, ONLY):
            found += [BufferUse(path, stmt, index, False) for index in written]
        found += [BufferUse(path, stmt, index, True) for index in written]
    return [use for use in found if is_meant(use.index, using)]


def is_meant(index: Point, using: frozenset[str]) -> bool:
    """True if `index` depends on one of the loops `using`, or there are none."""
    return not using or any(not i.names().isdisjoint(using) for i in index)


def new_buffer(tree: Tree, region: Region, name: str, space: str, shape: Iterable[Affine | int]) -> Buffer:
    """The buffer that will hold the copy."""
    extents = tuple(affine(s) for s in shape)
    dims = tuple(range(len(extents)))
    # A copy that moves is gone: what takes its place is a copy of the same.
    parent = region.buffer.copy_of if region.moves and region.buffer.role == "copy" else region.buffer.name
    return Buffer(name, region.buffer.dtype, extents, space, dims, copy_of=parent, scope=region.at)
