"""One name for the test that a tile is whole: it is made where the tile is known, and not again where it is asked.

for ko < n                                        full_tile = b*128 + 127 < N
    if (k < K && b*128 + 127 < N) load A          for ko < n
    else load A, tested                               if (full_tile && k < K) load A
    if (b*128 + 127 < N) multiply ...                 else load A, tested
                                                      if (full_tile) multiply ...
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tilegen.ir.affine import Affine, Div, var
from tilegen.ir.nodes import Condition
from tilegen.ir.printing.reserved_words import fresh
from tilegen.ir.walk import rewrite
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import (
    Flag,
    For,
    If,
    Let,
    Spmd,
    with_body,
    with_lists,
)

Tests = tuple[Condition, ...]


def name_tests(launch: Launch) -> Launch:
    """`launch` with names for what several choices of a version have to test, first for what saves most."""
    tiles = frozenset(launch.tiles)
    places = frozenset((launch.tid, *(name for name, _, _ in launch.coordinates))) - tiles
    known = _Known(places, tiles, frozenset(launch.kernel.sizes))
    taken, body = {*launch.buffers}, rewrite(launch.body, _as_remainder)
    while True:
        saved, test, loop, here = max(_lists(body, known), key=lambda found: found[0])  # the first is the outermost
        if not saved:
            return replace(launch, body=body)
        body = _with_flag(body, Flag(fresh("full_tile", taken), test), loop, here)


def _as_remainder(value: Any) -> Any:
    """K % 8 == 0 for (K + 7)/8*8 <= K, which says the same."""
    match value:
        case Condition(Affine(terms) as low, False):
            for atom, factor in terms:
                if (
                    isinstance(atom, Div)
                    and factor == -atom.by
                    and low + var(atom) * atom.by == atom.arg - (atom.by - 1)
                ):
                    return Condition((atom.arg - (atom.by - 1)) % atom.by, equal=True)
    return value


@dataclass(frozen=True)
class _Known:
    """The loops and coordinates that have values before a list; `tiles` have them in the loop over tiles alone."""

    places: frozenset[str]
    tiles: frozenset[str]
    sizes: frozenset[str]

    def inside(self, loop: For) -> _Known:
        return replace(self, places=self.places | (self.tiles if loop.kind == "tiles" else {loop.name}))

    def test(self, choice: If) -> Tests:
        """What it tests of them; what is the same for all blocks is no matter of a tile."""
        every = self.places | self.sizes
        return tuple(c for c in choice.test if c.value.names() <= every and c.value.names() & self.places)


def _lists(
    body: tuple[Spmd, ...], known: _Known, loop: For | None = None
) -> Iterator[tuple[int, Tests, For | None, _Known]]:
    """For each list that all threads run: what a name saves there, for which test, its loop, what is known before."""
    asked = Counter(known.test(node) for node in _choices(body))
    saved = [(count * len(test), test, loop, known) for test, count in asked.items() if count > 1]
    yield max(saved, key=lambda found: found[0], default=(0, (), loop, known))
    known = replace(known, places=known.places | {node.name for node in body if isinstance(node, Let)})
    for node in body:
        if isinstance(node, For):
            yield from _lists(node.body, known.inside(node), node)
        elif isinstance(node, If):
            for branch in (node.body, node.orelse):
                yield from list(_lists(branch, known))[1:]


def _choices(body: tuple[Spmd, ...]) -> Iterator[If]:
    for node in body:
        if isinstance(node, If) and _is_choice(node):
            yield node
        if isinstance(node, For | If):
            yield from _choices(node.body)
        if isinstance(node, If):
            yield from _choices(node.orelse)


def _is_choice(node: If) -> bool:
    """True of a choice between two versions that has no name yet."""
    return bool(node.orelse) and not node.roles and not node.flag


def _with_flag(body: tuple[Spmd, ...], flag: Flag, loop: For | None, known: _Known) -> tuple[Spmd, ...]:
    """`body` with the test made first in `loop`, in the whole of it for None, and asked by its name after that."""

    def change(nodes: tuple[Spmd, ...], made: bool) -> tuple[Spmd, ...]:
        return tuple(one(node, made) for node in nodes)

    def one(node: Spmd, made: bool) -> Spmd:
        if node is loop and isinstance(node, For):
            return with_body(node, (flag, *change(node.body, True)))
        node = with_lists(node, lambda nodes: change(nodes, made))
        asks = made and isinstance(node, If) and _is_choice(node) and known.test(node) == flag.test
        return replace(node, flag=flag.name) if isinstance(node, If) and asks else node

    return change(body, False) if loop else (flag, *change(body, True))
