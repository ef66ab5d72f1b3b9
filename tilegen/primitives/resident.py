"""resident(bx, 2)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.nodes import BLOCK_KINDS, Tree
from tilegen.primitives import LoopName, primitive
from tilegen.primitives.rewriting.tree import change_loops, need_loop, nest_of


@primitive("execution")
class Resident:
    """Have at least `blocks` blocks of a launch on a multiprocessor at a time, as far as registers decide that.

    kernel:
        kernel add(A: f32[N], B: f32[N]) -> C: f32[N]:
            C[i] = A[i] + B[i]
    before:
        for b < (N + 255)/256  block.x
    steps:
        tile(i, 256) -> b, t
        bind(b, block.x)
        bind(t, thread.x)
        resident(b, 4)
    after:
        for b < (N + 255)/256  block.x  4 resident

    The compiler keeps each thread to the registers that this leaves it. While one block copies or waits, another
    one computes; a thread that has too few registers keeps values in memory instead.
    """

    loop: LoopName
    blocks: int

    def apply(self, tree: Tree) -> Tree:
        loop = need_loop(tree, nest_of(tree, self.loop)[-1])
        if loop.kind not in BLOCK_KINDS:
            way = f"bind({loop.name}, block.x) makes it one"
            raise StepError(f"'{loop.name}' is no loop over blocks", notes=(way,))
        if not 1 <= self.blocks <= 32:
            raise StepError(f"a multiprocessor holds 1 to 32 blocks, not {self.blocks}")
        return change_loops(tree, loop.name, lambda old: replace(old, resident=self.blocks))
