"""cache_register(C, at=bj)"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tilegen.errors import StepError
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import THREAD_KINDS, Buffer, Condition, Loop, Tree
from tilegen.ir.walk import stmts
from tilegen.primitives import BufferName, LoopName, NewName, primitive
from tilegen.primitives.rewriting.box import bounds_conditions, box_of
from tilegen.primitives.rewriting.layout import dimension_words
from tilegen.primitives.rewriting.names import name_of_copy
from tilegen.primitives.rewriting.redirect import with_copies
from tilegen.primitives.rewriting.region import Region, new_buffer, region_of
from tilegen.primitives.rewriting.registers import copy_nest, load_and_store
from tilegen.primitives.rewriting.tree import need_buffer


@primitive("memory")
class CacheRegister:
    """Keep what a thread uses of a buffer during one iteration of `at` in its registers.

    kernel:
        kernel gemv(A: f32[M, K], x: f32[K]) -> y: f32[M]:
            y[i] = sum[k](A[i, k] * x[k])
    before:
        for b < (M + 255)/256  block.x
          for t < 256  thread.x
            y[b*256 + t] = 0  if b*256 + t < M
            for k < K
              y[b*256 + t] += A[b*256 + t, k] * x[k]  if b*256 + t < M
    steps:
        tile(i, 256) -> b, t
        bind(b, block.x)
        bind(t, thread.x)
        cache_register(y, at=t)
    after:
        for b < (M + 255)/256  block.x
          for t < 256  thread.x
            y.reg[] = 0  if b*256 + t < M
            for k < K
              y.reg[] += A[b*256 + t, k] * x[k]  if b*256 + t < M
            y[b*256 + t] = y.reg[]  if b*256 + t < M

    The registers are indexed by the loops inside `at` that the uses depend on, thread loops included:
    each thread has its own. Uses at several places of the buffer (a stencil) share a small box instead, and so do
    iterations that meet in elements (the windows of a convolution), unless `repeated=1` gives each iteration registers
    of its own: the fragments of an instruction hold each window by itself.
    With `using`, only the uses whose index depends on one of these loops are meant; with `vector`, the
    innermost of the copying loops moves that many elements at once. The copy is called `<buffer>.reg`, or as the
    name after `->` says.
    """

    buffer: BufferName
    at: LoopName
    using: tuple[LoopName, ...] = ()
    vector: int = 1
    repeated: int = 0
    name: NewName | None = None

    def apply(self, tree: Tree) -> Tree:
        buffer = need_buffer(tree, self.buffer)
        if buffer.space == "register":
            raise StepError(f"'{buffer.name}' is in registers already")
        region = region_of(tree, buffer, self.at, self.using)
        if len({u.index for u in region.uses}) == 1 and (self.repeated or not _overlaps(region)):
            return self._by_loops(tree, region)
        return self._by_box(tree, region)

    def _by_loops(self, tree: Tree, region: Region) -> Tree:
        """Registers indexed by loop variables: every use is the same function of the same loops."""
        index = region.uses[0].index
        wanted = {name for i in index for name in i.names()}
        # What is used outside of a thread loop, too, is there once for each thread by itself.
        everywhere = [{loop.name for loop in use.path if loop.kind in THREAD_KINDS} for use in region.uses]
        wanted |= set.intersection(*everywhere)
        depends = list({loop.name: loop for u in region.uses for loop in u.path if loop.name in wanted}.values())
        for use in region.uses:
            missing = {loop.name for loop in depends} - {loop.name for loop in use.path}
            if missing:
                raise StepError(
                    f"a use of '{region.buffer.name}' is outside loop '{sorted(missing)[0]}', another is inside",
                    notes=(f"choose a loop inside '{region.at}' that holds both",),
                )
        for loop in depends:
            if not loop.extent.is_const:
                raise StepError(
                    f"registers need a constant number: loop '{loop.name}' runs to {loop.extent}",
                    notes=(f"tile '{loop.name}', or choose a loop inside it",),
                )
        place = tuple(var(loop.name) for loop in depends)
        name = name_of_copy(tree, region.buffer.name, "reg", self.name)
        copy = new_buffer(tree, region, name, "register", [loop.extent for loop in depends])
        filled = not region.stores and _is_filled_everywhere(tree, region.buffer)
        guard = () if filled else _guard(region, {loop.name for loop in depends})
        load, store = load_and_store(tree, region, copy, place, index, guard)
        headers = [replace(loop, body=()) for loop in depends]
        nests = [copy_nest(headers, stmt, copy, self.vector) for stmt in (load, store)]
        return with_copies(tree, region, copy, lambda _: place, *nests)

    def _by_box(self, tree: Tree, region: Region) -> Tree:
        """Registers for a box of the buffer: uses at several places, all by one thread."""
        box = box_of(region)
        name = name_of_copy(tree, region.buffer.name, "reg", self.name)
        copy = new_buffer(tree, region, name, "register", box.extent)
        names = [f"{copy.name}.{word}" for word in dimension_words(tree, region.buffer)]
        place = tuple(var(n) if e > 1 else const(0) for n, e in zip(names, box.extent, strict=True))
        source = tuple(b + p for b, p in zip(box.base, place, strict=True))
        extents = dict(zip(names, box.extent, strict=True))
        guard = () if region.fallback else bounds_conditions(region.buffer, source, extents)
        load, store = load_and_store(tree, region, copy, place, source, guard)
        headers = [Loop(n, const(e), (), "unrolled") for n, e in zip(names, box.extent, strict=True) if e > 1]
        nests = [copy_nest(headers, stmt, copy, self.vector) for stmt in (load, store)]
        return with_copies(tree, region, copy, box.relative, *nests)


def _overlaps(region: Region) -> bool:
    """True where one thread's iterations inside the loop meet in elements, so that a box of them is smaller."""
    names = {name for i in region.uses[0].index for name in i.names()}
    loops = [loop for loop in region.uses[0].path if loop.name in names]
    several = sum(len(i.names() & {loop.name for loop in loops}) > 1 for i in region.uses[0].index)
    bound = any(loop.kind in THREAD_KINDS for u in region.uses for loop in u.path)
    if not several or bound or not all(loop.extent.is_const for loop in loops):
        return False
    return prod(box_of(region).extent) < prod(loop.extent.const for loop in loops)


def _is_filled_everywhere(tree: Tree, buffer: Buffer) -> bool:
    """True of shared memory that is filled without a test: there is something everywhere in it."""
    fills = [s for s in stmts(tree.body) if s.target.buffer == buffer.name]
    return buffer.space == "shared" and all(s.is_copy and not s.guard for s in fills)


def _guard(region: Region, nest: set[str]) -> tuple[Condition, ...]:
    """When a register is used: what all uses agree on, of the conditions that the copy's loops decide."""
    shared: tuple[Condition, ...] | None = None
    for use in region.uses:
        inner = {loop.name for loop in use.path} - nest
        outside = tuple(c for c in use.stmt.guard if c.value.names().isdisjoint(inner))
        shared = outside if shared is None else tuple(c for c in shared if c in outside)
    return shared or ()
