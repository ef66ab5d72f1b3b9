"""bind(bi, block.y), bind([b, i, j], block.x)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError, did_you_mean
from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS, Tree
from tilegen.primitives import LoopName, primitive
from tilegen.primitives.rewriting.tree import change_loops, need_constant, need_loop, need_serial, nest_of


@primitive("execution")
class Bind:
    """Run the iterations of a loop on the blocks of the grid or the threads of a block.

    kernel:
        kernel add(A: f32[N], B: f32[N]) -> C: f32[N]:
            C[i] = A[i] + B[i]
    before:
        for b < (N + 255)/256
          for t < 256
            C[b*256 + t] = A[b*256 + t] + B[b*256 + t]  if b*256 + t < N
    steps:
        tile(i, 256) -> b, t
        bind(t, thread.x)
    after:
        for b < (N + 255)/256
          for t < 256  thread.x
            C[b*256 + t] = A[b*256 + t] + B[b*256 + t]  if b*256 + t < N

    A loop of 2, 4, 8, 16 or 32 iterations around a reduction whose target does not depend on it can be bound to
    thread.x where the terms may be combined in any order: its iterations are lanes of a warp, which exchange
    their terms by shuffles. A target in registers is then there in each lane. Several loops are given as a list.
    """

    loops: LoopName | tuple[LoopName, ...]
    to: str

    def apply(self, tree: Tree) -> Tree:
        kinds = [*BLOCK_KINDS, *THREAD_KINDS]
        if self.to not in kinds:
            notes = (*did_you_mean(self.to, kinds), f"a loop is bound to one of {', '.join(kinds)}")
            raise StepError(f"'{self.to}' is nothing to bind a loop to", notes=notes)
        wanted = (self.loops,) if isinstance(self.loops, str) else self.loops
        for name in [name for each in wanted for name in nest_of(tree, each)]:
            loop = need_loop(tree, name)
            need_serial(loop, "bind")
            if self.to in THREAD_KINDS and need_constant(loop, f"bind to {self.to}") == 0:
                notes = (f"leave '{name}' unbound: a loop without iterations needs no threads",)
                raise StepError(f"loop '{name}' has no iterations, and a block has at least one thread", notes=notes)
            tree = change_loops(tree, name, lambda old: replace(old, kind=self.to))
        return tree
