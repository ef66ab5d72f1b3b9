"""specialize(ko), specialize(ko, overlap=1), specialize(ko, registers=240), specialize(ko, turns=w)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.hardware.budgets import FEWEST, MOST, UNIT
from tilegen.ir.nodes import Loop, Tree
from tilegen.primitives import LoopName, primitive
from tilegen.primitives.rewriting.tree import change_loops, need_loop


@primitive("pipelining")
class Specialize:
    """Let threads that do nothing else start the bulk copies of a pipelined loop (warp specialization).

    kernel:
        kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
            C[i, j] = sum[k](A[i, k] * B[k, j])
    before:
        for ko < (K + 7)/8  3 stages
    steps:
        tile(i, 32) -> bi, ti
        tile(k, 8) -> ko, ki
        bind(bi, block.x)
        bind(ti, thread.y)
        order(bi, j, ko, ti, ki)
        bind(j, block.y)
        cache_shared(A, at=ko)
        bulk(A.shared)
        pipeline(ko, 3)
        specialize(ko)
    after:
        for ko < (K + 7)/8  3 stages  specialized

    The meaning of the loop does not change. The block gets one more row of threads along its last axis, of which one,
    the producer, starts the copies of an iteration when all others have read what lay there before; these, the
    consumers, wait for what has arrived, use it, and say when they have. So nobody waits for the whole block. Where
    loops stand around it, so that a block computes several tiles, the producer goes on with the next one while the
    consumers are still storing the last. Where bulk copies cannot be made, the loop is pipelined without them.

    With `overlap=1`, asynchronous products (wgmma) of one iteration still run when the next one waits for its operands
    and begins its own: the slot that they read is emptied one iteration later. That pays where one warpgroup has the
    tensor cores for itself, or products are short; several warpgroups fill each other's pauses without it.

    With `registers=240`, a multiple of 8, consumers have up to 240 registers each, where a launch can give fewer to
    all: the producer gives up its own, for which its row of the block becomes a whole warpgroup, as those of the
    consumers have to be. Two warpgroups of consumers get 240, three 160 and four 112, and one needs none of the
    producer's. So large tiles of results are not spilled.

    With `turns=w`, two blocks along the block loop w become one (ping-pong): each is a warpgroup, with registers and
    other shared memory of its own, and they take turns at the slots, tile by tile: while one stores its results, the
    other one multiplies. One producer fills the slots for both. Where bulk copies cannot be made, they stay two blocks.
    """

    loop: LoopName
    overlap: int = 0
    registers: int = 0
    turns: LoopName | None = None

    def apply(self, tree: Tree) -> Tree:
        loop = need_loop(tree, self.loop)
        if loop.stages < 2:
            notes = (f"pipeline({loop.name}, 4) lets its copies start early",)
            raise StepError(f"'{loop.name}' is not pipelined, and no copy can start early", notes=notes)
        if self.overlap not in (0, 1):
            raise StepError(f"products of one iteration can run on, or of none, and not of {self.overlap}")
        if self.registers and (self.registers % UNIT or not FEWEST <= self.registers <= MOST):
            notes = (f"a multiple of {UNIT} from {FEWEST} to {MOST}",)
            raise StepError(f"no thread can be given {self.registers} registers", notes=notes)
        if self.turns is not None:
            need_loop(tree, self.turns)

        def specialized(old: Loop) -> Loop:
            new = replace(old, specialized=True, registers=self.registers, turns=self.turns or "")
            return replace(new, overlapped=self.overlap == 1)

        return change_loops(tree, self.loop, specialized)
