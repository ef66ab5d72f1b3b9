"""Is one tree another one with a loop cut in two? Then both run the same statements in the same order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import Condition, Loop, Node, Stmt, Tree
from tilegen.ir.walk import replace, substitute
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
    (inner,) = new.body
    return isinstance(inner, Loop) and _same(old.body, inner.body, {cut.loop: index}, rest)


def _same(
    old: tuple[Node, ...], new: tuple[Node, ...], values: Mapping[str, Affine], rest: tuple[Condition, ...]
) -> bool:
    """True if the nodes are the same, at these values of names, but for `rest`, which guards a partial tile."""
    if len(old) != len(new):
        return False
    for a, b in zip(old, new, strict=True):
        if isinstance(a, Stmt):
            same = b == _moved(a, values, rest)
        else:
            same = isinstance(b, Loop) and header(a) == header(b) and _same(a.body, b.body, values, rest)
        if not same:
            return False
    return True


def _moved(stmt: Stmt, values: Mapping[str, Affine], rest: tuple[Condition, ...]) -> Stmt:
    """The statement as it is inside the two loops."""
    moved = substitute(stmt, values)
    return replace(moved, guard=(*moved.guard, *(c for c in rest if c not in moved.guard)))
