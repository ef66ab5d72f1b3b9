"""cache_global(B, layout=[j, k])"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import var
from tilegen.ir.nodes import Access, Buffer, Load, Loop, Node, Stmt, Tree
from tilegen.primitives import BufferName, primitive
from tilegen.primitives._layout import dimension_words, storage_order
from tilegen.primitives._region import redirected, reparented
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

    The loops of the copy are ordinary loops, to be tiled and bound like any others.
    """

    buffer: BufferName
    layout: tuple[str, ...]

    def apply(self, tree: Tree) -> Tree:
        buffer = need_buffer(tree, self.buffer)
        if buffer.role != "input":
            raise StepError(f"'{buffer.name}' is no input, and cache_global copies inputs")
        name = f"{buffer.name}.global"
        if any(b.name == name for b in tree.buffers):
            raise StepError(f"there is a buffer '{name}' already")
        words = dimension_words(tree, buffer)
        order = storage_order(buffer, words, self.layout)
        copy = Buffer(name, buffer.dtype, buffer.shape, "global", order, copy_of=buffer.name)
        body = redirected(tree.body, buffer.name, name, lambda index: index)
        after = replace(tree, buffers=(*tree.buffers, copy), body=(_nest(buffer, name, words), *body))
        return reparented(after, buffer.name, name)


def _nest(buffer: Buffer, name: str, words: list[str]) -> Node:
    loops = [f"{name}.{word}" for word in words]
    place = tuple(var(loop) for loop in loops)
    node: Node = Stmt(name, Access(name, place), Load(buffer.name, place, buffer.dtype))
    for loop, extent in reversed(list(zip(loops, buffer.shape, strict=True))):
        node = Loop(loop, extent, (node,))
    return node
