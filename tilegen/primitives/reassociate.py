"""reassociate(C), reassociate(m, s)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError, did_you_mean
from tilegen.ir.nodes import Load, Tree
from tilegen.ir.reductions.linear import running_form
from tilegen.primitives import BufferName, primitive


@primitive("arithmetic")
class Reassociate:
    """Allow the terms of reductions to be combined in any order from here on.

    kernel:
        kernel total(X: f32[N, K, R]) -> y: f32[N]:
            y[i] = sum[k, r](X[i, k, r])
    before:
        for i < N
          y[i] = 0
          for k < K
            for r < R
              y[i] += X[i, k, r]
    steps:
        reassociate(y)
    after:
        for i < N
          y[i] = 0
          for k < K
            for r < R
              y[i] += X[i, k, r]

    Floating-point sums then differ in their last bits from the order of the kernel's text, and steps
    that change the order of the terms are accepted. argmax and argmin keep their order, since the first of equals
    wins; what combines parts of them, which rfactor made, does not need it. Of a linear recurrence, which scan makes a
    reduction of, the steps keep their order, and may be taken together in groups.
    """

    reductions: tuple[BufferName, ...]

    def apply(self, tree: Tree) -> Tree:
        for name in self.reductions:
            self._check(tree, name)
        return replace(tree, reassociated=tuple(dict.fromkeys((*tree.reassociated, *self.reductions))))

    def _check(self, tree: Tree, reduction: str) -> None:
        kernel = tree.kernel
        others = [e for e in kernel.equations if e.reduce and not e.hits or running_form(e)]
        known = [e.target for e in others if not e.best or isinstance(e.arg, Load)]
        if any(e.target == reduction and e.best for e in kernel.equations) and reduction not in known:
            raise StepError(
                f"'{reduction}' keeps its order: of equal values the first one wins",
                notes=(f"rfactor({reduction}, ...) divides it, and what combines its parts can go in any order",),
            )
        if reduction not in known:
            none = "the kernel has no such reduction"
            notes = did_you_mean(reduction, known, "its reductions are", none)
            raise StepError(f"'{reduction}' is no reduction whose order could change", notes=notes)
