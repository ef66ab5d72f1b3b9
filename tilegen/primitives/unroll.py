"""unroll(ki)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.nodes import Tree
from tilegen.primitives import LoopName, primitive
from tilegen.primitives.rewriting.tree import change_loops, need_constant, need_loop, need_serial


@primitive("execution")
class Unroll:
    """Write out every iteration of a loop of constant extent.

    kernel:
        kernel blur(X: f32[N + 2]) -> Y: f32[N]:
            Y[i] = sum[r < 3](X[i + r])
    before:
        for i < N
          Y[i] = 0
          for r < 3
            Y[i] += X[i + r]
    steps:
        unroll(r)
    after:
        for i < N
          Y[i] = 0
          for r < 3  unrolled
            Y[i] += X[i + r]

    The loop stays a loop in the tree, and in the text it carries `#pragma unroll`.
    """

    loop: LoopName

    def apply(self, tree: Tree) -> Tree:
        loop = need_loop(tree, self.loop)
        need_serial(loop, "unroll")
        need_constant(loop, "unroll")
        return change_loops(tree, self.loop, lambda old: replace(old, kind="unrolled"))
