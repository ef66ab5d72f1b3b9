"""What every tree has to be, whatever made it: an assertion of tilegen's own, no question of legality."""

from __future__ import annotations

from operator import attrgetter

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import LOOP_KINDS, Access, Load, Stmt, Tree
from tilegen.ir.walk import leaves, loops, walk

_header, _name = attrgetter("name", "extent", "kind"), attrgetter("name")


def verify(tree: Tree) -> Tree:
    """`tree`, if it is well formed; AssertionError if a step has built something that is no program.

    Every name in an index or a guard is a loop around it or a size; no loop is inside itself; loops of one
    name agree in extent and kind; every buffer that is used exists, and is used with its rank; rows do not overlap,
    and a swizzle permutes each.
    """
    known = frozenset((b.name, len(b.shape)) for b in tree.buffers)
    assert len({name for name, _ in known}) == len(tree.buffers), "two buffers share a name"
    sizes = frozenset(tree.kernel.sizes)
    headers = set(map(_header, loops(tree.body)))
    names = {name for name, _, _ in headers}
    assert len(names) == len(headers), f"two loops of one name differ: {sorted(name for name, _, _ in headers)}"
    for name, extent, kind in headers:
        assert kind in LOOP_KINDS, kind
        assert extent.names() <= sizes, f"{name} runs to {extent}"
    for path, stmt in leaves(tree.body):
        around = set(map(_name, path))
        assert len(around) == len(path), f"a loop is inside itself: {[loop.name for loop in path]}"
        wanted, uses = _told(stmt)
        assert wanted <= around | sizes, f"{stmt.name} uses {sorted(wanted - sizes - around)} outside of its loop"
        assert uses <= known, f"{stmt.name} uses {sorted(uses - known)}, which is not there with that rank"
    for buffer in tree.buffers:
        assert buffer.pad >= 0, f"the rows of {buffer.name} overlap"
        if buffer.swizzle:
            length = buffer.shape[buffer.order[-1]]
            assert length.is_const, f"{buffer.name} is swizzled in rows of {length}"
            assert buffer.swizzle.permutes(length.const), f"{buffer.swizzle} in rows of {length} of {buffer.name}"
        assert buffer.scope is None or buffer.scope in names, f"{buffer.name} lives in {buffer.scope}, which is gone"
    return tree


# By the identity of a statement: the statement, and what is told of it. Steps leave most statements as they are.
_known: dict[int, tuple[Stmt, frozenset[str], frozenset[tuple[str, int]]]] = {}
_MOST_KNOWN = 20_000
_is_affine = Affine.__instancecheck__


def _told(stmt: Stmt) -> tuple[frozenset[str], frozenset[tuple[str, int]]]:
    """The names in its indices and guards, and the buffers that it uses, with the rank."""
    found = _known.get(id(stmt))
    if found is None:
        if len(_known) > _MOST_KNOWN:
            _known.clear()
        values = list(walk(stmt))
        names = frozenset().union(*map(Affine.names, filter(_is_affine, values)))
        uses = frozenset([(v.buffer, len(v.index)) for v in values if type(v) is Load or type(v) is Access])
        found = _known[id(stmt)] = (stmt, names, uses)
    return found[1:]
