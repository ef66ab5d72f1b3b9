"""split_best(at, 64) -> lead, top, tile, near, value"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.nodes import Tree
from tilegen.ir.parts.derived import BestOfTiles
from tilegen.ir.reductions.split_best import ranking_of, with_tiles
from tilegen.ir.walk import loop_names
from tilegen.ir.written import tree_of
from tilegen.primitives import BufferName, NewName, primitive
from tilegen.primitives.equations.terms import need_reduction
from tilegen.primitives.rewriting.tree import need_fresh


@primitive("arithmetic")
class SplitBest:
    """Look for the k best elements of a row in the k tiles whose own best elements come first.

    kernel:
        def behind(x, j, last, place) = x if x < last or x == last and j > place else -inf
        kernel largest(X: f32[M, N], N: int = 512, K: int = 2) -> best: f32[M, K], at: i32[M, K]:
            at[i, r] = argmax[j](behind(X[i, j], j, (best[i, r - 1] else inf), (at[i, r - 1] else -1)))
            best[i, r] = behind((X[i, at[i, r]] else -inf), at[i, r], (best[i, r - 1] else inf), (at[i, r - 1] else -1))
    before:
        for r < 2
          for at.i < M
            at[at.i, r] = 0
            at.best[at.i, r] = -inf
    steps:
        split_best(at, 64) -> lead, top, tile, near, value
    after:
        for lead.i < M
          for lead.jo < 8
            lead[lead.i, lead.jo] = -inf
            for lead.ji < 64
              lead[lead.i, lead.jo] max= X[lead.i, lead.jo*64 + lead.ji]

    `lead` has the best of each tile, and `tile` the numbers of those that come first, whose own best are in `top`.
    `near` has the elements of these tiles, and `value` and the result are found among them alone: each row is read
    once, and a few of its tiles again. The step is the first for the kernel; the tiles divide a row.
    """

    ranking: BufferName
    size: int
    lead: NewName
    top: NewName
    tile: NewName
    near: NewName
    value: NewName

    def apply(self, tree: Tree) -> Tree:
        whole = need_reduction(tree, self.ranking)
        if self.size < 1:
            raise StepError(f"a tile has at least two elements, not {self.size}")
        if ranking_of(whole) is None:
            notes = ("as in topk: the argmax of what ranks below the one that the iteration before has found",)
            raise StepError(f"'{self.ranking}' does not rank the elements of a row of constant length", notes=notes)
        if tree.body != tree_of(tree.kernel).body:
            raise StepError("loops have been changed already", notes=("split_best is the first step of a schedule",))
        names = (self.lead, self.top, self.tile, self.near, self.value)
        need_fresh(tree, names, gone=loop_names(tree))
        kernel = with_tiles(tree.kernel, BestOfTiles(self.ranking, self.size, names))
        made = tree_of(kernel)
        return replace(tree, kernel=kernel, body=made.body, buffers=made.buffers)
