"""Is one tree another one with a loop cut in two? Then both run the same statements in the same order."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import Condition, Loop, Node, Stmt, Tree
from tilegen.ir.walk import replace, substitute


@dataclass(frozen=True)
class _Cut:
    """Where `loop` was, `inner` of `size` iterations is right inside `outer`."""

    loop: str
    outer: str
    inner: str
    size: int

    @property
    def index(self) -> Affine:
        return var(self.outer) * self.size + var(self.inner)


def recut(old: Tree, new: Tree) -> bool:
    """True if `new` is `old` with one loop cut in two, wherever that loop is.

    for i < E is for o < ceil(E/S), for t < S, with o*S + t for i and without what is beyond E: each i comes once, in
    the same order, and nothing comes between. So both trees run the same instances in the same order, on the same
    elements, and one iteration of i, in which a buffer may live, is one of t. The kinds of loops are not compared,
    for what runs at once is no part of this.
    """
    cut = _first_cut(old.body, new.body)
    if cut is None or old.kernel is not new.kernel or old.reassociated != new.reassociated:
        return False
    buffers = tuple(replace(b, scope=cut.inner) if b.scope == cut.loop else b for b in old.buffers)
    return buffers == new.buffers and _same(old.body, new.body, cut)


def _first_cut(old: tuple[Node, ...], new: tuple[Node, ...]) -> _Cut | None:
    """What the first loop that is another one looks like."""
    for a, b in zip(old, new, strict=False):
        if a is b or not isinstance(a, Loop) or not isinstance(b, Loop):
            continue
        if a.name == b.name and a.extent == b.extent:
            found = _first_cut(a.body, b.body)
            if found is not None:
                return found
        elif len(b.body) == 1 and isinstance(inner := b.body[0], Loop) and inner.extent.is_const:
            return _Cut(a.name, b.name, inner.name, inner.extent.const)
    return None


def _same(old: tuple[Node, ...], new: tuple[Node, ...], cut: _Cut, rest: tuple[Condition, ...] | None = None) -> bool:
    """True if the nodes are the same but for the cut; `rest` is what guards a partial tile around them, if cut."""
    return len(old) == len(new) and all(_same_node(a, b, cut, rest) for a, b in zip(old, new, strict=True))


def _same_node(old: Node, new: Node, cut: _Cut, rest: tuple[Condition, ...] | None) -> bool:
    if isinstance(old, Stmt) or isinstance(new, Stmt):
        return old is new if rest is None else isinstance(old, Stmt) and _cut_stmt(old, cut, rest) == new
    if old.name != cut.loop:
        return old.name == new.name and old.extent == new.extent and _same(old.body, new.body, cut, rest)
    if rest is not None or not _is_cut(old, new, cut):
        return False
    partial = old.extent % cut.size != const(0)
    rest = (Condition(old.extent - 1 - cut.index),) if partial else ()
    inner = new.body[0]
    return isinstance(inner, Loop) and _same(old.body, inner.body, cut, rest)


def _is_cut(old: Loop, new: Loop, cut: _Cut) -> bool:
    """True if `new` is the two loops that `old` was cut into, whatever they hold."""
    if len(new.body) != 1 or not isinstance(inner := new.body[0], Loop):
        return False
    names = (new.name, inner.name) == (cut.outer, cut.inner)
    return names and inner.extent == const(cut.size) and new.extent == old.extent.ceildiv(cut.size)


def _cut_stmt(stmt: Stmt, cut: _Cut, rest: tuple[Condition, ...]) -> Stmt:
    """The statement as it is inside the two loops."""
    moved = substitute(stmt, {cut.loop: cut.index})
    return replace(moved, guard=(*moved.guard, *(c for c in rest if c not in moved.guard)))
