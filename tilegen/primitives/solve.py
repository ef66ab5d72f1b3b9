"""solve(rp)"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import gcd

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, Div, Mod
from tilegen.ir.facts.ranges import interval_of, simplify
from tilegen.ir.nodes import Condition, Loop, Stmt, Tree
from tilegen.ir.walk import add_guard, constant_extents, rewrite, rewrite_indices, rewrite_nodes, stmts, substitute
from tilegen.primitives import LoopName, primitive
from tilegen.primitives.rewriting.tree import need_loop, need_serial

_MET = Condition(Affine(), equal=True)


@primitive("loops")
class Solve:
    """Run only the iteration of a loop that an equation in its guards leaves, such as a residue.

    kernel:
        kernel spread(X: f32[N], W: f32[2]) -> Y: f32[2*N]:
            Y[y] = sum[r](X[(y - r)/2] * W[r]) for (y - r) % 2 == 0
    before:
        for y < N
          for p < 2
            Y[y*2 + p] = 0
            for r < 2
              Y[y*2 + p] += X[-r + y + (p + r)/2] * W[r]  if (p + r)%2 == 0
    steps:
        tile(y, 2) -> y, p
        solve(r)
    after:
        for y < N
          for p < 2
            Y[y*2 + p] = 0
            Y[y*2 + p] += X[y] * W[p]

    The equation is a remainder that is a number, or a sum with the loop itself that is 0. What it speaks of beside the
    loop may be any loops around or inside of it. A remainder leaves one iteration where the loop has no more
    iterations than there are remainders: `tile` splits a longer one.
    """

    loop: LoopName

    def apply(self, tree: Tree) -> Tree:
        need_serial(need_loop(tree, self.loop), "solve")
        living = [b.name for b in tree.buffers if b.scope == self.loop]
        if living:
            notes = (f"put solve before the step that makes '{living[0]}'",)
            raise StepError(f"'{living[0]}' lives in an iteration of '{self.loop}'", notes=notes)
        extents = constant_extents(tree.body)

        def run_once(value: object) -> object:
            return self._solved(value, extents) if isinstance(value, Loop) and value.name == self.loop else value

        return replace(tree, body=rewrite(tree.body, run_once))

    def _solved(self, loop: Loop, extents: Mapping[str, int]) -> object:
        guards = [stmt.guard for stmt in stmts(loop)]
        common = [c for c in guards[0] if c.equal and all(c in guard for guard in guards)]
        found = [place for c in common if (place := _solution(c.value, loop, extents)) is not None]
        if not found:
            notes = ("a reduction has one by 'for (y - r) % 2 == 0' after its equation",)
            raise StepError(f"no equation in all guards leaves one iteration of '{loop.name}'", notes=notes)
        place = found[0]
        body = substitute(loop.body, {loop.name: place})
        for room in (place, loop.extent - 1 - place):
            ends = interval_of(room, extents)
            if ends is None or ends[0] < 0:
                body = add_guard(body, Condition(room))
        return rewrite_nodes(
            rewrite_indices(body, lambda index: _with_remainders(simplify(index, extents))),
            lambda v: replace(v, guard=tuple(c for c in v.guard if c != _MET)) if isinstance(v, Stmt) else v,
        )


def _solution(value: Affine, loop: Loop, extents: Mapping[str, int]) -> Affine | None:
    """The one iteration in which `value` is 0; None where it does not tell one."""
    factor = value.coefficient(loop.name)
    if abs(factor) == 1 and value.linear_in(loop.name):
        return (value - Affine(((loop.name, factor),))) * -factor
    match value:
        case Affine(((Mod(arg, by), 1),), less) if -by < less <= 0 and arg.linear_in(loop.name):
            factor = arg.coefficient(loop.name)
            rest = arg - Affine(((loop.name, factor),)) + less
            if gcd(factor, by) != 1 or not loop.extent.is_const or loop.extent.const > by:
                return None
            other = simplify(rest * (-pow(factor, -1, by) % by), extents)
            return simplify(other - (other // by) * by, extents)
        case _:
            return None


def _with_remainders(index: Affine) -> Affine:
    """`index` with x - (x/8)*8 as x%8."""
    for atom, factor in index.terms:
        if isinstance(atom, Div) and factor % atom.by == 0:
            count = -factor // atom.by
            rest = index - Affine(((atom, factor),)) - atom.arg * count
            if len(rest.terms) < len(index.terms) - 1:
                return _with_remainders(rest + atom.arg % atom.by * count)
    return index
