"""What the caching primitives share: who uses a buffer in a region, and how its uses are redirected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from tilegen.errors import StepError, did_you_mean
from tilegen.ir.affine import Affine, Atom, affine
from tilegen.ir.nodes import Access, Buffer, Condition, Const, Load, Loop, Node, Stmt, Tree
from tilegen.ir.ranges import bounds
from tilegen.ir.walk import leaves, loads, loops, rewrite, walk, writes
from tilegen.primitives._tree import need_loop

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

    @property
    def fallback(self) -> Const | None:
        """What reads outside the buffer give, where the reads say so."""
        found = {load.fallback for u in self.uses for load in loads(u.stmt.value) if load.buffer == self.buffer.name}
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
        raise StepError(f"nothing inside loop '{at}' uses '{buffer.name}'{depending}")
    everywhere = len(_uses(tree.body, buffer.name, frozenset()))
    moves = buffer.role in ("intermediate", "copy") and everywhere == len(uses)
    first = uses[0].stmt
    loads_first = not moves and any(u.stmt is first and not u.writes for u in uses)
    stores = not moves and any(u.writes for u in uses)
    return Region(buffer, at, tuple(uses), wanted, loads_first, stores, moves)


def _uses(body: tuple[Node, ...], name: str, using: frozenset[str]) -> list[Use]:
    found: list[Use] = []
    for path, stmt in leaves(body):
        found += [Use(path, stmt, load.index, False) for load in loads(stmt.value) if load.buffer == name]
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

    return rewrite(body, change)


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

    def change(value: object) -> object:
        if not isinstance(value, Loop) or value.name != region.at:
            return value
        places = [n for n, child in enumerate(value.body) if _uses((child,), old, region.using)]
        if not places:
            return value
        body = redirected(value.body, old, copy.name, index, region.using)
        first, last = places[0], places[-1] + 1
        return replace(value, body=(*body[:first], *before, *body[first:last], *after, *body[last:]))

    kept = tuple(b for b in tree.buffers if not (region.moves and b.name == old))
    return replace(tree, buffers=(*kept, copy), body=rewrite(tree.body, change))


def new_buffer(tree: Tree, region: Region, suffix: str, space: str, shape: Iterable[Affine | int]) -> Buffer:
    """The buffer that will hold the copy. StepError if there is one of that name."""
    name = f"{region.buffer.name}.{suffix}"
    if any(b.name == name for b in tree.buffers):
        raise StepError(f"there is a buffer '{name}' already")
    extents = tuple(affine(s) for s in shape)
    dims = tuple(range(len(extents)))
    return Buffer(name, region.buffer.dtype, extents, space, dims, copy_of=region.buffer.name, scope=region.at)


@dataclass(frozen=True)
class Box:
    """The smallest box around the uses: `base` is affine in the loops outside, `extent` constant."""

    base: Point
    extent: tuple[int, ...]

    def inside(self, index: Point) -> Point:
        return tuple(i - b for i, b in zip(index, self.base, strict=True))


def box_of(region: Region) -> Box:
    """The box of the region. StepError where it has no constant size."""
    sides = [_side(region, dim) for dim in range(len(region.buffer.shape))]
    return Box(tuple(base for base, _ in sides), tuple(extent for _, extent in sides))


def _side(region: Region, dim: int) -> tuple[Affine, int]:
    spans: dict[Affine, tuple[int, int]] = {}
    for use in region.uses:
        outer, low, high = _split(region, use, use.index[dim])
        least, most = spans.get(outer, (low, high))
        spans[outer] = (min(least, low), max(most, high))
    if len(spans) > 1:
        one, two = list(spans)[:2]
        raise StepError(
            f"two uses of '{region.buffer.name}' are at no constant distance: {one} and {two}",
            notes=(f"choose a loop inside '{region.at}', or fix the sizes",),
        )
    (outer, (low, high)) = spans.popitem()
    return outer + low, high - low + 1


def _split(region: Region, use: Use, value: Affine) -> tuple[Affine, int, int]:
    """(part that the loops outside fix, least and greatest of the rest)."""
    inner = {loop.name: loop for loop in use.path}
    moving = Affine(tuple(t for t in value.terms if not _names(t[0]).isdisjoint(inner)), value.const)
    extents: dict[str, int] = {}
    for name in moving.names() & inner.keys():
        loop = inner[name]
        if not loop.extent.is_const:
            raise StepError(
                f"the part of '{region.buffer.name}' used inside '{region.at}' has no constant size: "
                f"loop '{name}' runs to {loop.extent}",
                notes=(f"tile '{name}' and choose a loop outside its inner part, or fix the size",),
            )
        extents[name] = loop.extent.const
    ends = bounds(moving, extents)
    if ends is None:
        raise StepError(f"an index of '{region.buffer.name}' mixes loops inside and outside '{region.at}': {value}")
    return value - moving, ends[0], ends[1]


def _names(atom: Atom) -> frozenset[str]:
    return Affine(((atom, 1),)).names()


def inside(buffer: Buffer, index: Point, extents: Mapping[str, int]) -> tuple[Condition, ...]:
    """The conditions that `index` lies in `buffer`, without those that `extents` of loops make plain."""
    conditions: list[Condition] = []
    for place, extent in zip(index, buffer.shape, strict=True):
        if place.const < 0 or any(coefficient < 0 for _, coefficient in place.terms):
            conditions += [Condition(place)]
        room = extent - 1 - place
        ends = bounds(room, extents)
        if ends is None or ends[0] < 0:
            conditions += [Condition(room)]
    return tuple(conditions)


def dimension_words(tree: Tree, buffer: Buffer) -> list[str]:
    """A word for each dimension: the index that stands there in the kernel's text, else its number."""
    root = buffer
    while root.role == "copy" and root.copy_of and any(b.name == root.copy_of for b in tree.buffers):
        root = tree.buffer(root.copy_of)
    name = root.name if root.role != "copy" else root.copy_of
    for equation in tree.kernel.equations:
        words = {r.name: r.index for r in (*equation.loops, *equation.reduced)}
        accesses = [equation.index] if equation.target == name else []
        accesses += [v.index for v in walk(equation.value) if isinstance(v, Load) and v.buffer == name]
        for index in accesses:
            found = [words.get(str(i), str(d)) for d, i in enumerate(index)]
            if len(set(found)) == len(found) == len(buffer.shape):
                return found
    return [str(d) for d in range(len(buffer.shape))]


def storage_order(buffer: Buffer, words: list[str], layout: tuple[str, ...] | None) -> tuple[int, ...]:
    """`layout` as dimension numbers, slowest first; the buffer's own order where there is no layout."""
    if layout is None:
        return buffer.order
    numbers = [str(d) for d in range(len(words))]
    dims: list[int] = []
    for word in layout:
        if word not in words and word not in numbers:
            notes = did_you_mean(word, words) or (f"its dimensions are {', '.join(words)}",)
            raise StepError(f"'{buffer.name}' has no dimension '{word}'", notes=notes)
        dims += [words.index(word) if word in words else int(word)]
    if sorted(dims) != list(range(len(words))):
        raise StepError(f"layout names each dimension of '{buffer.name}' once: {', '.join(words)}")
    return tuple(dims)
