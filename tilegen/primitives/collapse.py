"""collapse(li, lj) -> lane"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, var
from tilegen.ir.nodes import Loop, Tree
from tilegen.ir.ranges import rejoin, simplify
from tilegen.ir.walk import loops, rewrite_indices, rewrite_nodes, substitute
from tilegen.primitives import LoopName, NewName, primitive
from tilegen.primitives.rewriting.tree import need_constant, need_fresh, need_loop, need_serial, rescope


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

    The inner one has a constant extent. This is how the 32 lanes of a warp are laid out over two dimensions.
    """  # noqa: E501

    outer: LoopName
    inner: LoopName
    name: NewName

    def apply(self, tree: Tree) -> Tree:
        outer, inner = need_loop(tree, self.outer), need_loop(tree, self.inner)
        for loop in (outer, inner):
            need_serial(loop, "collapse")
        need_fresh(tree, (self.name,), gone=(self.outer, self.inner))
        try:
            low = need_constant(inner, "collapse")
        except StepError as error:
            error.notes += (f"blocks need no one loop: bind({outer.name}, block.x) and bind({inner.name}, block.x)",)
            raise
        extents: dict[str, int] = {self.name: outer.extent.const * low} if outer.extent.is_const else {}
        row, column = simplify(var(self.name) // low, extents), var(self.name) % low
        place: dict[str, Affine] = {self.outer: row, self.inner: column}

        def merge(value: object) -> object:
            if not isinstance(value, Loop) or value.name != self.outer:
                return value
            if len(value.body) != 1 or not isinstance(value.body[0], Loop) or value.body[0].name != self.inner:
                raise StepError(f"'{self.inner}' is not alone inside '{self.outer}'", notes=(self._way(),))
            body = rewrite_indices(substitute(value.body[0].body, place), rejoin)
            return replace(value, name=self.name, extent=outer.extent * low, body=body, kind="serial", roles=())

        merged = replace(tree, body=rewrite_nodes(tree.body, merge))
        names = [loop.name for loop in loops(tree.body)]
        if names.count(self.inner) != names.count(self.outer):
            raise StepError(f"'{self.inner}' is not inside '{self.outer}' everywhere", notes=(self._way(),))
        return rescope(merged, (self.outer, self.inner), self.name)

    def _way(self) -> str:
        return f"order(..., {self.outer}, {self.inner}) nests them, innermost"
