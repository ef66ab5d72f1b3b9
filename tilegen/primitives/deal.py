"""deal(bi, bj), deal(bi, bj, group=8)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.nodes import Tree
from tilegen.primitives import LoopName, primitive
from tilegen.primitives.rewriting.tree import change_loops, need_loop, need_serial


@primitive("execution")
class Deal:
    """Deal the tiles that loops run over to as many blocks as the GPU runs at once (a persistent grid).

    kernel:
        kernel add(A: f32[M, N], B: f32[M, N]) -> C: f32[M, N]:
            C[i, j] = A[i, j] + B[i, j]
    before:
        for bi < (M + 15)/16
          for bj < (N + 15)/16
    steps:
        tile(i, 16) -> bi, ti
        tile(j, 16) -> bj, tj
        order(bi, bj, ti, tj)
        bind(ti, thread.y)
        bind(tj, thread.x)
        deal(bi, bj)
    after:
        for bi < (M + 15)/16  block.x  dealt in groups of 8
          for bj < (N + 15)/16  block.x  dealt in groups of 8

    The tiles stand along one line, and of P blocks, block b computes tiles b, b + P, b + 2P, ... How many blocks there
    are is a number of the launch, which the host takes from the GPU that it launches on; any number is right.

    The line goes down `group` tiles of the last loop but one, then down the next column of as many: blocks that run at
    once compute tiles that share rows and columns, and find these in the L2. The last group has the rows that are left.
    Loops before the last two, over matrices of a batch, are the slowest.

    Where a loop in the tiles is specialized, its producer fetches for the next tile while the consumers store the last
    one. Blocks of a cluster stay side by side: their loop is bound to an axis of its own, and a cluster takes a tile.
    """

    loops: tuple[LoopName, ...]
    group: int = 8

    def apply(self, tree: Tree) -> Tree:
        if len({*self.loops}) < len(self.loops):
            raise StepError("a loop is named twice")
        if not 1 <= self.group <= 1024:
            raise StepError(f"a group has 1 to 1024 rows of tiles, not {self.group}")
        for name in self.loops:
            need_serial(need_loop(tree, name), "deal")
            tree = change_loops(tree, name, lambda old: replace(old, kind="block.x", dealt=self.group))
        return tree
