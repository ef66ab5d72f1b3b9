"""rank(count) -> place"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.derived import Ranked
from tilegen.ir.nodes import Buffer, Node, Tree
from tilegen.ir.ranked import MOST_LOOPS, ranked
from tilegen.ir.walk import loop_names
from tilegen.ir.written import nest_of
from tilegen.primitives import BufferName, NewName, primitive
from tilegen.primitives._regroup import need_nest
from tilegen.primitives._terms import need_reduction
from tilegen.primitives._tree import need_fresh


@primitive("arithmetic")
class Rank:
    """Store each hit of a list at its rank, the number of hits up to it, which is a running sum.

    kernel:
        kernel kept(X: f32[N]) -> Y: f32[C], count: i32[1]:
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
              rank[rank.o, rank.i] += (1 if X[rank.ki] > 0 else 0)  if rank.ki <= rank.i
        for count.o < 1
          count[count.o] = 0
          for count.i < N
            count[count.o] += (1 if X[count.i] > 0 else 0)
        for o < 1
          for i < N
            Y[rank[o, i] - 1] = X[i] if X[i] > 0

    Then hits go to their places at once, in the order of the loops. What is left is a running sum and a sum: scan and
    split_scan make the one, in one pass with look_back, and scan(count, along=...) reads the other from it. A list over
    two loops takes names for three: rank(count) -> rank, local, ahead has the hits in the same row up to each in
    `local`, and those of the rows before in `ahead`.
    """

    count: BufferName
    name: NewName
    local: NewName | None = None
    ahead: NewName | None = None

    def apply(self, tree: Tree) -> Tree:
        whole = need_reduction(tree, self.count)
        if whole.hits is None:
            raise StepError(f"'{self.count}' counts no hits of a list", notes=("rank stores those at their ranks",))
        old = need_nest(tree, whole, "rank")
        names = tuple(filter(None, (self.name, self.local, self.ahead)))
        depth = len(whole.reduced)
        if depth > MOST_LOOPS:
            raise StepError(f"a list over {depth} loops has no ranks", notes=(f"they are those of {MOST_LOOPS} at most",))
        if len(names) != 2 * depth - 1:
            notes = ("of one loop it has a name, of two it has three: rank(count) -> rank, local, ahead",)
            raise StepError(f"this list is over {depth} loop{'s' * (depth > 1)}, and rank names {len(names)}", notes=notes)
        need_fresh(tree, names, gone=loop_names(replace(tree, body=(old,))))
        kernel = ranked(tree.kernel, Ranked(self.count, names))
        made = kernel.equations[tree.kernel.equations.index(whole) :][: len(names) + 2]
        body: tuple[Node, ...] = ()
        for node in tree.body:
            body += tuple(nest_of(kernel, e) for e in made) if node == old else (node,)
        new = tuple(Buffer(t.name, t.dtype, t.shape, "global", t.order, t.role, span=t.span)
                    for t in kernel.tensors[len(tree.kernel.tensors) :])  # fmt: skip
        sums = tuple(e.target for e in made if e.reduce)
        free = tuple(dict.fromkeys((*tree.reassociated, *sums)))
        return replace(tree, kernel=kernel, body=body, buffers=(*tree.buffers, *new), reassociated=free)
