"""round_up(k, 16)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import var
from tilegen.ir.nodes import Equation, Loop, Range, Stmt, Tree
from tilegen.ir.parts.derived import RoundedUp
from tilegen.ir.reductions.rounded import round_up_range, with_zeros
from tilegen.ir.walk import loads, loops, rewrite, stmts
from tilegen.primitives import LoopName, primitive
from tilegen.primitives.rewriting.tree import need_loop, need_serial


@primitive("arithmetic")
class RoundUp:
    """Sum over whole tiles: the terms beyond the range are products of zeros, and no tile needs a test.

    kernel:
        kernel dot(x: f32[K], y: f32[K]) -> z: f32[1]:
            z[i] = sum[k](x[k] * y[k])
    before:
        for i < 1
          z[i] = 0
          for k < K
            z[i] += x[k] * y[k]
    steps:
        round_up(k, 16)
    after:
        for i < 1
          z[i] = 0
          for k < ((K + 15)/16)*16
            z[i] += (x[k] else 0) * (y[k] else 0)

    Reads at an index of the loop give 0 outside of their tensor, so that copies hold zeros there: those on the chip,
    or those that cache_global makes in whole tiles.
    """

    loop: LoopName
    size: int

    def apply(self, tree: Tree) -> Tree:
        loop = need_loop(tree, self.loop)
        need_serial(loop, "round_up")
        if self.size < 1:
            raise StepError(f"a tile has at least one iteration, not {self.size}")
        equation, reduced = self._reduction(tree)
        made = RoundedUp(equation.target, reduced.name, self.size)

        def change(value: object) -> object:
            if isinstance(value, Loop) and value.name == self.loop:
                return replace(value, extent=value.extent.ceildiv(self.size) * self.size)
            if isinstance(value, Stmt) and value.name == equation.target and not value.is_copy:
                return replace(value, value=with_zeros(value.value, {self.loop}))
            return value

        return replace(tree, kernel=round_up_range(tree.kernel, made), body=rewrite(tree.body, change))

    def _reduction(self, tree: Tree) -> tuple[Equation, Range]:
        """The reduction that the loop is the range of. StepError where it is not, or is more."""
        inside = [s for loop in loops(tree.body) if loop.name == self.loop for s in stmts(loop)]
        names = list(dict.fromkeys(s.name for s in inside))
        equation = next((e for e in tree.kernel.equations if names and e.target == names[0] and e.reduce), None)
        found = None
        for stmt in inside:
            if equation and stmt.instance is not None and var(self.loop) in stmt.instance:
                place = stmt.instance.index(var(self.loop)) - len(equation.loops)
                found = equation.reduced[place] if place >= 0 else None
        if equation is None or found is None:
            raise StepError(f"loop '{self.loop}' is not the range of a reduction, and round_up takes one")
        if len(names) > 1:
            notes = ("put round_up before the step that brought them together",)
            raise StepError(f"loop '{self.loop}' runs '{names[1]}' as well as '{names[0]}'", notes=notes)
        copies = {b.name for b in tree.buffers if b.role == "copy"}
        copied = next((x.buffer for x in loads(inside[0]) if x.buffer in copies), None)
        if copied:
            notes = (f"put round_up before the step that made '{copied}'",)
            raise StepError(f"'{equation.target}' reads the copy '{copied}' already", notes=notes)
        return equation, found
