"""What every tree has to be, whatever made it: an assertion of tilegen's own, no question of legality."""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import LOOP_KINDS, Access, Load, Loop, Node, Stmt, Tree
from tilegen.ir.walk import loops, walk


def verify(tree: Tree) -> Tree:
    """`tree`, if it is well formed; AssertionError if a step has built something that is no program.

    Every name in an index or a guard is a loop around it or a size; no loop is inside itself; loops of one
    name agree in extent and kind; every buffer that is used exists, and is used with its rank; rows do not overlap,
    and a swizzle permutes each.
    """
    ranks = {b.name: len(b.shape) for b in tree.buffers}
    assert len(ranks) == len(tree.buffers), "two buffers share a name"
    told = _together(tree.body)
    sizes = frozenset(tree.kernel.sizes)
    assert told.names <= sizes, f"{sorted(told.names - sizes)} is used outside of its loop"
    for name, rank in told.uses:
        assert rank == ranks[name], f"{name} is used with another rank"
    headers = {name: (extent, kind) for name, extent, kind in told.loops}
    assert len(headers) == len(told.loops), "two loops of one name differ"
    for name, (extent, kind) in headers.items():
        assert kind in LOOP_KINDS, kind
        assert extent.names() <= sizes, f"{name} runs to {extent}"
    for buffer in tree.buffers:
        assert buffer.pad >= 0, f"the rows of {buffer.name} overlap"
        if buffer.swizzle:
            length = buffer.shape[buffer.order[-1]]
            assert length.is_const, f"{buffer.name} is swizzled in rows of {length}"
            assert buffer.swizzle.permutes(length.const), f"{buffer.swizzle} in rows of {length} of {buffer.name}"
        assert buffer.scope is None or buffer.scope in headers, f"{buffer.name} lives in {buffer.scope}, which is gone"
    return tree


class _Told(NamedTuple):
    """What is told of nodes.

    Attributes:
        names: the names in indices and guards that are not those of loops around them in here.
        uses: the buffers used, with the rank.
        loops: the loops, each with its extent and kind.
    """

    names: frozenset[str]
    uses: frozenset[tuple[str, int]]
    loops: frozenset[tuple[str, Affine, str]]


# By the identity of a node: the node, and what is told of it. Steps leave most nodes as they are.
_known: dict[int, tuple[Node, _Told]] = {}
_MOST_KNOWN = 20_000


def _told(node: Node) -> _Told:
    found = _known.get(id(node))
    if found is None:
        if len(_known) > _MOST_KNOWN:
            _known.clear()
        told = _told_of_statement(node) if isinstance(node, Stmt) else _told_of_loop(node)
        found = _known[id(node)] = (node, told)
    return found[1]


def _told_of_statement(stmt: Stmt) -> _Told:
    values = list(walk(stmt))
    names = frozenset().union(*[v.names() for v in values if type(v) is Affine])
    return _Told(
        names, frozenset((v.buffer, len(v.index)) for v in values if isinstance(v, Load | Access)), frozenset()
    )


def _told_of_loop(loop: Loop) -> _Told:
    told = _together(loop.body)
    assert loop.name not in map(attrgetter("name"), loops(loop.body)), f"a loop is inside itself: {loop.name}"
    return _Told(told.names - {loop.name}, told.uses, told.loops | {(loop.name, loop.extent, loop.kind)})


def _together(body: tuple[Node, ...]) -> _Told:
    if len(body) == 1:
        return _told(body[0])
    names, uses, loops = zip(*map(_told, body), strict=True) if body else ((), (), ())
    return _Told(frozenset().union(*names), frozenset().union(*uses), frozenset().union(*loops))
