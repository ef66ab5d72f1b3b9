"""fuse(c.i, d.i, out.i) -> i"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import var
from tilegen.ir.nodes import Loop, Node, Tree
from tilegen.ir.walk import change_first_list, leaves, loops, substitute
from tilegen.primitives import LoopName, NewName, primitive
from tilegen.primitives.rewriting.tree import need_fresh, need_loop, rescope


@primitive("loops")
class Fuse:
    """Run the bodies of loops that follow one another, of the same extent, in one loop.

    kernel:
        kernel pair(a: f32[N]) -> c: f32[N], d: f32[N]:
            c[i] = sin(a[i])
            d[i] = log(a[i])
    before:
        for c.i < N
          c[c.i] = sin(a[c.i])
        for d.i < N
          d[d.i] = log(a[d.i])
    steps:
        fuse(c.i, d.i) -> i
    after:
        for i < N
          c[i] = sin(a[i])
          d[i] = log(a[i])

    Outermost loops are kernel launches, so fusing them makes one launch of several. What stands between
    the loops goes in front of the fused one. In which order the loops are given is all one.
    """

    loops: tuple[LoopName, ...]
    name: NewName

    def apply(self, tree: Tree) -> Tree:
        if len(self.loops) < 2:
            raise StepError("fuse takes at least two loops")
        found = [need_loop(tree, name) for name in self.loops]
        need_fresh(tree, (self.name,), gone=self.loops)
        for loop in found[1:]:
            self._check_alike(found[0], loop)
        for name in self.loops:
            if sum(loop.name == name for loop in loops(tree.body)) > 1:
                raise StepError(f"loop '{name}' is in several nests", notes=("fuse before order distributes it",))
        fused = change_first_list(tree.body, self._fuse_in)
        if fused is None:
            raise StepError(f"{', '.join(self.loops)} do not stand in one body", notes=(_places(tree, self.loops),))
        return rescope(replace(tree, body=fused), self.loops, self.name)

    def with_all_between(self, tree: Tree) -> Fuse | None:
        """The step with the loops that stand between its own, too; None where there are none in `tree`."""
        for body in (tree.body, *(loop.body for loop in loops(tree.body))):
            names = [LoopName(node.name) for node in body if isinstance(node, Loop)]
            if all(name in names for name in self.loops):
                first, *_, last = sorted(map(names.index, self.loops))
                return replace(self, loops=tuple(names[first : last + 1])) if last - first >= len(self.loops) else None
        return None

    def _check_alike(self, first: Loop, other: Loop) -> None:
        if first.extent != other.extent:
            raise StepError(
                f"'{first.name}' has {first.extent} iterations and '{other.name}' has {other.extent}",
                notes=("fuse takes loops of the same extent",),
            )
        if first.kind != other.kind:
            notes = ("put fuse before the step that binds one of them",)
            raise StepError(f"'{first.name}' is {first.kind} and '{other.name}' is {other.kind}", notes=notes)

    def _fuse_in(self, body: tuple[Node, ...]) -> tuple[Node, ...] | None:
        """`body` with the loops in it fused at the place of the last one, or None if it does not hold them."""
        members = [node for node in body if isinstance(node, Loop) and node.name in self.loops]
        if sorted(loop.name for loop in members) != sorted(self.loops):
            return None
        merged: tuple[Node, ...] = ()
        for loop in members:
            merged += substitute(loop.body, {loop.name: var(self.name)})
        fused = replace(members[-1], name=self.name, body=merged)
        kept = [fused if node is members[-1] else node for node in body if node not in members[:-1]]
        return tuple(kept)


def _places(tree: Tree, names: tuple[str, ...]) -> str:
    """Which loops are around each of those, and what would bring them together."""
    paths = {loop.name: path[:depth] for path, _ in leaves(tree.body) for depth, loop in enumerate(path)}
    around = {name: [loop.name for loop in reversed(paths[name])] for name in names}
    said = [
        f"'{name}' is in {' in '.join(outer)}" if outer else f"'{name}' is outermost" for name, outer in around.items()
    ]
    nearest = dict.fromkeys(outer[0] for outer in around.values() if outer)
    way = [f"fuse({', '.join(nearest)}) first"] if len(nearest) == len(names) else []
    return "; ".join(said + way)
