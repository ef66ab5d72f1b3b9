"""cache_global(B, layout=[j, k], tiles=[32, 32])"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, var
from tilegen.ir.nodes import Access, Buffer, Const, Load, Loop, Node, Stmt, Tree
from tilegen.ir.walk import in_loops, loads
from tilegen.primitives import BufferName, NewName, primitive
from tilegen.primitives.equations.storage import compute_in_storage
from tilegen.primitives.rewriting.layout import dimension_words, group_dimensions, join_index
from tilegen.primitives.rewriting.names import name_of_copy
from tilegen.primitives.rewriting.redirect import redirect, reparent
from tilegen.primitives.rewriting.region import Point
from tilegen.primitives.rewriting.tree import need_buffer


@primitive("memory")
class CacheGlobal:
    """Store an input, or an intermediate tensor, in another order in global memory, by a launch of its own.

    kernel:
        kernel gemv(A: f32[M, K], x: f32[K]) -> y: f32[M]:
            y[i] = sum[k](A[i, k] * x[k])
    before:
        for i < M
          y[i] = 0
          for k < K
            y[i] += A[i, k] * x[k]
    steps:
        cache_global(A, layout=[k, i])
    after:
        for A.global.i < M
          for A.global.k < K
            A.global[A.global.i, A.global.k] = A[A.global.i, A.global.k]
        for i < M
          y[i] = 0
          for k < K
            y[i] += A.global[i, k] * x[k]

    The loops of the copy are ordinary loops, to be tiled and bound like any others. The layout names all dimensions,
    or those that take the places of one another: of four, layout=[x, c] exchanges two. Dimensions in brackets of
    their own become one: layout=[[c, r, s], f] stores a matrix, with the rows c*9 + r*3 + s for 3 x 3 filters.
    With `tiles`, a number for each dimension of the layout, each is made as long as the tiles that hold it,
    and what is beyond the tensor is zero: then tiles of the copy are whole, and its rows aligned.
    An intermediate tensor is not copied: it is computed in this order, and for whole tiles, by the nest that it has.
    """

    buffer: BufferName
    layout: tuple[str | tuple[str, ...], ...]
    tiles: tuple[int, ...] = ()
    name: NewName | None = None

    def apply(self, tree: Tree) -> Tree:
        buffer = need_buffer(tree, self.buffer)
        if buffer.role not in ("input", "intermediate"):
            kind = "a copy" if buffer.role == "copy" else f"an {buffer.role}"
            raise StepError(f"'{buffer.name}' is {kind}, and cache_global takes an input or an intermediate tensor")
        words = dimension_words(tree, buffer)
        if buffer.role == "intermediate":
            return self._compute(tree, buffer, words)
        name = name_of_copy(tree, buffer.name, "global", self.name)
        groups = group_dimensions(buffer, words, self.layout)
        copy = _copy_buffer(buffer, name, groups)
        if self.tiles:
            copy = replace(copy, shape=self._shape_in_tiles(copy))
        made = [b.name for b in tree.buffers if b.copy_of == buffer.name]
        if copy.joined and made:
            way = f"put cache_global before the step that made '{made[0]}'"
            raise StepError(f"the dimensions of '{buffer.name}' cannot be joined once it has copies", notes=(way,))

        def place(index: Point) -> Point:
            return _join_point(index, buffer, groups) if copy.joined else index

        body = redirect(tree.body, buffer, name, place, beyond=not copy.joined)
        if body == tree.body:
            raise _in_vain(tree, buffer)
        # Beyond the tensor, tiles have what reads there give, or zeros.
        others = (load.fallback for load in loads(tree.body) if load.buffer == buffer.name and load.fallback)
        beyond = next(others, Const(0, buffer.dtype)) if self.tiles else None
        nest = _copy_nest(buffer, copy, words, place, beyond)
        return reparent(replace(tree, buffers=(*tree.buffers, copy), body=(nest, *body)), buffer.name, name)

    def _compute(self, tree: Tree, buffer: Buffer, words: list[str]) -> Tree:
        """The tree that computes an intermediate tensor in this order and in whole tiles."""
        if self.name is not None:
            raise StepError(f"'{buffer.name}' is computed in this order, not copied, and keeps its name")
        if any(not isinstance(part, str) for part in self.layout):
            raise StepError(f"'{buffer.name}' is computed in this order, not copied, and its dimensions are not joined")
        order = tuple(dim for group in group_dimensions(buffer, words, self.layout) for dim in group)
        shape = self._shape_in_tiles(replace(buffer, order=order)) if self.tiles else buffer.shape
        return compute_in_storage(tree, replace(buffer, shape=shape, order=order))

    def _shape_in_tiles(self, copy: Buffer) -> tuple[Affine, ...]:
        """The extents of the copy, rounded up to whole tiles."""
        if copy.joined:
            raise StepError("tiles are for dimensions of their own, and the layout joins some")
        if len(self.tiles) != len(copy.order):
            raise StepError(f"tiles has a number for each of the {len(copy.order)} dimensions in the layout")
        if min(self.tiles) < 1:
            raise StepError(f"a tile has at least one element, not {min(self.tiles)}")
        by = dict(zip(copy.order, self.tiles, strict=True))
        return tuple(extent.ceildiv(by[d]) * by[d] for d, extent in enumerate(copy.shape))


def _in_vain(tree: Tree, buffer: Buffer) -> StepError:
    """What is wrong with a copy that nothing reads."""
    views = [b.name for b in tree.buffers if b.windows and b.windows.tensor == buffer.name]
    notes = [f"'{each}' is read, where '{buffer.name}' lies: leave out windows, or the copy" for each in views]
    return StepError(f"nothing reads '{buffer.name}', so that a copy would be in vain", notes=tuple(notes))


def _copy_buffer(buffer: Buffer, name: str, groups: list[tuple[int, ...]]) -> Buffer:
    if all(len(group) == 1 for group in groups):
        order = tuple(dim for group in groups for dim in group)
        return Buffer(name, buffer.dtype, buffer.shape, "global", order, copy_of=buffer.name)
    extents = [tuple(buffer.shape[d] for d in group) for group in groups]
    shape = tuple(first * prod(e.const for e in rest) for first, *rest in extents)
    order = tuple(range(len(shape)))
    return Buffer(name, buffer.dtype, shape, "global", order, copy_of=buffer.name, joined=tuple(groups))


def _join_point(index: Point, buffer: Buffer, groups: list[tuple[int, ...]]) -> Point:
    """The point `index` of the buffer in dimensions that are joined."""
    return tuple(join_index(tuple(index[d] for d in g), tuple(buffer.shape[d] for d in g)) for g in groups)


def _copy_nest(
    buffer: Buffer, copy: Buffer, words: list[str], place: Callable[[Point], Point], beyond: Const | None
) -> Node:
    """The loops that fill the copy: all of it, with `beyond` outside of the tensor, where that is given."""
    names = [f"{copy.name}.{word}" for word in words]
    point, shape = tuple(map(var, names)), copy.shape if beyond else buffer.shape
    stmt = Stmt(copy.name, Access(copy.name, place(point)), Load(buffer.name, point, buffer.dtype, beyond))
    return in_loops([Loop(name, extent, ()) for name, extent in zip(names, shape, strict=True)], stmt)
