"""pipeline(ko, 3), pipeline(ki, 2, across=ko)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.nodes import Loop, Node, Tree
from tilegen.ir.walk import reads, stmts, writes
from tilegen.primitives import LoopName, primitive
from tilegen.primitives.rewriting.tree import change_loops, need_loop, need_serial


@primitive("pipelining")
class Pipeline:
    """Copy before use: `stages` - 1 iterations before, while earlier ones compute.

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

    The meaning of the loop does not change. When it is lowered, every buffer that lives in it is there
    `stages` times. Copies from global to shared memory are asynchronous where they can be (cp.async, from
    sm_80 on), and the waits follow from the distance between a copy and its use; copies to registers come
    early enough to hide their latency.

    Copies of what the loop does not write go to its start, also those that stand after other statements.

    `across` is for registers: pipeline(ki, 2, across=ko) does not begin anew in each iteration of ko. The
    last iteration of ki copies for the first one of the next ko.
    """

    loop: LoopName
    stages: int
    across: LoopName | None = None

    def apply(self, tree: Tree) -> Tree:
        loop = need_loop(tree, self.loop)
        need_serial(loop, "pipeline")
        if self.stages < 2:
            raise StepError(f"a pipeline has at least 2 stages, not {self.stages}")
        if not any(b.scope == self.loop for b in tree.buffers):
            way = f"cache_shared(..., at={self.loop}) makes a copy that can start early"
            raise StepError(f"nothing is copied in each iteration of '{self.loop}'", notes=(way,))
        if self.across is not None:
            need_loop(tree, self.across)
        across = self.across or ""
        return change_loops(
            tree,
            self.loop,
            lambda old: replace(old, body=_copies_first(tree, old), stages=self.stages, across=across),
        )


def _copies_first(tree: Tree, loop: Loop) -> tuple[Node, ...]:
    """The body of `loop` with the copies for one of its iterations in front, where they read nothing that it writes."""
    written = {name for stmt in stmts(loop.body) for name, _ in writes(stmt)}

    def is_ahead(node: Node) -> bool:
        return all(
            stmt.is_copy
            and tree.buffer(stmt.target.buffer).scope == loop.name
            and written.isdisjoint(name for name, _ in reads(stmt))
            for stmt in stmts(node)
        )

    return tuple(sorted(loop.body, key=lambda node: not is_ahead(node)))
