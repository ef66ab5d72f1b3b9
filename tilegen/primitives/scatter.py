"""scatter(b)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import var
from tilegen.ir.nodes import Loop, Node, Tree
from tilegen.ir.reductions.scatter import pick_of
from tilegen.ir.walk import find_loop, loop_names, rewrite_nodes, stmts, substitute
from tilegen.primitives import LoopName, primitive
from tilegen.primitives.rewriting.names import Names
from tilegen.primitives.rewriting.tree import need_loop, need_serial


@primitive("loops")
class Scatter:
    """Run only the iteration of a loop that data pick, as `x[i] == b` does: a term goes to one place.

    kernel:
        kernel histogram(x: i32[N]) -> h: i32[B]:
            h[b] = sum[i](1 if x[i] == b else 0)
    before:
        for b < B
          h[b] = 0
        for i < N
          for b < B
            h[b] += select(x[i] == b, 1, 0)
    steps:
        order(i, b)
        scatter(b)
    after:
        for h.init.b < B
          h[h.init.b] = 0
        for i < N
          for b < B  scatter
            h[b] += select(x[i] == b, 1, 0)

    In the text that is `b = x[i]`, with a test that there is such a `b`, and `h[b] += 1`: data outside of the range are
    in no element. The condition may have other parts after `and`, and after `else` stands what the reduction starts
    from. Which iterations of `i` meet in an element is known at run time only: to run them at once, `atomic(h)`, and
    `rfactor` for copies of `h` that fewer threads share.
    """

    loop: LoopName

    def apply(self, tree: Tree) -> Tree:
        need_serial(need_loop(tree, self.loop), "scatter")
        names: dict[str, Names] = {}

        def change(node: Node) -> Node:
            if not isinstance(node, Loop) or node.name != self.loop:
                return node
            picked = [pick_of(stmt.value, self.loop) is not None for stmt in stmts(node)]
            if all(picked):
                return replace(node, kind="scatter")
            if any(picked):
                other = next(stmt for stmt, each in zip(stmts(node), picked, strict=True) if not each)
                notes = (f"order(..., {self.loop}) puts it inside of the loops of the reduction",)
                raise StepError(f"'{other.name}' does something in every iteration of '{self.loop}'", notes=notes)
            first = next(stmts(node)).name
            new = names.setdefault(first, Names(set(loop_names(tree)), first)).of(self.loop)
            return replace(substitute(node, {self.loop: var(new)}), name=new)

        body = rewrite_nodes(tree.body, change)
        if find_loop(replace(tree, body=body), self.loop) is None:
            notes = (f"it takes a sum of terms such as `1 if x[i] == {self.loop} else 0`",)
            raise StepError(f"no data pick an iteration of '{self.loop}'", notes=notes)
        return replace(tree, body=body)
