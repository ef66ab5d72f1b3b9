"""peel(ko)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.nodes import Tree
from tilegen.ir.walk import loops
from tilegen.primitives import LoopName, primitive
from tilegen.primitives.rewriting.tree import change_loops, need_loop, need_serial


@primitive("pipelining")
class Peel:
    """Write the last iteration of a pipelined loop by itself, after the loop.

    kernel:
        kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
            C[i, j] = sum[k](A[i, k] * B[k, j])
    before:
        for ko < (K + 7)/8  2 stages
    steps:
        tile(i, 16) -> bi, ti
        tile(k, 8) -> ko, ki
        order(bi, j, ko, ti, ki)
        cache_shared(A, at=ko)
        pipeline(ko, 2)
        peel(ko)
    after:
        for ko < (K + 7)/8  2 stages  peeled

    The meaning of the loop does not change. A pipelined loop needs no test for a next iteration then, and the compiler
    can leave the loop's results in other registers than those that the stores after it want.
    """

    loop: LoopName

    def apply(self, tree: Tree) -> Tree:
        loop = need_loop(tree, self.loop)
        need_serial(loop, "peel")
        if loop.stages == 1 and not any(each.across == loop.name for each in loops(tree.body)):
            message = (
                f"'{loop.name}' does nothing in advance for a next iteration, so that its last one is like the others"
            )
            raise StepError(message, notes=(f"pipeline({loop.name}, 2), before this step, starts its copies early",))
        return change_loops(tree, self.loop, lambda old: replace(old, peeled=True))
