"""rfactor(C, ko) -> P"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.nodes import Buffer, Equation, Loop, Node, Tree
from tilegen.ir.walk import loads, stmts
from tilegen.ir.written import nest_of
from tilegen.primitives import BufferName, LoopName, NewName, primitive
from tilegen.primitives._layout import storage_order
from tilegen.primitives._partial import Partial
from tilegen.primitives._parts import split_reduction
from tilegen.primitives._terms import need_reduction, terms_of
from tilegen.primitives._tree import need_fresh, need_loop


@primitive("arithmetic")
class Rfactor:
    """Reduce in parts: each iteration of the loops has a result of its own, and a new nest combines them.

    kernel:
        kernel dot(x: f32[K], y: f32[K, N]) -> z: f32[N]:
            z[i] = sum[k](x[k] * y[k, i])
    before:
        for i < N
          z[i] = 0
          for kp < (K + 1023)/1024
            for ki < 1024
              z[i] += x[kp*1024 + ki] * y[kp*1024 + ki, i]  if kp*1024 + ki < K
    steps:
        tile(k, 1024) -> kp, ki
        rfactor(z, kp) -> part
    after:
        for i < N
          for kp < (K + 1023)/1024
            part[kp, i] = 0
            for ki < 1024
              part[kp, i] += x[kp*1024 + ki] * y[kp*1024 + ki, i]  if kp*1024 + ki < K
        for z.i < N
          z[z.i] = 0
          for z.kp < (K + 1023)/1024
            z[z.i] += part[z.kp, z.i]

    The parts are an intermediate tensor like any other: they can be kept in registers or shared memory, in
    one launch with what combines them, or go through global memory. `layout` is their storage order, with
    the loops' names for the number of the part; several loops are given as a list. The terms are combined
    in another order than the kernel's text has: floating-point sums differ in their last bits. Of equal
    values in argmax and argmin the one with the lowest index still wins.
    """

    reduction: BufferName
    loops: LoopName | tuple[LoopName, ...]
    layout: tuple[str, ...] | None = None
    name: NewName

    def apply(self, tree: Tree) -> Tree:
        equation = need_reduction(tree, self.reduction)
        names = (self.loops,) if isinstance(self.loops, str) else self.loops
        across = tuple(need_loop(tree, name) for name in names)
        need_fresh(tree, (self.name,))
        terms = terms_of(tree, equation, across)
        kernel = split_reduction(tree, terms, self.name, self._order(tree, equation, across))
        total = next(e for e in kernel.equations if e.target == self.reduction)
        body: tuple[Node, ...] = ()
        for node in tree.body:
            body += Partial(terms, self.name).nodes((node,))
            if any(s.name == self.reduction for s in stmts((node,))):
                self._check_alone(node)
                body += (nest_of(kernel, total),)
        new = kernel.tensors[len(tree.kernel.tensors) :]
        buffers = tuple(Buffer(t.name, t.dtype, t.shape, "global", t.order, t.role, span=t.span) for t in new)
        free = (self.name,) if self.reduction in tree.reassociated else ()
        buffers, free = (*tree.buffers, *buffers), (*tree.reassociated, *free)
        return replace(tree, kernel=kernel, body=body, buffers=buffers, reassociated=free)

    def _check_alone(self, launch: Node) -> None:
        """StepError where the launch uses what can only be complete behind it."""
        for stmt in stmts((launch,)):
            if stmt.name.removesuffix(".init") in (self.reduction, f"{self.reduction}.best"):
                continue
            if any(load.buffer in (self.reduction, f"{self.reduction}.best") for load in loads(stmt)):
                notes = ("put rfactor before the step that fuses them",)
                raise StepError(f"'{stmt.name}' uses '{self.reduction}' in the launch that reduces it", notes=notes)

    def _order(self, tree: Tree, equation: Equation, across: tuple[Loop, ...]) -> tuple[int, ...]:
        """The parts' storage order: one part after the other, unless there is a layout."""
        like, count = tree.buffer(self.reduction), len(across)
        shape = (*(loop.extent for loop in across), *like.shape)
        order = (*range(count), *(d + count for d in like.order))
        indices = {r.name: r.index for r in equation.loops}
        words = [loop.name for loop in across]
        words += [indices.get(str(i), str(d + count)) for d, i in enumerate(equation.index)]
        return storage_order(Buffer(self.name, like.dtype, shape, "global", order), words, self.layout)
