"""bulk(A.shared)"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from operator import attrgetter

from tilegen.errors import StepError
from tilegen.ir.nodes import Load, Loop, Node, Stmt, Tree
from tilegen.ir.walk import loops, stmts
from tilegen.primitives import BufferName, primitive
from tilegen.primitives.rewriting.tree import need_shared

_name = attrgetter("name")


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

    The copying loops have to be a box of the tensor whose elements lie one after another in the buffer, with no swizzle
    or one that the hardware has: 16-byte units, 8 of them in rows of 128 bytes (4 every 2 rows of 64, 2 every 4 of 32).
    Rows of the box are no longer than those; `cache_shared(..., panel=64)` cuts longer ones. Rows that are loaded may be
    up to 8 apart in the tensor. What is beyond the tensor arrives as zeros. All threads wait for the bytes to arrive,
    at a barrier in shared memory (mbarrier). The text needs sm_90 or later; where the tensor's rows are no multiple of
    16 bytes, all threads copy as before.

    A buffer that is written back goes to its tensor in the same boxes: one thread starts them when all have written it,
    and waits until they have been read, before it is overwritten or the block ends. What is beyond the tensor is not
    written. Nothing else in the launch may touch the tensor, for nobody knows when it is written.
    """  # noqa: E501

    buffer: BufferName

    def apply(self, tree: Tree) -> Tree:
        buffer = need_shared(tree, self.buffer, "bulk copies fill or store", "filled so")
        tensors = frozenset(b.name for b in tree.buffers if b.space == "global")
        nests = [nest for node in tree.body for nest in _copying_nests(node, buffer.name, tensors)]
        others = Counter(map(_name, loops(tree.body))) - Counter(map(_name, loops(tuple(nests))))
        body = tuple(_with_bulk_loops(node, nests, others) for node in tree.body)
        if body == tree.body:
            notes = ("cache_shared makes the copies of a tensor that bulk is for",)
            raise StepError(f"no cooperative copy fills '{buffer.name}' or stores it", notes=notes)
        return replace(tree, body=body)


def _copying_nests(node: Node, buffer: str, tensors: frozenset[str]) -> list[Loop]:
    """The cooperative loops that fill `buffer`, or store it to one of the tensors, and do nothing else."""
    if isinstance(node, Stmt):
        return []
    if node.kind == "cooperative" and all(_copies(stmt, buffer, tensors) for stmt in stmts(node)):
        return [node]
    return [nest for child in node.body for nest in _copying_nests(child, buffer, tensors)]


def _copies(stmt: Stmt, buffer: str, tensors: frozenset[str]) -> bool:
    """True for a copy that fills the buffer, or stores it to a tensor."""
    stores = isinstance(stmt.value, Load) and stmt.value.buffer == buffer and stmt.target.buffer in tensors
    return stmt.is_copy and (stores or stmt.target.buffer == buffer)


def _with_bulk_loops(node: Node, nests: list[Loop], others: Collection[str]) -> Node:
    """`node` with bulk loops in place of the cooperative and vector loops of the nests, but for those of `others`: the
    names of loops that stand elsewhere, too."""
    if not isinstance(node, Loop):
        return node
    if node in nests:
        return _in_kind_bulk(node, others)
    body = tuple(_with_bulk_loops(child, nests, others) for child in node.body)
    return node if body == node.body else replace(node, body=body)


def _in_kind_bulk(node: Node, others: Collection[str]) -> Node:
    if not isinstance(node, Loop):
        return node
    own = node.kind in ("cooperative", "vector") and node.name not in others
    return replace(node, kind="bulk" if own else node.kind, body=tuple(_in_kind_bulk(n, others) for n in node.body))
