"""collapse(li, lj) -> lane"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, var
from tilegen.ir.facts.ranges import rejoin, simplify
from tilegen.ir.nodes import Loop, Tree
from tilegen.ir.walk import loops, rewrite_indices, rewrite_nodes, substitute
from tilegen.primitives import LoopName, NewName, primitive
from tilegen.primitives.rewriting.tree import change_loops, need_fresh, need_loop, need_serial, nest_of, rescope


@primitive("loops")
class Collapse:
    """Make one loop of two that are directly nested: the inner one's place varies fastest.

    kernel:
        kernel copy(X: f32[M, N]) -> Y: f32[M, N]:
            Y[i, j] = X[i, j]
    before:
        for bi < (M + 3)/4
          for bj < (N + 7)/8
            for li < 4
              for lj < 8
                Y[bi*4 + li, bj*8 + lj] = X[bi*4 + li, bj*8 + lj]  if bi*4 + li < M and bj*8 + lj < N
    steps:
        tile(i, 4) -> bi, li
        tile(j, 8) -> bj, lj
        order(bi, bj, li, lj)
        collapse(li, lj) -> lane
    after:
        for bi < (M + 3)/4
          for bj < (N + 7)/8
            for lane < 32
              Y[bi*4 + lane/8, bj*8 + lane%8] = X[bi*4 + lane/8, bj*8 + lane%8]  if bi*4 + lane/8 < M and bj*8 + lane%8 < N

    This is how the 32 lanes of a warp are laid out over two dimensions. Where the extent of the inner one is symbolic,
    the two stay, and the name is that of the nest: for blocks, `bind(b, block.x)` deals them out to both, `deal(b)` as
    tiles, and `order(b, ...)`, `resident(b, 2)` and `at=b` take it. Such a nest can be collapsed with another loop.
    """  # noqa: E501

    outer: LoopName
    inner: LoopName
    name: NewName

    def apply(self, tree: Tree) -> Tree:
        names = (*nest_of(tree, self.outer), *nest_of(tree, self.inner))
        nest = [need_loop(tree, name) for name in names]
        for loop in nest:
            need_serial(loop, "collapse")
        self._check_nested(tree, names)
        several = len(nest) > 2 or not nest[1].extent.is_const
        need_fresh(tree, (self.name,), gone={self.outer, self.inner} - {*names} if several else names)
        if several:
            for name in names:
                tree = change_loops(tree, name, lambda old: replace(old, collapsed=self.name, kind="serial"))
            return tree
        outer, low = nest[0], nest[1].extent.const
        extents: dict[str, int] = {self.name: outer.extent.const * low} if outer.extent.is_const else {}
        row, column = simplify(var(self.name) // low, extents), var(self.name) % low
        place: dict[str, Affine] = {self.outer: row, self.inner: column}

        def merge(value: object) -> object:
            if not isinstance(value, Loop) or value.name != self.outer:
                return value
            (inner,) = value.body
            assert isinstance(inner, Loop)
            body = rewrite_indices(substitute(inner.body, place), rejoin)
            return replace(value, name=self.name, extent=outer.extent * low, body=body, kind="serial", roles=())

        merged = replace(tree, body=rewrite_nodes(tree.body, merge))
        return rescope(merged, (self.outer, self.inner), self.name)

    def _check_nested(self, tree: Tree, names: tuple[str, ...]) -> None:
        """StepError unless each of these loops has the next one in it, and nothing else."""
        found = [*loops(tree.body)]
        notes = (f"order(..., {', '.join(names)}) nests them, innermost",)
        for name, inside in pairwise(names):
            outer = [loop for loop in found if loop.name == name]
            if any([isinstance(node, Loop) and node.name for node in loop.body] != [inside] for loop in outer):
                raise StepError(f"'{inside}' is not alone inside '{name}'", notes=notes)
            if len(outer) != sum(loop.name == inside for loop in found):
                raise StepError(f"'{inside}' is not inside '{name}' everywhere", notes=notes)
