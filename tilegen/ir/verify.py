"""What every tree has to be, whatever made it: an assertion of tilegen's own, no question of legality."""

from __future__ import annotations

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import LOOP_KINDS, Access, Load, Node, Stmt, Tree
from tilegen.ir.walk import walk


def verify(tree: Tree) -> Tree:
    """`tree`, if it is well formed; AssertionError if a step has built something that is no program.

    Every name in an index or a guard is a loop around it or a size; no loop is inside itself; loops of one
    name agree in extent and kind; every buffer that is used exists, and is used with its rank; rows do not overlap,
    and a swizzle permutes each.
    """
    ranks = {b.name: len(b.shape) for b in tree.buffers}
    assert len(ranks) == len(tree.buffers), "two buffers share a name"
    sizes = frozenset(tree.kernel.sizes)
    headers: dict[str, tuple[Affine, str]] = {}

    def verify_body(body: tuple[Node, ...], around: frozenset[str]) -> None:
        for node in body:
            if isinstance(node, Stmt):
                names, uses = _told(node)
                assert names - sizes <= around, f"{node.name} uses {sorted(names - sizes - around)} outside of its loop"
                for buffer, rank in uses:
                    assert rank == ranks[buffer], f"{node.name} uses {buffer} with another rank"
                continue
            assert node.name not in around, f"a loop is inside itself: {node.name}"
            assert node.kind in LOOP_KINDS, node.kind
            assert node.extent.names() <= sizes, f"{node.name} runs to {node.extent}"
            known = headers.setdefault(node.name, (node.extent, node.kind))
            assert known == (node.extent, node.kind), f"two loops {node.name} differ"
            verify_body(node.body, around | {node.name})

    verify_body(tree.body, frozenset())
    for buffer in tree.buffers:
        assert buffer.pad >= 0, f"the rows of {buffer.name} overlap"
        if buffer.swizzle:
            length = buffer.shape[buffer.order[-1]]
            assert length.is_const, f"{buffer.name} is swizzled in rows of {length}"
            assert buffer.swizzle.permutes(length.const), f"{buffer.swizzle} in rows of {length} of {buffer.name}"
        assert buffer.scope is None or buffer.scope in headers, f"{buffer.name} lives in {buffer.scope}, which is gone"
    return tree


# By the identity of a statement: the statement, and what is told of it. Steps leave most statements as they are.
_known: dict[int, tuple[Stmt, frozenset[str], frozenset[tuple[str, int]]]] = {}
_MOST_KNOWN = 20_000


def _told(stmt: Stmt) -> tuple[frozenset[str], frozenset[tuple[str, int]]]:
    """The names in its indices and guards, and the buffers that it uses, with the rank."""
    found = _known.get(id(stmt))
    if found is None:
        if len(_known) > _MOST_KNOWN:
            _known.clear()
        values = list(walk(stmt))
        names = frozenset(n for v in values if isinstance(v, Affine) for n in v.names())
        uses = frozenset((v.buffer, len(v.index)) for v in values if isinstance(v, Load | Access))
        found = _known[id(stmt)] = (stmt, names, uses)
    return found[1:]
