"""Is one tree another one with a loop cut in two, or two made one? Then both run the same statements in one order."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Condition, Loop, Node, Stmt, Tree
from tilegen.ir.ranges import simplify
from tilegen.ir.walk import replace, rewrite_indices, substitute
from tilegen.poly.changed import Pairs, header


class _Cut(NamedTuple):
    """Where `loop` was, `inner` of `size` iterations is right inside `outer`."""

    loop: str
    outer: str
    inner: str
    size: int


def recut(old: Tree, new: Tree, pairs: Pairs) -> bool:
    """True if `new` is `old` with one loop cut in two, wherever that loop is.

    for i < E is for o < ceil(E/S), for t < S, with o*S + t for i and without what is beyond E: each i comes once, in
    the same order, and nothing comes between. So both trees run the same instances in the same order, on the same
    elements, and one iteration of i, in which a buffer may live, is one of t. The kinds of loops are not compared,
    for what runs at once is no part of this.

    Args:
        pairs: where the two differ.
    """
    cut = _cut_of(*pairs[0]) if pairs else None
    if cut is None:
        return False
    buffers = tuple(replace(b, scope=cut.inner) if b.scope == cut.loop else b for b in old.buffers)
    return buffers == new.buffers and all(_is_cut(a, b, cut) for a, b in pairs)


def _cut_of(old: Node, new: Node) -> _Cut | None:
    """How the one loop was cut into the other and the only one in it, whatever they hold; None if it was not."""
    if not isinstance(old, Loop) or not isinstance(new, Loop) or len(new.body) != 1:
        return None
    inner = new.body[0]
    if not isinstance(inner, Loop) or not inner.extent.is_const or inner.extent.const < 1:
        return None
    if new.extent != old.extent.ceildiv(inner.extent.const):
        return None
    return _Cut(old.name, new.name, inner.name, inner.extent.const)


def _is_cut(old: Node, new: Node, cut: _Cut) -> bool:
    if not isinstance(old, Loop) or not isinstance(new, Loop) or _cut_of(old, new) != cut:
        return False
    index = var(cut.outer) * cut.size + var(cut.inner)
    partial = old.extent % cut.size != const(0)
    rest = (Condition(old.extent - 1 - index),) if partial else ()

    def moved(stmt: Stmt) -> Stmt:
        """The statement as it is inside the two loops."""
        there = substitute(stmt, {cut.loop: index})
        return replace(there, guard=(*there.guard, *(c for c in rest if c not in there.guard)))

    (inner,) = new.body
    return isinstance(inner, Loop) and _same(old.body, inner.body, moved)


def merged(old: Tree, new: Tree, pairs: Pairs) -> bool:
    """True if `new` is `old` with two loops made one, of which the inner was alone in the outer, of constant extent.

    This is a cut the other way around, one that comes out even. No buffer may live in the outer loop, for what an
    iteration of it holds is another thing then.

    Args:
        pairs: where the two differ.
    """
    cut = _cut_of(pairs[0][1], pairs[0][0]) if pairs else None
    if cut is None:
        return False
    buffers = tuple(replace(b, scope=cut.loop) if b.scope == cut.inner else b for b in old.buffers)
    return buffers == new.buffers and all(_is_merged(a, b, cut) for a, b in pairs)


def _is_merged(old: Node, new: Node, cut: _Cut) -> bool:
    if not isinstance(old, Loop) or not isinstance(new, Loop) or _cut_of(new, old) != cut:
        return False
    values, extents = {cut.loop: var(cut.outer) * cut.size + var(cut.inner)}, {cut.inner: cut.size}

    def moved(stmt: Stmt) -> Stmt:
        """The statement as it was inside the two loops, where what is left of `inner` by a division is plain."""
        return rewrite_indices(stmt, lambda index: simplify(index.substitute(values), extents))

    (inner,) = old.body
    even = new.extent == old.extent * cut.size
    return even and isinstance(inner, Loop) and _same(new.body, inner.body, moved)


def _same(old: tuple[Node, ...], new: tuple[Node, ...], moved: Callable[[Stmt], Stmt]) -> bool:
    """True if the nodes are the same but for the statements, and these are what `moved` makes of the old ones."""
    if len(old) != len(new):
        return False
    for a, b in zip(old, new, strict=True):
        if isinstance(a, Stmt):
            same = b == moved(a)
        else:
            same = isinstance(b, Loop) and header(a) == header(b) and _same(a.body, b.body, moved)
        if not same:
            return False
    return True
