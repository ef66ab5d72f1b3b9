"""rfactor(C, ko) -> P"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.nodes import Buffer, Equation, Kernel, Loop, Node, Stmt, Tree
from tilegen.ir.walk import leaves, loads, rewrite, stmts
from tilegen.ir.written import buffer_of, nest_of
from tilegen.primitives import BufferName, LoopName, NewName, primitive
from tilegen.primitives.equations.partial import Partial, nest_at
from tilegen.primitives.equations.parts import split_reduction
from tilegen.primitives.equations.terms import Terms, need_reduction, terms_of
from tilegen.primitives.rewriting.layout import storage_order
from tilegen.primitives.rewriting.tree import need_fresh, need_loop


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
    values in argmax and argmin the one with the lowest index still wins. With `at`, each iteration of that
    loop combines its own parts, after what computes them; what uses the result there follows.
    """

    reduction: BufferName
    loops: LoopName | tuple[LoopName, ...]
    layout: tuple[str, ...] | None = None
    at: LoopName | None = None
    name: NewName

    def apply(self, tree: Tree) -> Tree:
        equation = need_reduction(tree, self.reduction)
        names = (self.loops,) if isinstance(self.loops, str) else self.loops
        across = tuple(need_loop(tree, name) for name in names)
        need_fresh(tree, (self.name,))
        terms = terms_of(tree, equation, across)
        kernel = split_reduction(tree, terms, self.name, self._order(tree, equation, across))
        parts = Partial(terms, self.name)
        body = self._combine(tree, kernel, terms, tuple(new for node in tree.body for new in parts.nodes((node,))))
        buffers = (*tree.buffers, *map(buffer_of, kernel.tensors[len(tree.kernel.tensors) :]))
        allowed = (self.name,) if self.reduction in tree.reassociated else ()
        return replace(tree, kernel=kernel, body=body, buffers=buffers, reassociated=(*tree.reassociated, *allowed))

    def _combine(self, tree: Tree, kernel: Kernel, terms: Terms, body: tuple[Node, ...]) -> tuple[Node, ...]:
        """`body`, which computes the parts, with the nest that combines them: in `at`, or a launch of its own."""
        total = next(e for e in kernel.equations if e.target == self.reduction)
        whole, at = nest_of(kernel, total), self.at
        if at is None:
            place = next(n for n, node in enumerate(body) if self._has_parts(node))
            if stmt := self._user(body[place]):
                notes = ("put rfactor before the step that fuses them, or name the loop to combine in: at=...",)
                raise StepError(f"'{stmt.name}' uses '{self.reduction}' in the launch that reduces it", notes=notes)
            return (*body[: place + 1], whole, *body[place + 1 :])
        need_loop(tree, at)
        path, stmt = next((p, s) for p, s in leaves(tree.body) if s.name == self.reduction)
        names = [loop.name for loop in path]
        inside = path[names.index(at) + 1 :] if at in names else ()
        within = {loop.name for loop in inside}
        outside = next((loop.name for loop in terms.across if loop.name not in within), None)
        if outside:
            notes = (f"the loops around '{self.reduction}' are {', '.join(names)}, outermost first",)
            raise StepError(f"loop '{outside}' is not inside '{at}'", notes=notes)
        nest = nest_at(whole, total, terms, stmt, inside)

        def enter(value: object) -> object:
            if isinstance(value, Loop) and value.name == at and self._has_parts(value):
                place = next(n for n, child in enumerate(value.body) if self._has_parts(child))
                head, tail = self._divide(value.body[place])
                return replace(value, body=(*value.body[:place], head, *nest, *tail, *value.body[place + 1 :]))
            return value

        return rewrite(body, enter)

    def _has_parts(self, node: Node) -> bool:
        return any(stmt.name == self.name for stmt in stmts((node,)))

    def _user(self, node: Node) -> Stmt | None:
        """What uses the result in `node`."""
        results = (self.reduction, f"{self.reduction}.best")
        return next((s for s in stmts((node,)) if any(load.buffer in results for load in loads(s))), None)

    def _divide(self, node: Node) -> tuple[Node, tuple[Node, ...]]:
        """`node` as far as it computes the parts, and what follows: all of it that uses the result."""
        if not isinstance(node, Loop) or self._user(node) is None:
            return node, ()
        place = next(n for n, child in enumerate(node.body) if self._has_parts(child))
        head, tail = self._divide(node.body[place])
        tail = (*tail, *node.body[place + 1 :])
        return replace(node, body=(*node.body[:place], head)), (replace(node, body=tail),) if tail else ()

    def _order(self, tree: Tree, equation: Equation, across: tuple[Loop, ...]) -> tuple[int, ...]:
        """The parts' storage order: one part after the other, unless there is a layout."""
        like, count = tree.buffer(self.reduction), len(across)
        shape = (*(loop.extent for loop in across), *like.shape)
        order = (*range(count), *(d + count for d in like.order))
        indices = {r.name: r.index for r in equation.loops}
        words = [loop.name for loop in across]
        words += [indices.get(str(i), str(d + count)) for d, i in enumerate(equation.index)]
        return storage_order(Buffer(self.name, like.dtype, shape, "global", order), words, self.layout)
