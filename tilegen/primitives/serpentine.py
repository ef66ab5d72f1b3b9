"""serpentine(vi, cj, vj)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import Loop, Tree
from tilegen.ir.walk import rewrite_nodes, substitute
from tilegen.primitives import LoopName, primitive
from tilegen.primitives.rewriting.tree import need_constant, need_loop, need_serial


@primitive("execution")
class Serpentine:
    """Walk nested loops back and forth: in every second iteration of the first, the others run backwards.

    kernel:
        kernel outer(a: f32[4], b: f32[8]) -> C: f32[4, 8]:
            C[i, j] = a[i] * b[j]
    before:
        for i < 4
          for j < 8
            C[i, j] = a[i] * b[j]
    steps:
        serpentine(i, j)
    after:
        for i < 2
          for j < 8
            C[i*2, j] = a[i*2] * b[j]
          for j < 8
            C[i*2 + 1, -j + 7] = a[i*2 + 1] * b[-j + 7]

    Neighbouring multiply-adds then share an operand also at the turn of a row, which spares the register
    file a read. The first loop, of even constant extent, keeps its name and is half as long.
    """

    loops: tuple[LoopName, ...]

    def apply(self, tree: Tree) -> Tree:
        if len(self.loops) < 2:
            raise StepError("serpentine takes a loop over rows and at least one inside it")
        found = [need_loop(tree, name) for name in self.loops]
        for loop in found:
            need_serial(loop, "serpentine")
        extents = [need_constant(loop, "serpentine") for loop in found]
        outer, inner = self.loops[0], self.loops[1:]
        if extents[0] % 2:
            raise StepError(f"serpentine walks rows in pairs, and '{outer}' has {extents[0]}")
        odd: dict[str, Affine] = {outer: var(outer) * 2 + 1}
        backwards: dict[str, Affine] = {n: const(e - 1) - var(n) for n, e in zip(inner, extents[1:], strict=True)}
        met = False

        def fold(value: object) -> object:
            nonlocal met
            if not isinstance(value, Loop) or value.name != outer:
                return value
            turns = _directly_inside(value, inner)
            met = met or turns
            there = substitute(value.body, {outer: var(outer) * 2})
            # A nest of the first loop alone, a copy's for example, keeps its direction.
            back = substitute(value.body, odd | backwards if turns else odd)
            return replace(value, extent=const(extents[0] // 2), body=(*there, *back))

        folded = replace(tree, body=rewrite_nodes(tree.body, fold))
        if not met:
            raise StepError(f"{', '.join(inner)} are nowhere directly inside '{outer}'")
        return folded


def _directly_inside(loop: Loop, names: tuple[LoopName, ...]) -> bool:
    """True if `loop` holds nothing but loops of these names, one inside the other."""
    for name in names:
        if len(loop.body) != 1 or not isinstance(loop.body[0], Loop) or loop.body[0].name != name:
            return False
        loop = loop.body[0]
    return True
