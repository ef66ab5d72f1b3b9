"""at_most(j, 1024)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Condition, Loop, Tree
from tilegen.ir.parts.derived import Limited
from tilegen.ir.reductions.limited import limit_sizes
from tilegen.primitives import LoopName, primitive
from tilegen.primitives.rewriting.tree import add_guard, change_loops, need_loop, need_serial


@primitive("loops")
class AtMost:
    """Give a loop that a size limits a constant extent, for the sizes at which it has no more iterations.

    kernel:
        kernel square(X: f32[M, N]) -> Y: f32[M, N]:
            Y[i, j] = X[i, j] * X[i, j]
    before:
        for i < M
          for j < N
            Y[i, j] = X[i, j] * X[i, j]
    steps:
        at_most(j, 1024)
    after:
        for i < M
          for j < 1024
            Y[i, j] = X[i, j] * X[i, j]  if j < N

    So a row of any length up to that can stay in registers or shared memory. The program is for these sizes alone;
    calls with others are refused, and a family chooses it where it serves.
    """

    loop: LoopName
    most: int

    def apply(self, tree: Tree) -> Tree:
        loop = need_loop(tree, self.loop)
        need_serial(loop, "at_most")
        if loop.extent.is_const:
            raise StepError(f"loop '{loop.name}' has {loop.extent} iterations at all sizes")
        if self.most < 1:
            raise StepError(f"a loop has at least one iteration, not {self.most}")

        def change(old: Loop) -> Loop:
            body = add_guard(old.body, Condition(old.extent - 1 - var(old.name)))
            return replace(old, extent=const(self.most), body=body)

        changed = change_loops(tree, self.loop, change)
        return replace(changed, kernel=limit_sizes(tree.kernel, Limited(loop.extent, self.most)))
