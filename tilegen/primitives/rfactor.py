"""rfactor(C, ko) -> P"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError, did_you_mean
from tilegen.ir.affine import var
from tilegen.ir.nodes import Access, Buffer, Equation, Loop, Node, Stmt, Tree, nest_of
from tilegen.ir.walk import loads, stmts
from tilegen.primitives import BufferName, LoopName, NewName, primitive
from tilegen.primitives._layout import storage_order
from tilegen.primitives._parts import in_parts
from tilegen.primitives._terms import Terms, terms_of
from tilegen.primitives._tree import need_fresh, need_loop


@primitive
class Rfactor:
    """Reduce in parts: each iteration of `loop` has a result of its own, and a new nest combines them.

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
    the loop's name for the number of the part. The terms are combined in another order than the kernel's
    text has: floating-point sums differ in their last bits. Of equal values in argmax and argmin the one
    with the lowest index still wins.
    """

    reduction: BufferName
    loop: LoopName
    layout: tuple[str, ...] | None = None
    name: NewName

    def apply(self, tree: Tree) -> Tree:
        equation = self._equation(tree)
        across = need_loop(tree, self.loop)
        need_fresh(tree, (self.name,))
        terms = terms_of(tree, equation, across)
        kernel = in_parts(tree, terms, self.name, self._order(tree, equation))
        total = next(e for e in kernel.equations if e.target == self.reduction)
        body: tuple[Node, ...] = ()
        for node in tree.body:
            body += self._in_parts((node,), terms)
            if any(s.name == self.reduction for s in stmts((node,))):
                self._alone(node)
                body += (nest_of(kernel, total),)
        new = kernel.tensors[len(tree.kernel.tensors) :]
        buffers = tuple(Buffer(t.name, t.dtype, t.shape, "global", t.order, t.role, span=t.span) for t in new)
        free = (self.name,) if self.reduction in tree.reassociated else ()
        kept = {"buffers": (*tree.buffers, *buffers), "reassociated": (*tree.reassociated, *free)}
        return replace(tree, kernel=kernel, body=body, **kept)

    def _equation(self, tree: Tree) -> Equation:
        known = {e.target: e for e in tree.kernel.equations if e.reduce}
        if self.reduction not in known:
            listed = f"its reductions are {', '.join(known)}" if known else "the kernel has none"
            notes = did_you_mean(self.reduction, list(known)) or (listed,)
            raise StepError(f"'{self.reduction}' is no reduction", notes=notes)
        return known[self.reduction]

    def _alone(self, launch: Node) -> None:
        """StepError where the launch uses what can only be complete behind it."""
        for stmt in stmts((launch,)):
            if stmt.name.removesuffix(".init") in self._old:
                continue
            if any(load.buffer in self._old for load in loads(stmt)):
                notes = ("put rfactor before the step that fuses them",)
                raise StepError(f"'{stmt.name}' uses '{self.reduction}' in the launch that reduces it", notes=notes)

    def _order(self, tree: Tree, equation: Equation) -> tuple[int, ...]:
        """The parts' storage order: one part after the other, unless there is a layout."""
        like = tree.buffer(self.reduction)
        shape = (like.shape[0], *like.shape)
        order = (0, *(d + 1 for d in like.order))
        indices = {r.name: r.index for r in equation.loops}
        words = [self.loop, *(indices.get(str(i), str(d + 1)) for d, i in enumerate(equation.index))]
        return storage_order(Buffer(self.name, like.dtype, shape, "global", order), words, self.layout)

    def _in_parts(self, body: tuple[Node, ...], terms: Terms) -> tuple[Node, ...]:
        """`body` with a result for each part; its start goes into the loop over the parts, or gets one of its own."""
        out: list[Node] = []
        start: tuple[Node, ...] = ()
        for node in body:
            names = {s.name for s in stmts((node,))}
            if names <= {f"{self.reduction}.init", f"{self.reduction}.best.init"}:
                start += self._renamed(node, terms)
                continue
            into = isinstance(node, Loop) and node.name == self.loop
            if start and not into:
                out.append(replace(terms.across, body=start))
            if isinstance(node, Loop):
                inner = self._in_parts(node.body, terms)
                out.append(replace(node, body=(*start, *inner) if into else inner))
            else:
                out += self._renamed(node, terms)
            start = ()
        return (*out, replace(terms.across, body=start)) if start else tuple(out)

    def _renamed(self, node: Node, terms: Terms) -> tuple[Node, ...]:
        if isinstance(node, Loop):
            return (replace(node, body=tuple(n for inner in node.body for n in self._renamed(inner, terms))),)
        return (self._part(node, terms) if node.name.removesuffix(".init") in self._old else node,)

    def _part(self, stmt: Stmt, terms: Terms) -> Stmt:
        """The statement for one part."""
        across = var(self.loop)
        assert stmt.instance is not None
        point, guard = (across, *stmt.instance), stmt.guard
        if stmt.reduce:
            point = (across, *terms.left, *(var(loop.name) for loop in terms.rest))
        else:
            guard += tuple(c for c in terms.guard if c not in guard)
        return replace(
            stmt,
            name=self.name + stmt.name.removeprefix(self.reduction),
            target=self._access(stmt.target),
            best=self._access(stmt.best) if stmt.best else None,
            instance=point,
            guard=guard,
        )

    def _access(self, access: Access) -> Access:
        return Access(self.name + access.buffer.removeprefix(self.reduction), (var(self.loop), *access.index))

    @property
    def _old(self) -> tuple[str, str]:
        return self.reduction, f"{self.reduction}.best"
