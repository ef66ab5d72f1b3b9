"""skew(b, g) -> n"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import var
from tilegen.ir.nodes import Condition, Loop, Tree
from tilegen.ir.walk import add_guard, leaves, rewrite_nodes, substitute
from tilegen.primitives import LoopName, NewName, primitive
from tilegen.primitives.rewriting.tree import need_fresh, need_loop, need_serial


@primitive("loops")
class Skew:
    """Run diagonals: in each iteration of a new loop the pairs of iterations of two loops that have one sum.

    kernel:
        kernel copy(X: f32[M, N]) -> Y: f32[M, N]:
            Y[i, j] = X[i, j]
    before:
        for i < M
          for j < N
            Y[i, j] = X[i, j]
    steps:
        skew(i, j) -> d
    after:
        for d < M + N - 1
          for j < N
            Y[d - j, j] = X[d - j, j]  if d < M + j and j <= d

    Of tiles of T elements and the rows of different length that meet in them a diagonal has one pair at most: N/T + G
    diagonals have all parts of N elements in G rows, so that blocks have equal shares.
    """

    loop: LoopName
    by: LoopName
    name: NewName

    def apply(self, tree: Tree) -> Tree:
        outer, inner = need_loop(tree, self.loop), need_loop(tree, self.by)
        for loop in (outer, inner):
            need_serial(loop, "skew")
        need_fresh(tree, (self.name,), gone=(self.loop,))
        for path, stmt in leaves(tree.body):
            names = [loop.name for loop in path]
            if self.loop in names and self.by not in names[names.index(self.loop) :]:
                notes = (f"order({self.loop}, {self.by}) nests them",)
                raise StepError(f"'{stmt.name}' is in '{self.loop}', and in no '{self.by}' inside of it", notes=notes)
        place = var(self.name) - var(self.by)

        def change(value: object) -> object:
            if not isinstance(value, Loop) or value.name != self.loop:
                return value
            body = substitute(value.body, {self.loop: place})
            for room in (place, outer.extent - 1 - place):
                body = add_guard(body, Condition(room))
            return replace(value, name=self.name, extent=outer.extent + inner.extent - 1, body=body)

        return replace(tree, body=rewrite_nodes(tree.body, change))
