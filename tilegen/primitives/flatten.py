"""flatten(n, y, x) -> p"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.nodes import Tree
from tilegen.ir.reductions.flattened import flatten
from tilegen.ir.written import tree_of
from tilegen.primitives import LoopName, NewName, primitive
from tilegen.primitives.rewriting.tree import need_fresh, need_loop


@primitive("loops")
class Flatten:
    """See dimensions that lie side by side in storage as one, and the loops along them as one loop.

    kernel:
        kernel dense(X: f32[B, T, K], W: f32[N, K]) -> Y: f32[B, T, N]:
            Y[b, t, n] = sum[k](X[b, t, k] * W[n, k])
    before:
        for b < B
          for t < T
            for n < N
              Y[b, t, n] = 0
              for k < K
                Y[b, t, n] += X[b, t, k] * W[n, k]
    steps:
        flatten(b, t) -> m
    after:
        for m < B*T
          for n < N
            Y[m, n] = 0
            for k < K
              Y[m, n] += X[m, k] * W[n, k]

    So tiles run over the borders of sequences or images, and all of them but the last are whole: this is a matrix
    product now, which schedules of matrix products serve (`extends`). All equations that go along these dimensions do
    so with all of the loops, and for nothing else; the loops are those of one equation, and those of others are called
    Y.m. It is the first step. `collapse` makes one of two loops later on, where the inner one's extent is a number.
    """

    loops: tuple[LoopName, ...]
    name: NewName

    def apply(self, tree: Tree) -> Tree:
        if tree != replace(tree_of(tree.kernel), reassociated=tree.reassociated):
            raise StepError("flatten sees tensors anew, and comes before other steps", notes=("put it first",))
        for name in self.loops:
            need_loop(tree, name)
        need_fresh(tree, (self.name,))
        return replace(tree_of(flatten(tree.kernel, self.loops, self.name)), reassociated=tree.reassociated)
