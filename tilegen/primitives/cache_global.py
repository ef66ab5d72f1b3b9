"""cache_global(B, layout=[j, k])"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from tilegen.errors import StepError
from tilegen.ir.affine import var
from tilegen.ir.nodes import Access, Buffer, Load, Loop, Node, Stmt, Tree
from tilegen.primitives import BufferName, primitive
from tilegen.primitives._layout import dimension_words, joined, joined_dims
from tilegen.primitives._region import Point, redirected, reparented
from tilegen.primitives._tree import need_buffer


@primitive
class CacheGlobal:
    """Copy an input to another storage order in global memory first, by a launch of its own.

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

    The loops of the copy are ordinary loops, to be tiled and bound like any others. Dimensions in brackets of
    their own become one: layout=[[c, r, s], f] stores a matrix, with the rows c*9 + r*3 + s for 3 x 3 filters.
    """

    buffer: BufferName
    layout: tuple[str | tuple[str, ...], ...]

    def apply(self, tree: Tree) -> Tree:
        buffer = need_buffer(tree, self.buffer)
        if buffer.role != "input":
            raise StepError(f"'{buffer.name}' is no input, and cache_global copies inputs")
        name = f"{buffer.name}.global"
        if any(b.name == name for b in tree.buffers):
            raise StepError(f"there is a buffer '{name}' already")
        words = dimension_words(tree, buffer)
        groups = joined_dims(buffer, words, self.layout)
        copy = _copy(buffer, name, groups)
        made = [b.name for b in tree.buffers if b.copy_of == buffer.name]
        if copy.joined and made:
            way = f"put cache_global before the step that made '{made[0]}'"
            raise StepError(f"the dimensions of '{buffer.name}' cannot be joined once it has copies", notes=(way,))

        def place(index: Point) -> Point:
            return _place(index, buffer, groups) if copy.joined else index

        body = redirected(tree.body, buffer.name, name, place)
        after = replace(tree, buffers=(*tree.buffers, copy), body=(_nest(buffer, name, words, place), *body))
        return reparented(after, buffer.name, name)


def _copy(buffer: Buffer, name: str, groups: list[tuple[int, ...]]) -> Buffer:
    if all(len(group) == 1 for group in groups):
        order = tuple(dim for group in groups for dim in group)
        return Buffer(name, buffer.dtype, buffer.shape, "global", order, copy_of=buffer.name)
    extents = [tuple(buffer.shape[d] for d in group) for group in groups]
    shape = tuple(first * prod(e.const for e in rest) for first, *rest in extents)
    order = tuple(range(len(shape)))
    return Buffer(name, buffer.dtype, shape, "global", order, copy_of=buffer.name, joined=tuple(groups))


def _place(index: Point, buffer: Buffer, groups: list[tuple[int, ...]]) -> Point:
    """The point `index` of the buffer in dimensions that are joined."""
    return tuple(joined(tuple(index[d] for d in g), tuple(buffer.shape[d] for d in g)) for g in groups)


def _nest(buffer: Buffer, name: str, words: list[str], place: Callable[[Point], Point]) -> Node:
    loops = [f"{name}.{word}" for word in words]
    point = tuple(var(loop) for loop in loops)
    node: Node = Stmt(name, Access(name, place(point)), Load(buffer.name, point, buffer.dtype))
    for loop, extent in reversed(list(zip(loops, buffer.shape, strict=True))):
        node = Loop(loop, extent, (node,))
    return node
