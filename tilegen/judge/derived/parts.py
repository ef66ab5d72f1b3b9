"""A reduction in parts combines the same terms as the undivided one: each of them, and each once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilegen.ir.affine import var
from tilegen.ir.nodes import REDUCTIONS, Equation, Expr, Kernel, Load, Range, Stmt, Tree
from tilegen.ir.parts.derived import Split
from tilegen.ir.walk import rewrite, substitute
from tilegen.ir.written import nest_of
from tilegen.judge.coverage import check_instances
from tilegen.poly.instances import Placed, Projection, project
from tilegen.poly.rows import rename
from tilegen.poly.system import equal_rows
from tilegen.poly.verdict import Refused, counterexample


def check_split(kernel: Kernel, origin: Kernel, split: Split) -> None:
    """Refused where the reduction that `kernel` has in parts is not the one of `origin`, which it was derived from.

    The equations have to be those of the undivided reduction, at the terms that the split names; which terms
    these are is asked of isl: every one of the origin's is in one part, at one place.
    """
    whole = equation_of(origin, split.target)
    part, total = equation_of(kernel, split.parts), equation_of(kernel, split.target)
    check_rest(kernel, origin, whole, (part, total), "in parts")
    terms = {r.name: value for r, value in zip((*whole.loops, *whole.reduced), split.point, strict=True)}
    what = f"the parts '{part.target}' of '{whole.target}'"
    loops = _across_first(part, total)
    alike = (
        whole.reduce in REDUCTIONS
        and part.reduce == total.reduce == whole.reduce
        and all(e.running is None and e.hits is None for e in (whole, part, total))
        and bool(part.reduced)
        and bool(total.reduced)
        and [r.extent for r in loops] == [r.extent for r in (*total.reduced, *whole.loops)]
        and [r.extent for r in total.loops] == [r.extent for r in whole.loops]
        and split.point[: len(whole.loops)] == tuple(var(r.name) for r in loops[len(total.reduced) :])
    )
    if not alike:
        raise Refused(f"{what} do not reduce what '{whole.target}' reduces")
    if (part.value, part.arg, part.first) != substitute((whole.value, whole.arg, whole.first), terms):
        raise Refused(f"{what} have other terms than '{whole.target}'")
    _check_combined(whole, part, total)
    _check_terms(origin, kernel, split, part)


def _across_first(part: Equation, total: Equation) -> tuple[Range, ...]:
    """The loops of `part`, those that number the parts first: a recurrence goes along others outside of them."""
    first, count = part.carried, len(total.reduced)
    return (*part.loops[first : first + count], *part.loops[:first], *part.loops[first + count :])


def equation_of(kernel: Kernel, target: str) -> Equation:
    """The one equation of `target`. Refused where there is none."""
    found = [e for e in kernel.equations if e.target == target]
    if len(found) != 1:
        raise Refused(f"kernel '{kernel.name}' has no equation of '{target}'")
    return found[0]


def check_rest(kernel: Kernel, origin: Kernel, whole: Equation, new: Sequence[Equation], made: str) -> None:
    """Refused where the kernels differ in more than `new`: what stands for `whole`, last, and what it is made of.

    Args:
        made: what has been done to `whole`.
    """
    end = kernel.equations.index(new[-1]) + 1
    start = end - len(new)
    added = {name for e in new[:-1] for name in (e.target, e.best) if name}
    equations = (*kernel.equations[:start], whole, *kernel.equations[end:])
    tensors = tuple(t for t in kernel.tensors if t.name not in added)
    undone = replace(kernel, tensors=tensors, equations=equations, origin=origin.origin, derived=origin.derived)
    inner = all(t.role == "intermediate" for t in kernel.tensors if t.name in added)
    if undone != origin or not inner or kernel.equations[start:end] != tuple(new):
        raise Refused(f"kernel '{kernel.name}' has more than '{whole.target}' {made}")


def _check_combined(whole: Equation, part: Equation, total: Equation) -> None:
    """Refused unless `total` combines, for each element, all the parts that there are of it."""
    pairs = zip(_across_first(part, total), (*total.reduced, *total.loops), strict=True)
    here = {old.name: var(new.name) for old, new in pairs}
    across = tuple(var(r.name) for r in total.reduced)
    left = {old.name: var(new.name) for old, new in zip(whole.loops, total.loops, strict=True)}
    place = substitute(part.index, here)
    value, arg = (part.best or part.target), (Load(part.target, place, "") if part.best else None)
    inner, summed = {r.name for r in part.reduced}, {r.name for r in whole.reduced}
    exist = {substitute(c, here) for c in part.conditions if c.value.names().isdisjoint(inner)}
    start = {substitute(c, left) for c in whole.conditions if c.value.names().isdisjoint(summed)}
    alike = (
        place == (*across, *substitute(whole.index, left))
        and total.index == substitute(whole.index, left)
        and _without_dtype(total.value) == Load(value, place, "")
        and _without_dtype(total.arg) == arg
        and total.first == substitute(whole.first, left)
        and total.best == whole.best
        and set(total.conditions) == exist
        and {c for c in exist if c.value.names().isdisjoint(r.name for r in total.reduced)} == start
    )
    if not alike:
        raise Refused(f"'{whole.target}' does not combine its parts '{part.target}'")


def _without_dtype(value: Expr | None) -> Expr | None:
    """A load without what its type is: the tensor says that."""
    return rewrite(value, lambda v: replace(v, dtype="") if isinstance(v, Load) else v) if value else None


def _check_terms(origin: Kernel, kernel: Kernel, split: Split, part: Equation) -> None:
    """Refused unless the terms of the parts are the origin's, one for one; of an arg reduction in its order."""

    def join_parts(value: object) -> object:
        if isinstance(value, Stmt) and value.name == split.parts:
            return replace(value, name=split.target, instance=split.point)
        return () if isinstance(value, Stmt) else value

    program = project(Tree(origin, (), (rewrite(nest_of(kernel, part), join_parts),)))
    check_instances(program, split.target)
    if part.arg is not None and not isinstance(part.arg, Load):
        _check_first(program, program.leaves[0], len(part.loops), len(equation_of(origin, split.target).reduced))


def _check_first(program: Projection, placed: Placed, outside: int, reduced: int) -> None:
    """Refused where a part meets a term of a higher index before one of a lower: the first of equals has to win.

    Of several indices, the last ones `reduced` of a point, the first that differs tells which term is higher.
    """
    leaf = placed.leaf
    for depth in range(outside, len(leaf.names)):
        shared = frozenset(leaf.names[:depth])
        names, loop = leaf.primed_names(shared), leaf.names[depth]
        rows = (*program.original.context, *leaf.domain, *rename(leaf.domain, names))
        rows += ((False, ((f"{loop}'", 1), (loop, -1)), -1),)
        for place in range(len(leaf.point) - reduced, len(leaf.point)):
            earlier = leaf.point[len(leaf.point) - reduced : place]
            alike = equal_rows(earlier, [f.rename(names) for f in earlier])
            higher = leaf.point[place].minus(leaf.point[place].rename(names), 1).nonnegative()
            if words := counterexample(program.original, (*rows, *alike, *higher), leaf.names, shared):
                raise Refused(
                    f"a part of '{leaf.stmt.name}' meets a higher index before a lower one, "
                    "and the first of equals wins",
                    f"{words.instance(leaf)} comes before {words.instance(leaf, True)}{words.sizes}",
                )
