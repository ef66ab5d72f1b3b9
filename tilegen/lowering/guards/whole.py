"""Sizes that tiles divide: where all of them do, no tile is partial, and the text needs no tests for them."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.ir.affine import Affine, Atom, Div
from tilegen.ir.nodes import Condition, Kernel, Node
from tilegen.ir.walk import loops, rewrite_indices
from tilegen.poly import Facts


def whole_tiles(node: Node, kernel: Kernel) -> tuple[Node, tuple[Condition, ...]]:
    """The launch `node` for sizes that its tiles divide, N/32 of them instead of (N + 31)/32, and that they do.

    A compiler does not know that the two are the same, and the end of a loop and what stands after it are shorter so.
    """
    return _divide_exactly(node, kernel), _no_rests(node, kernel)


def _no_rests(node: Node, kernel: Kernel) -> tuple[Condition, ...]:
    """That the tiles of a loop have no rest: N % 32 == 0, for all loops of a launch."""
    rests = [_tiled_extent(atom) % atom.by for atom in _tilings(node, kernel)]
    found = [Condition(rest, equal=True) for rest in rests if not rest.is_const]
    facts = Facts(kernel)
    needed: list[Condition] = []
    # The largest tiles first: N % 256 == 0 says what N % 32 == 0 does.
    for condition in sorted(dict.fromkeys(found), key=lambda c: -_tile(c)):
        if not facts.is_implied(condition, {}, tuple(needed)):
            needed.append(condition)
    return tuple(needed)


def _divide_exactly(node: Node, kernel: Kernel) -> Node:
    exact: dict[Atom, Affine] = {}  # the numbers of tiles without their rounding
    for atom in _tilings(node, kernel):
        exact[atom] = _tiled_extent(atom).with_atoms(exact) // atom.by
    return rewrite_indices(node, lambda value: value.with_atoms(exact))


def _tilings(node: Node, kernel: Kernel) -> Iterator[Div]:
    """What counts the tiles of a loop, (N + 31)/32. What a tensor's own size rounds down, K/32, has no rest in it."""
    sizes = {atom for t in kernel.tensors for extent in t.shape for atom, _ in extent.terms}
    for loop in loops(node):
        for atom in _divisions(loop.extent):
            if not atom.arg.names() <= set(kernel.sizes):
                continue
            if atom not in sizes or _tiled_extent(atom).const % atom.by == 0:
                yield atom


def _divisions(extent: Affine) -> Iterator[Div]:
    """The divisions in an extent, those of tiles that are tiled again first: (N + 31)/32 in ((N + 31)/32 + 7)/8."""
    for atom, _ in extent.terms:
        if isinstance(atom, Div):
            yield from _divisions(atom.arg)
            yield atom


def _tiled_extent(atom: Div) -> Affine:
    """What (N + 31)/32 counts the tiles of: N."""
    return atom.arg - (atom.by - 1)


def _tile(condition: Condition) -> int:
    return max(atom.by for atom, _ in condition.value.terms if not isinstance(atom, str))
