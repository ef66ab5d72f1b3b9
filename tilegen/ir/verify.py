"""What every tree has to be, whatever made it: an assertion of tilegen's own, no question of legality."""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import LOOP_KINDS, Node, Tree
from tilegen.ir.walk import accesses, leaves, loops, walk

_header, _name = attrgetter("name", "extent", "kind"), attrgetter("name")
_is_affine = Affine.__instancecheck__


def verify(tree: Tree) -> Tree:
    """`tree`, if it is well formed; AssertionError if a step has built something that is no program.

    Every name in an index or a guard is a loop around it or a size; no loop is inside itself; loops of one
    name agree in extent and kind; every buffer that is used exists, and is used with its rank; rows do not overlap,
    and a swizzle permutes each.
    """
    known = frozenset((b.name, len(b.shape)) for b in tree.buffers)
    assert len({name for name, _ in known}) == len(tree.buffers), "two buffers share a name"
    launches = [_contents(launch) for launch in tree.body]
    headers = frozenset().union(*[launch.headers for launch in launches])
    names = {name for name, _, _ in headers}
    assert len(names) == len(headers), f"two loops of one name differ: {sorted(name for name, _, _ in headers)}"
    for launch in launches:
        strange = launch.outside.difference(tree.kernel.sizes)
        assert not strange, f"{sorted(strange)} are used outside of their loops"
        assert launch.uses <= known, f"{sorted(launch.uses - known)} are used, and not there with that rank"
    for buffer in tree.buffers:
        assert buffer.pad >= 0, f"the rows of {buffer.name} overlap"
        if buffer.swizzle:
            length = buffer.shape[buffer.order[-1]]
            assert length.is_const, f"{buffer.name} is swizzled in rows of {length}"
            assert buffer.swizzle.permutes(length.const), f"{buffer.swizzle} in rows of {length} of {buffer.name}"
        assert buffer.scope is None or buffer.scope in names, f"{buffer.name} lives in {buffer.scope}, which is gone"
    return tree


class _Contents(NamedTuple):
    """What a launch says: its loops, the names that are none of the loops around them, and the buffers that it uses,
    with the rank."""

    headers: frozenset[tuple[str, Affine, str]]
    outside: frozenset[str]
    uses: frozenset[tuple[str, int]]


def _contents(launch: Node) -> _Contents:
    headers = frozenset(map(_header, loops(launch)))
    outside, uses = set[str](), set[tuple[str, int]]()
    for name, extent, kind in headers:
        assert kind in LOOP_KINDS, f"{name} is {kind}"
        outside |= extent.names()
    for path, stmt in leaves((launch,)):
        around = frozenset(map(_name, path))
        assert len(around) == len(path), f"a loop is inside itself: {[loop.name for loop in path]}"
        outside |= frozenset().union(*map(Affine.names, filter(_is_affine, walk(stmt)))) - around
        uses.update((access.buffer, len(access.index)) for access in accesses(stmt))
    return _Contents(headers, frozenset(outside), frozenset(uses))
