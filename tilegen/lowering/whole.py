"""Sizes that tiles divide: where all of them do, no tile is partial, and the text needs no tests for them."""

from __future__ import annotations

from tilegen.ir.affine import Div
from tilegen.ir.nodes import Condition, Kernel, Node
from tilegen.ir.walk import loops
from tilegen.poly import Facts


def whole_tiles(node: Node, kernel: Kernel) -> tuple[Condition, ...]:
    """That the tiles of a loop, (N + 31)/32 of them, have no rest: N % 32 == 0, for all loops of a launch."""
    found: list[Condition] = []
    for loop in loops(node):
        for atom, _ in loop.extent.terms:
            if isinstance(atom, Div) and atom.arg.names() <= set(kernel.sizes):
                rest = (atom.arg - (atom.by - 1)) % atom.by
                if not rest.is_const:
                    found.append(Condition(rest, equal=True))
    facts = Facts(kernel)
    needed: list[Condition] = []
    # The largest tiles first: N % 256 == 0 says what N % 32 == 0 does.
    for condition in sorted(dict.fromkeys(found), key=lambda c: -_tile(c)):
        if not facts.implied(condition, {}, tuple(needed)):
            needed.append(condition)
    return tuple(needed)


def _tile(condition: Condition) -> int:
    return max(atom.by for atom, _ in condition.value.terms if not isinstance(atom, str))
