"""tile(i, 128) -> bi, ti"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, const, var
from tilegen.ir.facts.ranges import simplify
from tilegen.ir.nodes import Condition, Loop, Tree
from tilegen.ir.walk import constant_extents, rewrite_indices, substitute
from tilegen.primitives import LoopName, NewName, primitive
from tilegen.primitives.rewriting.tree import (
    add_guard,
    change_loops,
    need_constant,
    need_fresh,
    need_loop,
    need_serial,
    rescope,
)


@primitive("loops")
class Tile:
    """Cut a loop into tiles of `size` iterations; or, with `parts`, into that many tiles.

    kernel:
        kernel add(A: f32[N], B: f32[N]) -> C: f32[N]:
            C[i] = A[i] + B[i]
    before:
        for i < N
          C[i] = A[i] + B[i]
    steps:
        tile(i, 4) -> io, ii
    after:
        for io < (N + 3)/4
          for ii < 4
            C[io*4 + ii] = A[io*4 + ii] + B[io*4 + ii]  if io*4 + ii < N

    `parts` needs a loop of constant extent that it divides: tile(ti, parts=8) -> wi, ti makes an outer
    loop of 8, which is how strided coarsening is said. parts=1 puts any loop into one of a single iteration.
    """

    loop: LoopName
    size: int | None = None
    parts: int | None = None
    outer: NewName
    inner: NewName

    def apply(self, tree: Tree) -> Tree:
        loop = need_loop(tree, self.loop)
        need_serial(loop, "tile")
        need_fresh(tree, (self.outer, self.inner), gone=(self.loop,))
        if self.parts == 1 and not loop.extent.is_const:
            return self._wrap(tree)
        size = self._tile_size(loop)
        index = var(self.outer) * size + var(self.inner)
        whole = loop.extent % size == const(0)
        extents = constant_extents(tree.body) | {self.inner: size}
        if loop.extent.is_const:
            extents[self.outer] = _tile_count(loop.extent, size).const

        def cut(old: Loop) -> Loop:
            placed = substitute(old.body, {old.name: index})
            body = rewrite_indices(placed, lambda i: simplify(i, extents))
            if not whole:
                body = add_guard(body, Condition(old.extent - 1 - index))
            inner = Loop(self.inner, const(size), body)
            extent = _tile_count(old.extent, size)
            return replace(old, name=self.outer, extent=extent, body=(inner,), kind="serial", roles=())

        return rescope(change_loops(tree, self.loop, cut), (self.loop,), self.inner)

    def _wrap(self, tree: Tree) -> Tree:
        """The loop as it is, in one of a single iteration."""

        def wrap(old: Loop) -> Loop:
            inner = Loop(self.inner, old.extent, substitute(old.body, {old.name: var(self.inner)}))
            return replace(old, name=self.outer, extent=const(1), body=(inner,), kind="serial", roles=())

        return rescope(change_loops(tree, self.loop, wrap), (self.loop,), self.inner)

    def _tile_size(self, loop: Loop) -> int:
        if (self.size is None) == (self.parts is None):
            raise StepError("tile takes a size or parts, one of the two")
        if self.size is not None:
            if self.size < 1:
                raise StepError(f"a tile has at least one iteration, not {self.size}")
            return self.size
        extent = need_constant(loop, "parts")
        assert self.parts is not None
        if self.parts < 1 or extent % self.parts:
            raise StepError(f"{self.parts} parts do not divide the {extent} iterations of '{loop.name}'")
        return max(1, extent // self.parts)  # a loop without iterations has none of any size


def _tile_count(extent: Affine, size: int) -> Affine:
    return extent.ceildiv(size)
