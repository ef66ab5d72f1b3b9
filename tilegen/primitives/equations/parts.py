"""The kernel of a reduction in parts."""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.affine import Affine, var
from tilegen.ir.facts.ranges import interval_of
from tilegen.ir.nodes import Condition, Equation, Kernel, Load, Range, Tensor, Tree
from tilegen.ir.parts.derived import Split
from tilegen.ir.walk import loop_names, substitute
from tilegen.primitives.equations.terms import Terms
from tilegen.primitives.rewriting.names import Names, word_of


def split_reduction(tree: Tree, terms: Terms, name: str, order: tuple[int, ...]) -> Kernel:
    """The kernel with the reduction in parts: an equation for the tensor `name`, and one that combines it.

    The loops of the first are called after `name`; those of the second are those of the nest to come. Both share the
    loops along which a recurrence goes.
    """
    kernel, whole = tree.kernel, terms.equation
    fresh = Names(set(), name)
    across = tuple(Range(fresh.of(loop.name), loop.extent, word_of(loop.name)) for loop in terms.across)
    shared = whole.loops[: whole.carried]
    loops = (*shared, *(replace(r, name=fresh.of(r.index)) for r in whole.loops[whole.carried :]))
    rest = tuple(Range(fresh.of(loop.name), loop.extent, word_of(loop.name)) for loop in terms.rest)
    here = {loop.name: var(r.name) for loop, r in zip((*terms.across, *terms.rest), (*across, *rest), strict=True)}
    point = (*(var(r.name) for r in loops), *(i.substitute(here) for i in terms.reduced))
    values = {r.name: p for r, p in zip((*whole.loops, *whole.reduced), point, strict=True)}
    conditions = _conditions(terms, here, values)
    part = replace(
        whole,
        target=name,
        index=(*(var(r.name) for r in across), *(i.substitute(values) for i in whole.index)),
        loops=(*shared, *across, *loops[whole.carried :]),
        value=substitute(whole.value, values),
        reduced=rest,
        conditions=conditions,
        best=f"{name}.best" if whole.best else None,
        arg=substitute(whole.arg, values),
        first=substitute(whole.first, values),
    )
    total = _combining_equation(tree, whole, part)
    equations: tuple[Equation, ...] = ()
    for equation in kernel.equations:
        equations += (part, total) if equation is whole else (equation,)
    tensors = kernel.tensors
    for new, old in ((part.target, whole.target), (part.best, whole.best)):
        if new and old:
            like = kernel.tensor(old)
            shape = (*(r.extent for r in across), *like.shape)
            tensors += (Tensor(new, like.dtype, shape, "intermediate", order, like.span),)
    split = Split(whole.target, name, point)
    return replace(kernel, tensors=tensors, equations=equations, origin=kernel, derived=split)


def _combining_equation(tree: Tree, whole: Equation, part: Equation) -> Equation:
    """The equation that reduces the parts."""
    kernel = tree.kernel
    fresh = Names({*loop_names(tree), *kernel.sizes, *(t.name for t in kernel.tensors)}, whole.target)
    count, first = len(part.loops) - len(whole.loops), whole.carried
    across = tuple(replace(r, name=fresh.of(r.index)) for r in part.loops[first : first + count])
    shared, loops = whole.loops[:first], tuple(replace(r, name=fresh.of(r.index)) for r in whole.loops[first:])
    here = {old.name: var(new.name) for old, new in zip(part.loops, (*shared, *across, *loops), strict=True)}
    inner = {r.name for r in part.reduced}
    exist = tuple(substitute(c, here) for c in part.conditions if c.value.names().isdisjoint(inner))
    index = substitute(part.index, here)
    return replace(
        whole,
        index=index[count:],
        loops=(*shared, *loops),
        value=Load(part.best or part.target, index, whole.value.dtype),
        reduced=across,
        conditions=exist,
        arg=Load(part.target, index, kernel.tensor(whole.target).dtype) if part.best else None,
        first=substitute(part.first, here),
    )


def _conditions(terms: Terms, here: dict[str, Affine], values: dict[str, Affine]) -> tuple[Condition, ...]:
    """The conditions of a term: the kernel's, those of partial tiles, and its range unless intervals prove it."""
    whole = terms.equation
    found = [substitute(c, values) for c in whole.conditions] + [substitute(c, here) for c in terms.tails]
    extents = {loop.name: loop.extent.const for loop in (*terms.across, *terms.rest) if loop.extent.is_const}
    for place, r in zip(terms.reduced, whole.reduced, strict=True):
        for room in (place, r.extent - 1 - place):
            ends = interval_of(room, extents)
            if (ends is None or ends[0] < 0) and not _holds_by_loops(place, room, terms):
                found.append(Condition(room.substitute(here)))
    return tuple(dict.fromkeys(found))


def _holds_by_loops(place: Affine, room: Affine, terms: Terms) -> bool:
    """True if the loops imply `room` >= 0: a sum of loops is not negative, and a loop is less than its extent."""
    loops = {loop.name: loop.extent for loop in (*terms.across, *terms.rest)}
    if room == place:
        return place.const >= 0 and all(isinstance(a, str) and a in loops and f > 0 for a, f in place.terms)
    return len(place.terms) == 1 and str(place) in loops and room == loops[str(place)] - 1 - place
