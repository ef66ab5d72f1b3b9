"""multicast(B.shared, ci)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.nodes import BLOCK_KINDS, Node, Stmt, Tree
from tilegen.ir.walk import stmts, writes
from tilegen.primitives import BufferName, LoopName, primitive
from tilegen.primitives.rewriting.tree import need_buffer, need_loop


@primitive("pipelining")
class Multicast:
    """Let the blocks of a cluster share the bulk copies that are the same for all of them.

    kernel:
        kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
            C[i, j] = sum[k](A[i, k] * B[k, j])
    before:
        for B.shared.k < 8  bulk
    steps:
        tile(i, 16) -> bi, ti
        tile(bi, 2) -> bi, ci
        tile(j, 32) -> bj, tj
        tile(k, 8) -> ko, ki
        order(bi, ci, bj, ko, ti, tj, ki)
        bind(bi, block.y)
        bind(ci, block.y)
        bind(bj, block.x)
        bind(ti, thread.y)
        bind(tj, thread.x)
        cache_shared(B, at=ko)
        bulk(B.shared)
        pipeline(ko, 3)
        specialize(ko)
        multicast(B.shared, ci)
    after:
        for B.shared.k < 8  bulk  multicast to ci

    Blocks that are the iterations of `ci`, at most 8 of them, run at once and reach each other's shared memory: they
    are a cluster. Each copies its share of the buffer from global memory, once, to all of them, when all of them have
    read what lay there before. So what they all read passes the L2 once for all. The loop is the last one of its axis
    of the grid, beside others where its dimension has more blocks. The text needs sm_90 or later; where bulk copies
    cannot be made, each block copies for itself.
    """

    buffer: BufferName
    loop: LoopName

    def apply(self, tree: Tree) -> Tree:
        buffer, blocks = need_buffer(tree, self.buffer), need_loop(tree, self.loop)
        if blocks.kind not in BLOCK_KINDS:
            notes = (f"bind({blocks.name}, block.y) makes it one, before this step",)
            raise StepError(f"'{blocks.name}' is no loop of blocks, and a cluster consists of these", notes=notes)
        body = tuple(_share_copies(node, buffer.name, blocks.name, False) for node in tree.body)
        if body == tree.body:
            notes = (f"bulk({buffer.name}) and specialize(...) let a producer copy it, before this step",)
            raise StepError(f"no producer fills '{buffer.name}' by bulk copies", notes=notes)
        return replace(tree, body=body)


def _share_copies(node: Node, buffer: str, blocks: str, produced: bool) -> Node:
    """`node` with the bulk loops that fill `buffer` shared by the blocks; `produced` says that a producer runs it."""
    if isinstance(node, Stmt):
        return node
    if node.kind == "bulk":
        fills = all(name == buffer for stmt in stmts(node) for name, _ in writes(stmt))
        return replace(node, multicast=blocks) if fills and produced else node
    produced = produced or node.specialized
    return replace(node, body=tuple(_share_copies(child, buffer, blocks, produced) for child in node.body))
