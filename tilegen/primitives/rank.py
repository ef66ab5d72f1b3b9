"""rank(count) -> place"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.nodes import Tree
from tilegen.ir.parts.derived import Ranked
from tilegen.ir.printing.shown import counted
from tilegen.ir.reductions.ranked import MOST_LOOPS, ranks
from tilegen.ir.walk import loop_names
from tilegen.primitives import BufferName, NewName, primitive
from tilegen.primitives.equations.regroup import need_nest, with_equations
from tilegen.primitives.equations.terms import need_reduction
from tilegen.primitives.rewriting.tree import need_fresh


@primitive("arithmetic")
class Rank:
    """Store each hit of a list at its rank, the number of hits before it, which is a running sum.

    kernel:
        kernel kept(X: i32[N]) -> Y: i32[C], count: i32[1]:
            Y[count[o]] = list[i](X[i] if X[i] > 0)
    before:
        for o < 1
          count[o] = 0
          for i < N
            list Y[count[o]] = X[i] if X[i] > 0
    steps:
        rank(count) -> rank
    after:
        for rank.o < 1
          for rank.i < N
            rank[rank.o, rank.i] = 0
            for rank.ki < N
              rank[rank.o, rank.i] += select(X[rank.ki] > 0, 1, 0)  if rank.ki < rank.i
        for count.o < 1
          count[count.o] = 0
          for count.i < N
            count[count.o] += select(X[count.i] > 0, 1, 0)
        for o < 1
          for i < N
            Y[rank[o, i]] = X[i] if X[i] > 0

    Then hits go to their places at once, in the order of the loops. What is left is a running sum and a sum: scan and
    split_scan make the one, in one pass with look_back, and scan(count, along=...) reads the other from it. A list over
    two loops takes names for three: rank(count) -> rank, local, ahead has the hits before each in the same row in
    `local`, and those of earlier rows in `ahead`.
    """

    count: BufferName
    name: NewName
    local: NewName | None = None
    ahead: NewName | None = None

    def apply(self, tree: Tree) -> Tree:
        whole = need_reduction(tree, self.count)
        if whole.hits is None:
            raise StepError(f"'{self.count}' counts no hits of a list", notes=("rank stores those at their ranks",))
        old = need_nest(tree, whole.target, "rank")
        names = tuple(filter(None, (self.name, self.local, self.ahead)))
        depth = len(whole.reduced)
        if depth > MOST_LOOPS:
            notes = (f"the ranks of a list over {MOST_LOOPS} loops at most are known",)
            raise StepError(f"the list of '{self.count}' is over {depth} loops", notes=notes)
        if len(names) != 2 * depth - 1:
            notes = ("over one loop it has one, over two it has three: rank(count) -> rank, local, ahead",)
            raise StepError(
                f"the ranks of a list over {counted(whole.reduced, 'loop')} have another number of names", notes=notes
            )
        need_fresh(tree, names, gone=loop_names(replace(tree, body=(old,))))
        made = Ranked(self.count, names)
        equations = ranks(tree.kernel, made)
        sums = (e.target for e in equations if e.reduce)
        return with_equations(tree, "rank", made, {self.count: equations}, sums)
