"""scan(y) -> run"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import const, var
from tilegen.ir.facts.defined import conditions_on_left
from tilegen.ir.nodes import Condition, Equation, Load, Range, Tree
from tilegen.ir.parts.derived import Regrouped
from tilegen.ir.reductions.running import running_of
from tilegen.ir.walk import loop_names, substitute
from tilegen.primitives import BufferName, NewName, primitive
from tilegen.primitives.equations.prefix import Prefix, prefix_of
from tilegen.primitives.equations.regroup import fresh_names, need_nest, terms_of, with_equations
from tilegen.primitives.rewriting.tree import need_fresh


@primitive("arithmetic")
class Scan:
    """Compute all prefixes of a running reduction in one pass: one accumulator runs, and each prefix is read from it.

    kernel:
        kernel sums(x: f32[M, N]) -> y: f32[M, N]:
            y[r, i] = sum[k <= i](x[r, k])
    before:
        for r < M
          for i < N
            y[r, i] = 0
            for k < N
              y[r, i] += x[r, k]  if k <= i
    steps:
        scan(y) -> run
    after:
        for r < M
          run[r] = 0
          for i < N
            run[r] += x[r, i]
            y[r, i] = run[r]

    Without the term at `i` itself, k < i, the prefix is read before it; with k >= i or k > i the loop runs from the
    end. The loop goes in sequence, or over the lanes of a warp, which combine by shuffles once reassociate allows it;
    split_scan makes parts that run at once. `along` names a reduction of the same terms that is there already, the
    total that split_scan has made; then that is read while it runs. A reduction of all of a range is read so where that
    comes to its end: scan(count, along=run) reads the hits of a list from what its ranks are made of.

    A linear recurrence, y[i] = a[i] * (y[i - 1] else 0) + b[i], runs so, too: a lane has one factor and one term, and
    lanes combine these in their order. After a factor or an element that is not finite a check knows of nothing.
    """

    prefix: BufferName
    along: BufferName | None = None
    name: NewName | None = None

    def apply(self, tree: Tree) -> Tree:
        whole = next((e for e in tree.kernel.equations if e.target == self.prefix and e.reduce), None)
        if self.along is not None and whole is not None and running_of(whole) is None:
            return self._read_end(tree, whole, self.along)
        prefix = prefix_of(tree, self.prefix)
        old = need_nest(tree, self.prefix, "scan")
        if (self.along is None) == (self.name is None):
            notes = ("scan(y) -> run makes an accumulator, and scan(y, along=total) reads a reduction that is there",)
            raise StepError("scan takes a name for what runs, or a reduction that does", notes=notes)
        if self.along is not None:
            return self._read_total(tree, prefix, self.along)
        assert self.name is not None
        need_fresh(tree, (self.name,), gone=loop_names(replace(tree, body=(old,))))
        loops = prefix.outer or (Range(fresh_names(tree, self.prefix, old).of("o"), const(1), "o"),)
        first = replace(prefix.i, extent=prefix.extent)
        run, new, made = _running(prefix, self.name, loops, (first, *prefix.inner))
        allowed = (run.target,) if self.prefix in tree.reassociated else ()
        return with_equations(tree, "scan", made, {self.prefix: (run, new)}, allowed)

    def _read_end(self, tree: Tree, whole: Equation, name: str) -> Tree:
        """The tree that reads all that `whole` reduces from the reduction `name` of the same terms, at its end."""
        kernel, run = tree.kernel, next((e for e in tree.kernel.equations if e.target == name and e.reduce), None)
        need_nest(tree, whole.target, "scan")
        if run is None or len(run.loops) != len(whole.loops):
            raise StepError(f"'{name}' does not reduce the terms of '{self.prefix}'")
        last = run.reduced[0]
        here = {r.name: var(n.name) for r, n in zip(whole.loops, run.loops, strict=True)}
        at_end = Condition(var(last.name) - last.extent + 1, equal=True)
        new = replace(
            whole,
            index=substitute(whole.index, here),
            loops=(*run.loops, last),
            value=Load(name, run.index, whole.value.dtype),
            reduce=None,
            arg=None,
            reduced=(),
            conditions=(*substitute(conditions_on_left(whole), here), at_end),
            running=name,
            inclusive=True,
        )
        point = tuple(var(r.name) for r in run.loops)
        made = Regrouped(whole.target, point, terms_of(kernel, whole))
        return with_equations(tree, "scan", made, {whole.target: (new,), name: (run,)})

    def _read_total(self, tree: Tree, prefix: Prefix, name: str) -> Tree:
        """The tree that reads the prefixes from the reduction `name`, which has the same terms."""
        total = next((e for e in tree.kernel.equations if e.target == name and e.reduce), None)
        if total is None:
            raise StepError(f"'{name}' is no reduction", notes=("split_scan makes one, the total of each tile",))
        count = len(prefix.outer) or 1, len(prefix.equation.reduced)
        if (len(total.loops), len(total.reduced)) != count:
            raise StepError(f"'{name}' does not reduce the terms of '{self.prefix}'")
        run, new, made = _running(prefix, name, total.loops, total.reduced)
        if replace(run, conditions=()) != replace(total, conditions=()) or {*run.conditions} != {*total.conditions}:
            raise StepError(f"'{name}' does not reduce the terms of '{self.prefix}'")
        return with_equations(tree, "scan", made, {self.prefix: (new,), name: (total,)})


def _running(
    prefix: Prefix, name: str, loops: tuple[Range, ...], reduced: tuple[Range, ...]
) -> tuple[Equation, Equation, Regrouped]:
    """The reduction `name` over all terms in these loops, the prefix read from it, and how that is derived.

    A prefix that goes on to the end is read from a loop that runs from there.
    """
    whole, first = prefix.equation, var(reduced[0].name)
    place = first if prefix.forward else prefix.extent - 1 - first
    here = {old.name: var(r.name) for old, r in zip(prefix.outer, loops, strict=False)}
    here |= {old.name: var(r.name) for old, r in zip(prefix.inner, reduced[1:], strict=True)}
    index = tuple(var(r.name) for r in loops)
    run = replace(
        whole,
        target=name,
        index=index,
        loops=loops,
        value=substitute(whole.value, here | {prefix.k.name: place}),
        arg=substitute(whole.arg, here | {prefix.k.name: place}),
        reduced=reduced,
        conditions=substitute((*prefix.rows, *prefix.terms_at(place)), here),
    )
    new = replace(
        whole,
        index=substitute(whole.index, here | {prefix.i.name: place}),
        loops=(*loops, reduced[0]),
        value=Load(name, index, whole.value.dtype),
        reduce=None,
        arg=None,
        reduced=(),
        conditions=substitute(prefix.points_at(place), here),
        running=name,
        inclusive=prefix.inclusive,
    )
    term = substitute(prefix.term_at(place), here)
    return run, new, Regrouped(whole.target, substitute(prefix.point_at(place), here), ((name, term),))
