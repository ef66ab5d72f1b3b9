"""pipeline(ko, 3)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.nodes import Tree
from tilegen.primitives import LoopName, primitive
from tilegen.primitives._tree import change_loops, need_loop, need_serial


@primitive
class Pipeline:
    """Copy to shared memory ahead of use: `stages` - 1 iterations before, while earlier ones compute.

    kernel:
        kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
            C[i, j] = sum[k](A[i, k] * B[k, j])
    before:
        for ko < (K + 7)/8
    steps:
        tile(i, 16) -> bi, ti
        tile(k, 8) -> ko, ki
        order(bi, j, ko, ti, ki)
        cache_shared(A, at=ko)
        pipeline(ko, 3)
    after:
        for ko < (K + 7)/8  3 stages

    The meaning of the loop does not change. When it is lowered, every shared buffer that lives in it
    is there `stages` times; copies that can be asynchronous are (cp.async, from sm_80 on), and the waits
    follow from the distance between a copy and its use.
    """

    loop: LoopName
    stages: int

    def apply(self, tree: Tree) -> Tree:
        loop = need_loop(tree, self.loop)
        need_serial(loop, "pipeline")
        if self.stages < 2:
            raise StepError(f"a pipeline has at least 2 stages, not {self.stages}")
        if not any(b.space == "shared" and b.scope == self.loop for b in tree.buffers):
            way = f"cache_shared(..., at={self.loop}) makes a copy to run ahead"
            raise StepError(f"nothing is copied to shared memory in '{self.loop}'", notes=(way,))
        return change_loops(tree, self.loop, lambda old: replace(old, stages=self.stages))
