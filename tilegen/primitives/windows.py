"""windows(X)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.nodes import Tree
from tilegen.ir.reductions.windowed import see_windows
from tilegen.ir.written import tree_of
from tilegen.primitives import BufferName, primitive


@primitive("loops")
class Windows:
    """See an input that is read through windows as a tensor with a dimension for each loop, which is never stored.

    kernel:
        kernel conv(X: f32[B, W, C], K: f32[F, 3, C]) -> Y: f32[B, (W - 1)/2 + 1, F]:
            Y[n, x, f] = sum[s, c]((X[n, x*2 + s - 1, c] else 0) * K[f, s, c])
    before:
        for n < B
          for x < (W + 1)/2
            for f < F
              Y[n, x, f] = 0
              for s < 3
                for c < C
                  Y[n, x, f] += (X[n, x*2 + s - 1, c] else 0.0) * K[f, s, c]
    steps:
        windows(X)
    after:
        for n < B
          for x < (W + 1)/2
            for f < F
              Y[n, x, f] = 0
              for s < 3
                for c < C
                  Y[n, x, f] += X.windows[n, x, s, c] * K[f, s, c]

    Then `flatten(n, x) -> p` sees all pixels as one dimension, so that tiles of them run over the borders of rows and
    images, and only the last one has less than all: a convolution is a matrix product. A bulk copy takes such a tile as
    a whole, for one place in the windows (TMA's im2col mode); threads that read one compute where in X it is. The
    dimensions of X.windows are the loops ahead of the windows, those that move them, those in them, and those behind.
    It comes before other steps.
    """

    buffer: BufferName

    def apply(self, tree: Tree) -> Tree:
        if tree != replace(tree_of(tree.kernel), reassociated=tree.reassociated):
            raise StepError("windows sees tensors anew, and comes before other steps", notes=("put it first",))
        return replace(tree_of(see_windows(tree.kernel, self.buffer)), reassociated=tree.reassociated)
