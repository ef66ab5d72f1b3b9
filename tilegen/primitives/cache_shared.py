"""cache_shared(A, at=ko, layout=[k, i], vector=4)"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import Access, Buffer, Condition, Load, Loop, Node, Stmt, Tree
from tilegen.ir.walk import constant_extents, in_loops, loops
from tilegen.primitives import BufferName, LoopName, NewName, primitive
from tilegen.primitives.rewriting.box import Box, bounds_conditions, box_of
from tilegen.primitives.rewriting.elements import element_copied
from tilegen.primitives.rewriting.layout import dimension_words, storage_order, words_with_panels
from tilegen.primitives.rewriting.names import name_of_copy
from tilegen.primitives.rewriting.panels import in_panels, place_in
from tilegen.primitives.rewriting.redirect import with_copies
from tilegen.primitives.rewriting.region import Point, Region, new_buffer, region_of
from tilegen.primitives.rewriting.terms_alone import stored_where_computed
from tilegen.primitives.rewriting.tree import need_buffer


@primitive("memory")
class CacheShared:
    """Keep the part of a buffer that one iteration of `at` uses in shared memory.

    kernel:
        kernel transpose(X: f32[M, N]) -> Y: f32[N, M]:
            Y[j, i] = X[i, j]
    before:
        for bi < (M + 31)/32
          for bj < (N + 31)/32
            for tj < 32
              for ti < 32
                Y[bj*32 + tj, bi*32 + ti] = X[bi*32 + ti, bj*32 + tj]  if bi*32 + ti < M and bj*32 + tj < N
    steps:
        tile(i, 32) -> bi, ti
        tile(j, 32) -> bj, tj
        order(bi, bj, tj, ti)
        cache_shared(X, at=bj)
    after:
        for bi < (M + 31)/32
          for bj < (N + 31)/32
            for X.shared.i < 32  cooperative
              for X.shared.j < 32  cooperative
                X.shared[X.shared.i, X.shared.j] = X[bi*32 + X.shared.i, bj*32 + X.shared.j]  if bi*32 + X.shared.i < M and bj*32 + X.shared.j < N
            for tj < 32
              for ti < 32
                Y[bj*32 + tj, bi*32 + ti] = X.shared[ti, tj]  if bi*32 + ti < M and bj*32 + tj < N

    All threads of the block share the copying: before the first use, and after the last where something is written,
    so that registers of C leave through shared memory where `cache_shared(C, ...)` follows `cache_register(C, ...)`.
    `layout` lists the dimensions from the slowest to the fastest in shared memory, by their index words or numbers, or
    only those that take the places of one another; `vector` elements are copied at once, in a row that is longer than
    what is used where that is no multiple, as of a window with a halo. Where the uses have every second element of a
    dimension other than the fastest, as those of a convolution with a stride of 2, only these are kept.
    With `panel=64`, rows are stored in panels, 64 elements of each row, or 32 or 16 where 64 do not divide it: the first
    dimension of the copy counts them.
    With `using`, only the uses whose index depends on one of these loops are meant. The copy is called
    `<buffer>.shared`, or as the name after `->` says: two copies of one tensor need two names.
    An intermediate that is used nowhere else moves to shared memory and is not copied at all.
    """  # noqa: E501

    buffer: BufferName
    at: LoopName
    layout: tuple[str, ...] | None = None
    vector: int = 1
    panel: int = 0
    using: tuple[LoopName, ...] = ()
    name: NewName | None = None

    def apply(self, tree: Tree) -> Tree:
        buffer = need_buffer(tree, self.buffer)
        if buffer.space != "global":
            raise StepError(f"'{buffer.name}' is in {buffer.space} memory already")
        region = region_of(tree, buffer, self.at, self.using)
        box = box_of(region, spaced=True)
        if region.loads and not region.stores:
            box = box.in_vectors(buffer.order[-1] if buffer.order else 0, self.vector)
        words = dimension_words(tree, buffer)
        name = name_of_copy(tree, buffer.name, "shared", self.name)
        copy = new_buffer(tree, region, name, "shared", box.extent)
        copy = replace(copy, order=storage_order(buffer, words, self.layout))
        if self.panel:
            copy = in_panels(copy, self.panel)
        place = place_in(copy, constant_extents(tree.body))
        load = (self._copy_nest(tree, region, box, copy, words, fill=True),) if region.loads else ()
        store = (self._copy_nest(tree, region, box, copy, words, fill=False),) if region.stores else ()

        def place_of(index: Point) -> Point:
            return place(box.relative(index))

        return with_copies(tree, region, copy, place_of, load, store)

    def _copy_nest(self, tree: Tree, region: Region, box: Box, copy: Buffer, words: list[str], *, fill: bool) -> Node:
        """The copying loops, in the order in which the elements lie in global memory."""
        element: list[Affine] = [const(0)] * len(words)
        heads: list[tuple[str, int, str]] = []
        for word, dim, extent, step in self._copy_loops(region.buffer, copy, words, box):
            if extent != 1:
                name = f"{copy.name}.{word}"
                element[dim] += var(name) * step
                heads += [(name, extent, "cooperative")]
        if self.vector != 1:
            name, extent, kind = heads.pop() if heads else (copy.name, 1, "cooperative")
            if self.vector < 1 or extent % self.vector:
                raise StepError(
                    f"vectors of {self.vector} do not divide the {extent} elements of a row of '{copy.name}'"
                )
            lane = f"{copy.name}.{'lane' if 'v' in words else 'v'}"
            heads += [(name, extent // self.vector, kind), (lane, self.vector, "vector")]
            element = [e.substitute({name: var(name) * self.vector + var(lane)}) for e in element]
        source = tuple(b + p * s for b, p, s in zip(box.base, element, box.step, strict=True))
        extents = {name: extent for name, extent, _ in heads}
        place = place_in(copy, extents)(tuple(element))
        around = {loop.name: loop.extent for loop in loops(tree.body)}
        guard = () if fill and region.fallback else bounds_conditions(region.buffer, source, extents, around)
        stmt = self._copy_stmt(region, copy, place, source, guard, fill)
        around_stmt = [Loop(name, const(extent), (), kind) for name, extent, kind in heads]
        stmt = stmt if fill else stored_where_computed(tree, region, stmt, source)
        return in_loops(around_stmt, replace(stmt, element=element_copied(tree, region, source)))

    def _copy_loops(
        self, buffer: Buffer, copy: Buffer, words: list[str], box: Box
    ) -> Iterator[tuple[str, int, int, int]]:
        """(word, dimension, extent, elements in a step) of each copying loop: panels, then as `buffer` is stored."""
        if copy.panels:
            fastest = copy.order[-1]
            yield words_with_panels(words)[0], fastest - 1, copy.shape[0].const, copy.shape[fastest].const
        for dim in buffer.order:
            extent = copy.shape[dim + 1].const if copy.panels else box.extent[dim]
            yield words[dim], dim, extent, 1

    def _copy_stmt(
        self, region: Region, copy: Buffer, place: Point, source: Point, guard: tuple[Condition, ...], fill: bool
    ) -> Stmt:
        name = region.buffer.name
        if not fill:
            return Stmt(copy.name, Access(name, source), Load(copy.name, place, copy.dtype), guard=guard)
        value = Load(name, source, copy.dtype, region.fallback)
        return Stmt(copy.name, Access(copy.name, place), value, guard=guard)
