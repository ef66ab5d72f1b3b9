"""Narrow loops: only the iterations that the guards in them leave, where the loops around give them.

    for ko < N/8                               for ko < bj*16 - bi*16 + 16
      for ti < 128, tj < 128, ki < 8             for ti < 128, tj < 128, ki < 8
        C.. += A.. * B..   if i <= k <= j          C.. += A.. * B..   if i <= k <= j
    where i = bi*128 + ti, j = bj*128 + tj     where k = (ko + bi*16)*8 + ki
      and k = ko*8 + ki

A condition that no statement of the loop runs without, taken where it is easiest to meet, bounds the loop: once from
below and once from above, and what else bounds it stays a test. Copies for one iteration alone are made where that
runs. The result is an ordinary tree, but for extents that loops around tell; the proof reads it like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.facts.ranges import begins, interval_of
from tilegen.ir.hardware.lanes import combining_loop
from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS, Condition, Load, Loop, Node, Stmt, Tree
from tilegen.ir.reductions.ragged import sides_of
from tilegen.ir.reductions.scatter import speaks_of
from tilegen.ir.walk import accesses, leaves, loops, rewrite_nodes, stmts, substitute
from tilegen.poly import Facts

# A compiler writes out shorter loops, where the tests of each iteration are its own.
SHORT = 16


def narrow(tree: Tree) -> Tree:
    """The tree with long serial loops narrowed."""
    return replace(tree, body=tuple(_Narrow(tree).node(node, ()) for node in tree.body))


class _Narrow:
    def __init__(self, tree: Tree) -> None:
        self.tree, self.facts = tree, Facts(tree.kernel)
        self.memory = {b.name: b for b in tree.buffers}
        registers = [a for a in accesses(tree.body) if self.memory[a.buffer].space == "register"]
        names = [loop.name for loop in loops(tree.body)]
        self.several = {name for name in names if names.count(name) > 1}  # all of one name run equally often
        self.counting = {name for access in registers for index in access.index for name in index.names()}

    def node(self, node: Node, around: tuple[Loop, ...]) -> Node:
        """`node` with the loops in it narrowed, those outside first."""
        if not isinstance(node, Loop):
            return node
        if self._may_be_narrow(node) and not self._counts_copies(node, around):
            node = self._narrowed(node, around)
        return replace(node, body=tuple(self.node(child, (*around, node)) for child in node.body))

    def _may_be_narrow(self, loop: Loop) -> bool:
        short = loop.extent.is_const and loop.extent.const <= SHORT
        plain = loop.kind == "serial" and not (loop.specialized or loop.overlapped or loop.turns or loop.roles)
        free = loop.name not in self.counting and loop.name not in self.several
        return plain and not short and free and not self._is_of_rows(loop)

    def _counts_copies(self, loop: Loop, around: tuple[Loop, ...]) -> bool:
        """True of a loop that runs several times and numbers the bulk copies in it: it does so in each run alike."""
        filled = any(each.kind == "bulk" and self._fills(each) for each in loops(loop.body))
        return filled and any(each.kind not in BLOCK_KINDS for each in around) and loop.extent.is_const

    def _fills(self, nest: Loop) -> bool:
        return any(self.memory[stmt.target.buffer].space == "shared" for stmt in stmts(nest))

    def _is_of_rows(self, loop: Loop) -> bool:
        """True of a loop over rows, of which data tell those that run."""
        sides = (side.value for stmt in stmts(loop) for side in sides_of(stmt.value))
        return any(isinstance(v, Load) and speaks_of(v, frozenset((loop.name,))) for v in sides)

    def _narrowed(self, loop: Loop, around: tuple[Loop, ...]) -> Loop:
        low, end = self._bounds(loop, around)
        if low is None and end is None:
            return loop
        first = const(0) if low is None else low
        place = var(loop.name) + first
        new = replace(loop, extent=(loop.extent if end is None else end) - first)
        extents = {each.name: each.extent for each in (*around, new, *loops(new.body))}
        inside = [Condition(place)] if low is not None else []
        inside += [begins(loop.extent - 1 - place)] if end is not None else []

        def keep_range(value: object) -> object:
            if not isinstance(value, Stmt):
                return value
            missing = [c for c in inside if not self._is_implied(c, value.guard, extents)]
            return replace(value, guard=(*missing, *value.guard))

        return replace(new, body=rewrite_nodes(substitute(loop.body, {loop.name: place}), keep_range))

    def _is_implied(self, condition: Condition, guard: tuple[Condition, ...], extents: Mapping[str, Affine]) -> bool:
        names = condition.value.names().union(*(c.value.names() for c in guard)) & extents.keys()
        names |= {name for each in names for name in extents[each].names()} & extents.keys()
        return self.facts.is_implied(condition, {name: extents[name] for name in names}, guard)

    def _bounds(self, loop: Loop, around: tuple[Loop, ...]) -> tuple[Affine | None, Affine | None]:
        """The first iteration and the end of the loop, as its guards tell them; None where they do not."""
        threads = {each.name for each in around if each.kind in THREAD_KINDS}
        meeting = any(each.kind in THREAD_KINDS for each in loops(loop.body)) or any(
            combining_loop(self.tree, (*around, loop, *path), stmt) for path, stmt in leaves(loop.body)
        )
        alike = threads if meeting else set()
        known = {each.name for each in around} - alike
        needed = self._needed(loop)
        low = end = None
        for rest, more in needed.items():
            value, factor = rest + more, rest.coefficient(loop.name)
            other = value - var(loop.name) * factor
            if other.names().isdisjoint(known) or not other.names() <= known | set(self.tree.kernel.sizes):
                continue
            first, behind = (-other).ceildiv(max(1, factor)), other // max(1, -factor) + 1
            if factor > 0 and low is None and self._is_worth(first, first, around):
                low = first
            if factor < 0 and end is None and self._is_worth(loop.extent - behind, behind, around):
                end = behind
        return low, end

    def _is_worth(self, left_out: Affine, bound: Affine, around: tuple[Loop, ...]) -> bool:
        """True if several iterations are left out, and not only at the ends of loops that tell the bound: what the last
        tile of a loop leaves out is the rest of a tile."""
        if any(division.arg.names() <= set(self.tree.kernel.sizes) for division in bound.divisions()):
            return False  # it would look like the number of tiles of a size, which whole tiles have without a rest
        extents = {loop.name: loop.extent for loop in around}
        known = [Condition(left_out - 2)]
        for name in sorted(bound.names() & extents.keys()):
            known += [Condition(var(name) - 1), Condition(extents[name] - 2 - var(name))]
        return self.facts.is_possible(known, extents)

    def _needed(self, loop: Loop) -> dict[Affine, int]:
        """What is not negative wherever a statement of the loop runs: sums of names that are fixed in an iteration, and
        a constant for each."""
        inner = {each.name: each.extent.const for each in loops(loop.body) if each.extent.is_const}
        found: dict[Affine, int] | None = None
        for stmt in stmts(loop.body):
            if self._is_of_one_iteration(stmt, loop):
                continue
            counts = dict(sorted(_easiest(stmt, loop.name, inner), key=lambda each: -each[1]))
            found = counts if found is None else {k: max(c, counts[k]) for k, c in found.items() if k in counts}
        return found or {}

    def _is_of_one_iteration(self, stmt: Stmt, loop: Loop) -> bool:
        """True of a copy that nothing outside of an iteration reads."""
        home = self.memory[stmt.target.buffer].scope
        return stmt.is_copy and home in {loop.name, *(each.name for each in loops(loop.body))}


def _easiest(stmt: Stmt, name: str, inner: Mapping[str, int]) -> Iterator[tuple[Affine, int]]:
    """The conditions on the loop `name` in the guard of `stmt` where they are easiest to meet for all loops `inner`."""
    for value, equal in stmt.guard:
        if equal or not value.coefficient(name) or not value.linear_in(name):
            continue
        moving = value.part_with(inner)
        if (ends := interval_of(moving, inner)) is not None:
            fixed = value - moving
            yield fixed - fixed.const, fixed.const + ends[1]
