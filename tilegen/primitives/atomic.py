"""atomic(C), atomic(count, at=t)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import var
from tilegen.ir.nodes import Loop, Node, Stmt, Tree
from tilegen.ir.parts.lists import MOST_TOGETHER, takes_together
from tilegen.ir.walk import leaves, loop_names, loops, rewrite, substitute
from tilegen.primitives import BufferName, LoopName, primitive
from tilegen.primitives.equations.terms import need_reduction
from tilegen.primitives.rewriting.names import Names
from tilegen.primitives.rewriting.tree import need_loop


@primitive("arithmetic")
class Atomic:
    """Update the result of a reduction atomically: blocks and threads that run at once may add to one element.

    kernel:
        kernel dot(x: f32[K], y: f32[K, N]) -> z: f32[N]:
            z[i] = sum[k](x[k] * y[k, i])
    before:
        for i < N
          z[i] = 0
          for k < K
            z[i] += x[k] * y[k, i]
    steps:
        reassociate(z)
        atomic(z)
    after:
        for z.init.i < N
          z[z.init.i] = 0
        for i < N
          for k < K
            atomic z[i] += x[k] * y[k, i]

    The result starts in a launch of its own before, so that it is there for all that update it; a part in shared
    memory starts where it is, for the threads of its block. What comes at once comes in any order, which reassociate
    allows; an unordered_list has its hits in any order anyway. There are atomic sums of f32, f64 and i32, the max and
    min of i32, and lists that count in i32. Few updates are better than many: rfactor makes parts, each of which one
    block or thread reduces by itself and adds when it is done. With `at`, a list takes the places of all hits in an
    iteration of that loop by one update: it has one loop inside, of 32 iterations at most. Where all
    threads of a block run it, for one count, one update takes the places of all their hits.
    """

    reduction: BufferName
    at: LoopName | None = None

    def apply(self, tree: Tree) -> Tree:
        need_reduction(tree, self.reduction)
        if any(s.atomic and s.name == self.reduction for _, s in leaves(tree.body)):
            raise StepError(f"'{self.reduction}' is updated atomically already")
        names = Names(set(loop_names(tree)), f"{self.reduction}.init")
        targets = {s.target.buffer for _, s in leaves(tree.body) if s.name == self.reduction}
        in_block = any(tree.buffer(name).space == "shared" for name in targets)
        body: tuple[Node, ...] = tree.body if in_block else ()
        for launch in () if in_block else tree.body:
            start, rest = self._split_launch(launch)
            body += (_rename_loops(start, names), rest) if start and rest else (launch,)

        together = self._is_together(tree)

        def mark(value: object) -> object:
            if not isinstance(value, Stmt) or value.name != self.reduction:
                return value
            return replace(value, atomic=True, hits=value.hits and replace(value.hits, together=together))

        return replace(tree, body=rewrite(body, mark))

    def _is_together(self, tree: Tree) -> bool:
        """True if the places of a list are taken once in each iteration of `at`. StepError where they cannot be."""
        if self.at is None:
            return False
        need_loop(tree, self.at)
        ((path, stmt),) = [(path, stmt) for path, stmt in leaves(tree.body) if stmt.name == self.reduction]
        if stmt.hits is None:
            raise StepError(f"'{self.reduction}' is no list, and atomic has 'at' for the hits of a list alone")
        *_, outer, inner = (None, None, *path)
        if outer is None or inner is None or outer.name != self.at or not takes_together(inner.extent):
            notes = (f"tile(..., {MOST_TOGETHER}) makes such a loop, and order puts it inside '{self.at}'",)
            message = (
                f"'{self.at}' has no loop of {MOST_TOGETHER} iterations at most around the hits of '{self.reduction}'"
            )
            raise StepError(message, notes=notes)
        return True

    def _split_launch(self, launch: Node) -> tuple[Node | None, Node | None]:
        """What of a launch starts the result, and what does not; None for nothing."""
        starts = (f"{self.reduction}.init", f"{self.reduction}.best.init")
        found = (_select((launch,), starts, True), _select((launch,), starts, False))
        first, rest = (body[0] if body else None for body in found)
        return first, rest


def _select(body: tuple[Node, ...], names: tuple[str, ...], wanted: bool) -> tuple[Node, ...]:
    """The statements of these names, or the others, with the loops around them."""
    out: tuple[Node, ...] = ()
    for node in body:
        if isinstance(node, Loop):
            inner = _select(node.body, names, wanted)
            out += (replace(node, body=inner),) if inner else ()
        elif (node.name in names) == wanted:
            out += (node,)
    return out


def _rename_loops(launch: Node, names: Names) -> Node:
    """The launch with names of its own for its loops."""
    new = {name: names.of(name) for name in dict.fromkeys(loop.name for loop in loops((launch,)))}

    def change(value: object) -> object:
        return replace(value, name=new[value.name]) if isinstance(value, Loop) else value

    return substitute(rewrite(launch, change), {old: var(name) for old, name in new.items()})
