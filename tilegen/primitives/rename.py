"""rename(a.j, b.j) -> j, rename(j, of=C) -> v"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import var
from tilegen.ir.nodes import Loop, Node, Tree
from tilegen.ir.walk import find_loop, loops, rewrite, stmts, substitute
from tilegen.primitives import BufferName, LoopName, NewName, primitive
from tilegen.primitives.rewriting.tree import need_fresh, need_loop, rescope


@primitive("loops")
class Rename:
    """Give loops of the same extent and kind one name: the steps after it are taken in all of them at once.

    kernel:
        kernel centre(X: f32[M, 64]) -> Y: f32[M, 64]:
            var m: f32[M]
            m[i] = sum[j](X[i, j] / 64)
            Y[i, j] = X[i, j] - m[i]
    before:
        for i < M
          m[i] = 0
          for m.j < 64
            m[i] += X[i, m.j] / 64.0
          for Y.j < 64
            Y[i, Y.j] = X[i, Y.j] - m[i]
    steps:
        fuse(m.i, Y.i) -> i
        rename(m.j, Y.j) -> j
    after:
        for i < M
          m[i] = 0
          for j < 64
            m[i] += X[i, j] / 64.0
          for j < 64
            Y[i, j] = X[i, j] - m[i]

    A cache sees one index in all of them, so that what one nest has loaded the next one finds in registers.
    The loops stay apart, one after the other, and none may be inside another. With `of`, only those loops get the
    name that hold nothing but statements of that name: what is one loop in several nests becomes two.
    """

    loops: tuple[LoopName, ...]
    of: BufferName | None = None
    name: NewName

    def apply(self, tree: Tree) -> Tree:
        found = [need_loop(tree, name) for name in self.loops]
        if not found:
            raise StepError("rename takes at least one loop")
        need_fresh(tree, (self.name,), gone=() if self.of else self.loops)
        for loop in found[1:]:
            self._check_alike(found[0], loop)
        for node in tree.body:
            self._check_not_nested(node, ())

        def change(value: object) -> object:
            if not isinstance(value, Loop) or value.name not in self.loops or not self._is_meant(value):
                return value
            return replace(value, name=self.name, body=substitute(value.body, {value.name: var(self.name)}))

        new = replace(tree, body=rewrite(tree.body, change))
        if self.of and new == tree:
            held = dict.fromkeys(s.name for loop in loops(tree.body) if loop.name in self.loops for s in stmts(loop))
            notes = (f"what is in it is {', '.join(held)}",)
            raise StepError(f"no loop {' or '.join(self.loops)} has nothing but '{self.of}' in it", notes=notes)
        return rescope(new, [name for name in self.loops if find_loop(new, name) is None], self.name)

    def _is_meant(self, loop: Loop) -> bool:
        return self.of is None or all(stmt.name == self.of for stmt in stmts(loop))

    def _check_alike(self, first: Loop, other: Loop) -> None:
        if first.extent != other.extent:
            raise StepError(
                f"'{first.name}' has {first.extent} iterations and '{other.name}' has {other.extent}",
                notes=("loops of one name have the same extent",),
            )
        if (first.kind, first.stages) != (other.kind, other.stages):
            notes = ("loops of one name run alike: put rename before the step that binds one of them",)
            raise StepError(f"'{first.name}' is {first.kind} and '{other.name}' is {other.kind}", notes=notes)

    def _check_not_nested(self, node: Node, around: tuple[str, ...]) -> None:
        if not isinstance(node, Loop):
            return
        if node.name in self.loops:
            if around:
                raise StepError(
                    f"loop '{node.name}' is inside '{around[0]}', and two loops of one name cannot be nested"
                )
            around = (node.name,)
        for child in node.body:
            self._check_not_nested(child, around)
