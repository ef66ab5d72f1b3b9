"""anchor(C) -> s"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, var
from tilegen.ir.nodes import Condition, Equation, Kernel, Load, Node, Range, Tree
from tilegen.ir.parts.derived import Anchored, ComputedAt
from tilegen.ir.reductions.anchored import anchored
from tilegen.ir.walk import loads, rewrite
from tilegen.ir.written import buffer_of, nest_of
from tilegen.primitives import BufferName, NewName, primitive
from tilegen.primitives.equations.regroup import need_nest
from tilegen.primitives.equations.terms import need_reduction
from tilegen.primitives.rewriting.tree import need_fresh


@primitive("loops")
class Anchor:
    """Run over all places where a row of data may begin: the data pick one, from which tiles of the row can count.

    kernel:
        kernel scaled(X: f32[N], w: f32[G], start: i32[G + 1]) -> Y: f32[N] where rising(start, N):
            Y[i] = X[i] * w[g] for i in start[g]..start[g + 1]
    before:
        for i < N
          for g < G
            Y[i] = X[i] * w[g]  if i >= start[g] and i < start[g + 1]
    steps:
        anchor(Y) -> s
    after:
        for i < N
          for s < N + 1
            for g < G
              Y[i] = X[i] * w[g]  if s >= start[g] and s <= start[g] and i < start[g + 1] and s <= i

    With `order(g, s, i)` and `shift(i, s) -> r`, tiles of `r` begin where rows do; in the text `s = start[g]`, and
    nothing runs in other iterations. Intermediate tensors that are read at such a place are computed for each start:
    they get a dimension more, and a loop `P.s`. A deal of these loops goes from row to row, by the tiles that each has.
    """

    reduction: BufferName
    name: NewName

    def apply(self, tree: Tree) -> Tree:
        need_reduction(tree, self.reduction)
        need_fresh(tree, (self.name,))
        kernel = anchored(tree.kernel, Anchored(self.reduction, self.name))
        if kernel is None:
            notes = ("it takes what is said of a row of the parameters: C[i] = ... for i in start[g]..start[g + 1]",)
            raise StepError(f"the terms of '{self.reduction}' begin at no row's start", notes=notes)
        old: dict[str, Node] = {self.reduction: need_nest(tree, self.reduction, "anchor")}
        new = next(e for e in kernel.equations if e.target == self.reduction)
        todo: list[tuple[Equation, str]] = [(new, self.name)]
        while todo:
            reader, start = todo.pop()
            for load in loads(reader.value):
                name = load.buffer
                if name not in old and kernel.tensor(name).role == "intermediate":
                    found = self._at_each_start(kernel, reader, start, load)
                    if found:
                        old[name] = need_nest(tree, name, "anchor")
                        kernel, equation = found
                        todo.append((equation, equation.loops[0].name))
        made = {t.name: buffer_of(t) for t in kernel.tensors if t.name in old}
        nests: dict[Node, Node] = {old[e.target]: nest_of(kernel, e) for e in kernel.equations if e.target in old}
        buffers = tuple(made.get(b.name, b) for b in tree.buffers)
        return replace(tree, kernel=kernel, buffers=buffers, body=tuple(nests.get(node, node) for node in tree.body))

    def _at_each_start(
        self, kernel: Kernel, reader: Equation, start: str, read: Load
    ) -> tuple[Kernel, Equation] | None:
        """(the kernel in which the tensor read has a value for each start, its equation); None where no index of it is
        the reader's place, which is not in front of `start`."""
        (whole,) = (e for e in kernel.equations if e.target == read.buffer)
        tensor, loop = kernel.tensor(read.buffer), f"{read.buffer}.{self.name}"
        there = {str(index): own for index, own in zip(read.index, whole.index, strict=True)} | {start: var(loop)}
        behind = reader.conditions[-1].value
        if not behind.names() <= there.keys():
            return None
        first = Range(loop, self._extent(reader, start), self.name)
        new = replace(
            whole,
            index=(var(loop), *whole.index),
            loops=(first, *whole.loops),
            conditions=(*whole.conditions, Condition(behind.substitute(there))),
        )
        order = (0, *(d + 1 for d in tensor.order))
        tensors = replace(tensor, shape=(first.extent, *tensor.shape), order=order)

        def change(value: object) -> object:
            if isinstance(value, Load) and value.buffer == read.buffer:
                return replace(value, index=(var(start), *value.index))
            return value

        equations = {whole.target: new, reader.target: rewrite(reader, change)}
        return (
            replace(
                kernel,
                tensors=tuple(tensors if t is tensor else t for t in kernel.tensors),
                equations=tuple(equations.get(e.target, e) for e in kernel.equations),
                origin=kernel,
                derived=ComputedAt(read.buffer, tuple(var(r.name) for r in whole.loops)),
            ),
            new,
        )

    def _extent(self, reader: Equation, start: str) -> Affine:
        return next(r.extent for r in (*reader.loops, *reader.reduced) if r.name == start)
