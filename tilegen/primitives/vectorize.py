"""vectorize(v)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.nodes import Tree
from tilegen.primitives import LoopName, primitive
from tilegen.primitives.rewriting.tree import change_loops, need_constant, need_loop, need_serial

WIDTHS = (2, 4, 8, 16)


@primitive("execution")
class Vectorize:
    """Load and store the iterations of a short loop as one vector; the arithmetic stays scalar.

    kernel:
        kernel add(A: f32[N], B: f32[N]) -> C: f32[N]:
            C[i] = A[i] + B[i]
    before:
        for t < (N + 3)/4
          for v < 4
            C[t*4 + v] = A[t*4 + v] + B[t*4 + v]  if t*4 + v < N
    steps:
        tile(i, 4) -> t, v
        vectorize(v)
    after:
        for t < (N + 3)/4
          for v < 4  vector
            C[t*4 + v] = A[t*4 + v] + B[t*4 + v]  if t*4 + v < N
    """

    loop: LoopName

    def apply(self, tree: Tree) -> Tree:
        loop = need_loop(tree, self.loop)
        need_serial(loop, "vectorize")
        if need_constant(loop, "vectorize") not in WIDTHS:
            widths = ", ".join(map(str, WIDTHS))
            raise StepError(f"a vector has {widths} elements, and loop '{loop.name}' has {loop.extent} iterations")
        return change_loops(tree, self.loop, lambda old: replace(old, kind="vector"))
