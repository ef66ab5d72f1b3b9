"""shift(i, s) -> r"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import var
from tilegen.ir.nodes import Condition, Loop, Node, Stmt, Tree
from tilegen.ir.walk import add_guard, leaves, rewrite_nodes, substitute
from tilegen.primitives import LoopName, NewName, primitive
from tilegen.primitives.rewriting.tree import need_fresh, need_loop, need_serial, rescope


@primitive("loops")
class Shift:
    """Count the iterations of a loop from that of a loop around it on, where it has none before.

    kernel:
        kernel behind(X: f32[N]) -> y: f32[N]:
            y[i] = sum[j >= i](X[j])
    before:
        for i < N
          y[i] = 0
          for j < N
            y[i] += X[j]  if i <= j
    steps:
        shift(j, i) -> d
    after:
        for i < N
          y[i] = 0
          for d < N
            y[i] += X[d + i]  if d + i < N

    Tiles of the new loop begin where the iterations do. The last ones are beyond the range.
    """

    loop: LoopName
    by: LoopName
    name: NewName

    def apply(self, tree: Tree) -> Tree:
        inner = need_loop(tree, self.loop)
        need_loop(tree, self.by)
        need_serial(inner, "shift")
        need_fresh(tree, (self.name,), gone=(self.loop,))
        for path, stmt in leaves(tree.body):
            names = [loop.name for loop in path]
            if self.loop in names and self.by not in names[: names.index(self.loop)]:
                notes = (f"order({self.by}, {self.loop}) nests them",)
                raise StepError(f"'{stmt.name}' is in '{self.loop}', and in no '{self.by}' around it", notes=notes)
        place = var(self.name) + var(self.by)

        def change(value: object) -> object:
            if not isinstance(value, Loop) or value.name != self.loop:
                return value
            body = add_guard(substitute(value.body, {self.loop: place}), Condition(inner.extent - 1 - place))
            return replace(value, name=self.name, body=rewrite_nodes(body, self._without_start))

        return rescope(replace(tree, body=rewrite_nodes(tree.body, change)), (self.loop,), self.name)

    def _without_start(self, node: Node) -> Node:
        """A statement without the test that it is not in front of the first iteration."""
        if not isinstance(node, Stmt):
            return node
        return replace(node, guard=tuple(c for c in node.guard if c != Condition(var(self.name))))
