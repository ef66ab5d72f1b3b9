"""What every tree has to be, whatever made it: an assertion of tilegen's own, no question of legality."""

from __future__ import annotations

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import LOOP_KINDS, Access, Load, Tree
from tilegen.ir.walk import leaves, walk


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
    for path, stmt in leaves(tree.body):
        around = [loop.name for loop in path]
        assert len(set(around)) == len(around), f"a loop is inside itself: {around}"
        for loop in path:
            assert loop.kind in LOOP_KINDS, loop.kind
            assert loop.extent.names() <= sizes, f"{loop.name} runs to {loop.extent}"
            known = headers.setdefault(loop.name, (loop.extent, loop.kind))
            assert known == (loop.extent, loop.kind), f"two loops {loop.name} differ"
        for value in walk(stmt):
            if isinstance(value, Affine):
                loose = value.names() - sizes - set(around)
                assert not loose, f"{stmt.name} uses {sorted(loose)} outside of its loop"
            elif isinstance(value, Load | Access):
                assert len(value.index) == ranks[value.buffer], f"{stmt.name} uses {value.buffer} with another rank"
    for buffer in tree.buffers:
        assert buffer.pad >= 0, f"the rows of {buffer.name} overlap"
        if buffer.swizzle:
            length = buffer.shape[buffer.order[-1]]
            assert length.is_const, f"{buffer.name} is swizzled in rows of {length}"
            assert buffer.swizzle.permutes(length.const), f"{buffer.swizzle} in rows of {length} of {buffer.name}"
        assert buffer.scope is None or buffer.scope in headers, f"{buffer.name} lives in {buffer.scope}, which is gone"
    return tree
