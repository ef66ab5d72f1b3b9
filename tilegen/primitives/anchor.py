"""anchor(C) -> s"""

from __future__ import annotations

from collections.abc import Mapping
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
        starts: dict[str, str] = {self.reduction: self.name}
        old: dict[str, Node] = {self.reduction: need_nest(tree, self.reduction, "anchor")}
        for name in [e.target for e in reversed(kernel.equations) if e.target not in starts]:
            if found := self._at_each_start(kernel, name, starts):
                old[name] = need_nest(tree, name, "anchor")
                kernel, starts[name] = found, f"{name}.{self.name}"
        made = {t.name: buffer_of(t) for t in kernel.tensors if t.name in old}
        nests: dict[Node, Node] = {old[e.target]: nest_of(kernel, e) for e in kernel.equations if e.target in old}
        buffers = tuple(made.get(b.name, b) for b in tree.buffers)
        return replace(tree, kernel=kernel, buffers=buffers, body=tuple(nests.get(node, node) for node in tree.body))

    def _at_each_start(self, kernel: Kernel, name: str, starts: Mapping[str, str]) -> Kernel | None:
        """The kernel in which an intermediate tensor has a value for each start; None where it is read elsewhere, or
        no index of it is the place of its readers. `starts` are their loops over starts, by what they define."""
        tensor, loop = kernel.tensor(name), f"{name}.{self.name}"
        whole = next(e for e in kernel.equations if e.target == name)
        readers = [(e, load) for e in kernel.equations for load in loads(e.value) if load.buffer == name]
        behind = {
            _place_behind(e, load, whole, starts[e.target], loop) if e.target in starts else None for e, load in readers
        }
        if tensor.role != "intermediate" or len(behind) != 1 or None in behind:
            return None
        extent = _extent(readers[0][0], starts)
        new = replace(
            whole,
            index=(var(loop), *whole.index),
            loops=(Range(loop, extent, self.name), *whole.loops),
            conditions=(*whole.conditions, *(Condition(value) for value in behind if value is not None)),
        )
        order = (0, *(d + 1 for d in tensor.order))
        changed = replace(tensor, shape=(extent, *tensor.shape), order=order)

        def reading(equation: Equation) -> Equation:
            def change(value: object) -> object:
                if isinstance(value, Load) and value.buffer == name:
                    return replace(value, index=(var(starts[equation.target]), *value.index))
                return value

            return new if equation is whole else rewrite(equation, change)

        return replace(
            kernel,
            tensors=tuple(changed if t is tensor else t for t in kernel.tensors),
            equations=tuple(map(reading, kernel.equations)),
            origin=kernel,
            derived=ComputedAt(name, tuple(var(r.name) for r in whole.loops)),
        )


def _place_behind(reader: Equation, read: Load, whole: Equation, start: str, loop: str) -> Affine | None:
    """What is not negative where a reader's place is not in front of its start, in the loops of what it reads."""
    there = {str(index): own for index, own in zip(read.index, whole.index, strict=True)} | {start: var(loop)}
    behind = reader.conditions[-1].value
    return behind.substitute(there) if behind.names() <= there.keys() else None


def _extent(reader: Equation, starts: Mapping[str, str]) -> Affine:
    """How many starts there may be."""
    return next(r.extent for r in (*reader.loops, *reader.reduced) if r.name == starts[reader.target])
