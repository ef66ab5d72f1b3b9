"""The region of a cache: who uses a buffer inside a loop, and how its uses are sent to the copy instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, affine
from tilegen.ir.nodes import Access, Buffer, Const, Load, Loop, Node, Stmt, Tree
from tilegen.ir.walk import gathers, leaves, loads, loops, replace, rewrite_accesses, stmts, writes
from tilegen.primitives._tree import change_loops, need_loop

Point = tuple[Affine, ...]


@dataclass(frozen=True)
class Use:
    """One access to the buffer: the loops around it inside the region, its statement, its index."""

    path: tuple[Loop, ...]
    stmt: Stmt
    index: Point
    writes: bool


@dataclass(frozen=True)
class Region:
    """The bodies of the loop `at` that use `buffer`, and what has to happen at their borders."""

    buffer: Buffer
    at: str
    uses: tuple[Use, ...]
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
    uses = [u for loop in loops(tree.body) if loop.name == at for u in _uses(loop.body, buffer.name, wanted)]
    if not uses:
        depending = f" at an index that depends on {' or '.join(using)}" if using else ""
        computed = any(gather.buffer == buffer.name for gather in gathers(tree.body))
        notes = ("what is read at an index that is computed stays where it is: no copy could serve it",) * computed
        raise StepError(f"nothing inside loop '{at}' uses '{buffer.name}'{depending}", notes=notes)
    everywhere = len(_uses(tree.body, buffer.name, frozenset()))
    moves = buffer.role in ("intermediate", "copy") and everywhere == len(uses)
    first = uses[0].stmt
    loads_first = not moves and any(u.stmt is first and not u.writes for u in uses)
    stores = not moves and any(u.writes for u in uses)
    return Region(buffer, at, tuple(uses), wanted, loads_first, stores, moves, frozenset(tree.kernel.sizes))


def _uses(body: tuple[Node, ...], name: str, using: frozenset[str]) -> list[Use]:
    found: list[Use] = []
    for path, stmt in leaves(body):
        found += [Use(path, stmt, load.index, False) for load in loads(stmt) if load.buffer == name]
        written = [index for buffer, index in writes(stmt) if buffer == name]
        if stmt.reduce:
            found += [Use(path, stmt, index, False) for index in written]
        found += [Use(path, stmt, index, True) for index in written]
    return [use for use in found if _wanted(use.index, using)]


def _wanted(index: Point, using: frozenset[str]) -> bool:
    return not using or any(not i.names().isdisjoint(using) for i in index)


def redirected(
    body: tuple[Node, ...],
    old: str,
    new: str,
    index: Callable[[Point], Point],
    using: frozenset[str] = frozenset(),
) -> tuple[Node, ...]:
    """`body` with every access to `old` made to `new` instead, at `index` of its point."""

    def change(value: object) -> object:
        if not isinstance(value, Load | Access) or value.buffer != old or not _wanted(value.index, using):
            return value
        if isinstance(value, Load):
            return replace(value, buffer=new, index=index(value.index), fallback=None)
        return Access(new, index(value.index))

    return rewrite_accesses(body, change)


def with_copies(
    tree: Tree,
    region: Region,
    copy: Buffer,
    index: Callable[[Point], Point],
    before: tuple[Node, ...],
    after: tuple[Node, ...],
) -> Tree:
    """The tree with the region redirected to `copy`, `before` ahead of its first use, `after` behind its last."""
    old = region.buffer.name

    def change(loop: Loop) -> Loop:
        places = [n for n, child in enumerate(loop.body) if _uses((child,), old, region.using)]
        if not places:
            return loop
        body = redirected(loop.body, old, copy.name, index, region.using)
        first, last = places[0], places[-1] + 1
        return replace(loop, body=(*body[:first], *before, *body[first:last], *after, *body[last:]))

    kept = tuple(b for b in tree.buffers if not (region.moves and b.name == old))
    return reparented(change_loops(replace(tree, buffers=(*kept, copy)), region.at, change), old, copy.name)


def reparented(tree: Tree, old: str, new: str) -> Tree:
    """The tree where copies of `old` that are filled from `new` now, and from nowhere else, are copies of `new`."""
    met: dict[str, set[str]] = {}
    for stmt in stmts(tree.body):
        if stmt.is_copy and isinstance(stmt.value, Load):
            met.setdefault(stmt.target.buffer, set()).add(stmt.value.buffer)
            met.setdefault(stmt.value.buffer, set()).add(stmt.target.buffer)

    def change(buffer: Buffer) -> Buffer:
        others = met.get(buffer.name, set())
        moved = buffer.copy_of == old and buffer.name != new and new in others and old not in others
        return replace(buffer, copy_of=new) if moved else buffer

    return replace(tree, buffers=tuple(change(b) for b in tree.buffers))


def new_buffer(tree: Tree, region: Region, name: str, space: str, shape: Iterable[Affine | int]) -> Buffer:
    """The buffer that will hold the copy."""
    extents = tuple(affine(s) for s in shape)
    dims = tuple(range(len(extents)))
    # A copy that moves is gone: what takes its place is a copy of the same.
    parent = region.buffer.copy_of if region.moves and region.buffer.role == "copy" else region.buffer.name
    return Buffer(name, region.buffer.dtype, extents, space, dims, copy_of=parent, scope=region.at)
