"""bulk(A.shared)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.nodes import Load, Loop, Node, Stmt, Tree
from tilegen.ir.walk import stmts
from tilegen.primitives import BufferName, primitive
from tilegen.primitives._tree import need_shared


@primitive("memory")
class Bulk:
    """Fill or store a shared buffer by bulk copies of the tensor memory accelerator (TMA): one thread starts them.

    kernel:
        kernel transpose(X: f32[M, N]) -> Y: f32[N, M]:
            Y[j, i] = X[i, j]
    before:
        for bi < (M + 31)/32
          for bj < (N + 31)/32
            for X.shared.i < 32  cooperative
              for X.shared.j < 32  cooperative
                X.shared[X.shared.i, X.shared.j] = X[bi*32 + X.shared.i, bj*32 + X.shared.j]  if bi*32 + X.shared.i < M and bj*32 + X.shared.j < N
    steps:
        tile(i, 32) -> bi, ti
        tile(j, 32) -> bj, tj
        order(bi, bj, tj, ti)
        cache_shared(X, at=bj)
        bulk(X.shared)
    after:
        for bi < (M + 31)/32
          for bj < (N + 31)/32
            for X.shared.i < 32  bulk
              for X.shared.j < 32  bulk
                X.shared[X.shared.i, X.shared.j] = X[bi*32 + X.shared.i, bj*32 + X.shared.j]  if bi*32 + X.shared.i < M and bj*32 + X.shared.j < N

    The copying loops have to be a box of the tensor whose elements lie one behind another in the buffer, with no swizzle
    or one that the hardware has: 16-byte units, 8 of them in rows of 128 bytes (4 every 2 rows of 64, 2 every 4 of 32).
    Rows of the box are no longer than those; `cache_shared(..., panel=64)` cuts longer ones. What is beyond the tensor
    arrives as zeros. All threads wait for the bytes to arrive, at a barrier in shared memory (mbarrier). The text needs
    sm_90 or later; where the tensor's rows are no multiple of 16 bytes, all threads copy as before.

    A buffer that is written back goes to its tensor in the same boxes: one thread starts them when all have written it,
    and waits until they have been read, before it is overwritten or the block ends. What is beyond the tensor is not
    written. Nothing else in the launch may touch the tensor, for nobody knows when it is written.
    """  # noqa: E501

    buffer: BufferName

    def apply(self, tree: Tree) -> Tree:
        buffer = need_shared(tree, self.buffer, "bulk copies fill or store", "filled so")
        tensors = frozenset(b.name for b in tree.buffers if b.space == "global")
        body = tuple(_with_bulk_loops(node, buffer.name, tensors) for node in tree.body)
        if body == tree.body:
            notes = ("cache_shared makes the copies of a tensor that bulk is for",)
            raise StepError(f"no cooperative copy fills '{buffer.name}' or stores it", notes=notes)
        return replace(tree, body=body)


def _with_bulk_loops(node: Node, buffer: str, tensors: frozenset[str]) -> Node:
    """`node` with bulk loops in place of the cooperative and vector loops that fill `buffer`, or store it to one of the
    tensors, and do nothing else."""
    if isinstance(node, Stmt):
        return node
    if node.kind == "cooperative" and all(_copies(stmt, buffer, tensors) for stmt in stmts(node)):
        return _in_kind_bulk(node)
    body = tuple(_with_bulk_loops(child, buffer, tensors) for child in node.body)
    return node if body == node.body else replace(node, body=body)


def _copies(stmt: Stmt, buffer: str, tensors: frozenset[str]) -> bool:
    """True for a copy that fills the buffer, or stores it to a tensor."""
    stores = isinstance(stmt.value, Load) and stmt.value.buffer == buffer and stmt.target.buffer in tensors
    return stmt.is_copy and (stores or stmt.target.buffer == buffer)


def _in_kind_bulk(node: Node) -> Node:
    if not isinstance(node, Loop):
        return node
    kind = "bulk" if node.kind in ("cooperative", "vector") else node.kind
    return replace(node, kind=kind, body=tuple(map(_in_kind_bulk, node.body)))
