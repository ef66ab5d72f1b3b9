"""Is one tree another one with some loops walked in another order, where no order matters?"""

from __future__ import annotations

from tilegen.ir.affine import Affine, var
from tilegen.ir.nodes import Loop, Node, Stmt, Tree
from tilegen.ir.walk import loads, substitute
from tilegen.poly.changed import Pairs


def turned(old: Tree, new: Tree, pairs: Pairs) -> bool:
    """True if `new` is `old` but for nests of one statement each, whose loops are in another order or go to and fro.

    In such a nest, loops with nothing in them but the next one, every iteration writes an element of its own, and
    reads nothing that another of them writes: of the tensor that it writes, nothing but this element. So these
    iterations may run in any order, and whatever ran before or behind all of them still does: every read
    finds the value that it found before, on the same instances and elements. Nor does the kernel want any of them in
    order: of two instances of one statement the later would read what the earlier wrote, as the next term of a sum
    does, and where values are right it would read it here, too. No buffer may live in a loop of the nest, for what an
    iteration of it holds is another thing then.

    Args:
        pairs: where the two differ.
    """
    homes = frozenset(b.scope for b in old.buffers if b.scope is not None)
    return old.buffers == new.buffers and all(_other_order(a, b, homes) for a, b in pairs)


def _other_order(old: Node, new: Node, homes: frozenset[str]) -> bool:
    """True if the two are one nest whose iterations run in another order, and may."""
    if not isinstance(old, Loop) or not isinstance(new, Loop):
        return False
    around, stmt = _nest(old)
    extents = _extents(around)
    if stmt is None or not homes.isdisjoint(extents):
        return False
    return _apart(stmt, extents) and (_permuted(extents, stmt, new) or _to_and_fro(old, extents, stmt, new))


def _nest(node: Node) -> tuple[list[Loop], Stmt | None]:
    """The loops down to the one statement in them, or None if there is more in one of them."""
    around: list[Loop] = []
    while isinstance(node, Loop):
        around += [node]
        if len(node.body) != 1:
            return around, None
        node = node.body[0]
    return around, node


def _permuted(extents: dict[str, Affine], stmt: Stmt, new: Loop) -> bool:
    around, inner = _nest(new)
    return inner == stmt and len(around) == len(extents) and _extents(around) == extents


def _extents(around: list[Loop]) -> dict[str, Affine]:
    return {loop.name: loop.extent for loop in around}


def _to_and_fro(old: Loop, extents: dict[str, Affine], stmt: Stmt, new: Loop) -> bool:
    """True if `new` runs two iterations of `old` in one, with the inner loops of the second in either direction.

    2 n and 2 n + 1 for n below half of an even extent are all iterations, each once, and so are e - 1 - i for i < e.
    """
    if new.name != old.name or new.extent * 2 != old.extent or len(new.body) != 2:
        return False
    inside = {name: extent for name, extent in extents.items() if name != old.name}
    for turn, node in enumerate(new.body):
        around, inner = _nest(node)
        if inner is None or len(around) != len(inside) or _extents(around) != inside:
            return False
        row = {old.name: var(old.name) * 2 + turn}
        if not any(inner == substitute(stmt, row | way) for way in ({}, _backwards(inside))):
            return False
    return True


def _backwards(extents: dict[str, Affine]) -> dict[str, Affine]:
    return {name: extent - 1 - var(name) for name, extent in extents.items()}


def _apart(stmt: Stmt, extents: dict[str, Affine]) -> bool:
    """True if each iteration of these loops writes an element of its own, the only one of its tensor that it reads."""
    target = stmt.target
    if stmt.best is not None or stmt.arg is not None:
        return False
    if any(load.buffer == target.buffer and load.index != target.index for load in loads(stmt.value)):
        return False
    # A loop is in one index alone and in no division, so that two iterations which differ in it differ there,
    # if what the loops of smaller factors add up to is less than one step of it.
    for name in extents:
        found = [place for place in target.index if name in place.names()]
        if len(found) != 1 or not found[0].linear_in(name):
            return False
    return all(_digits(place, extents) for place in target.index)


def _digits(place: Affine, extents: dict[str, Affine]) -> bool:
    """True if the sum tells all iterations of the loops in it apart: each step is longer than all shorter ones.

    That of the longest step may run as far as it likes.
    """
    reach: int | None = 0
    for name in sorted(place.names() & extents.keys(), key=lambda n: (abs(place.coefficient(n)), n)):
        factor, extent = abs(place.coefficient(name)), extents[name]
        if reach is None or factor <= reach:
            return False
        reach = reach + factor * (extent.const - 1) if extent.is_const else None
    return True
