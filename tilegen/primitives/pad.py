"""pad(A.shared, 4)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.nodes import Tree
from tilegen.primitives import BufferName, primitive
from tilegen.primitives.rewriting.tree import need_shared


@primitive("memory")
class Pad:
    """Lengthen the rows of a shared buffer by `by` unused elements, so that a column meets more banks.

    kernel:
        kernel transpose(X: f32[M, N]) -> Y: f32[N, M]:
            Y[j, i] = X[i, j]
    before:
        shared X.shared: f32[32, 32]  copy of X, in bj
    steps:
        tile(i, 32) -> bi, ti
        tile(j, 32) -> bj, tj
        order(bi, bj, ti, tj)
        cache_shared(X, at=bj)
        pad(X.shared, 1)
    after:
        shared X.shared: f32[32, 32] pad 1  copy of X, in bj
    """

    buffer: BufferName
    by: int

    def apply(self, tree: Tree) -> Tree:
        buffer = need_shared(tree, self.buffer, "pad takes", "padded")
        if self.by < 0:
            raise StepError(f"a pad of {self.by} elements is no pad")
        padded = replace(buffer, pad=self.by)
        return replace(tree, buffers=tuple(padded if b is buffer else b for b in tree.buffers))
