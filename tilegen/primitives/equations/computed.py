"""The equation of an intermediate tensor recomputed in each iteration of loops, and the kernel with it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import Buffer, Condition, Const, Equation, Kernel, Load, Loop, Node, Range, Tree
from tilegen.ir.parts.derived import ComputedAt
from tilegen.ir.walk import loop_names, rewrite, substitute
from tilegen.ir.written import nest_of
from tilegen.primitives.equations.beyond import select_within
from tilegen.primitives.rewriting.box import Box, bounds_conditions
from tilegen.primitives.rewriting.names import Names, word_of
from tilegen.primitives.rewriting.region import Point


def plain_equation(tree: Tree, tensor: str, step: str, instead: str) -> Equation:
    """The equation of an intermediate tensor, for a step that computes it elsewhere.

    StepError where it finds the place of an optimum, belongs to a scan or a recurrence, or has an index that is no
    plain loop.

    Args:
        instead: a way out for a recurrence.
    """
    found = next((e for e in tree.kernel.equations if e.target == tensor), None)
    if found is None or found.best:
        raise StepError(f"'{tensor}' belongs to an argmax or argmin, and {step} takes other equations")
    if found.running or any(e.running == tensor for e in tree.kernel.equations):
        raise StepError(f"'{tensor}' belongs to a scan, read while it runs, and {step} takes other equations")
    if found.carried:
        along = ", ".join(r.index for r in found.loops[: found.carried])
        raise StepError(
            f"'{tensor}' belongs to a recurrence along {along}, and {step} takes other equations", notes=(instead,)
        )
    if sorted(map(str, found.index)) != sorted(r.name for r in found.loops):
        raise StepError(f"the left side of '{tensor}' has an index that is no plain loop")
    return found


@dataclass(frozen=True)
class Computed:
    """`new` is `old` with a range for each loop of `scope` in front, and those of the box in place of its own.

    `point` is the instance of `old` that each of `new` is; `base` where the box begins, in the loops of `scope`.
    """

    old: Equation
    new: Equation
    point: Point
    scope: tuple[Loop, ...]
    base: Point

    def here(self, index: Point, values: dict[str, Affine]) -> Point:
        """The place of the element `index` in the iteration of the loops that `values` gives."""
        place = tuple(values[loop.name] for loop in self.scope)
        return (*place, *(i - b.substitute(values) for i, b in zip(index, self.base, strict=True)))

    def nest(self, kernel: Kernel) -> tuple[Node, ...]:
        """The loops and statements of the box in one iteration of the loops around."""
        body: tuple[Node, ...] = (nest_of(kernel, self.new),)
        values = {r.name: var(loop.name) for r, loop in zip(self.new.loops, self.scope, strict=False)}
        heads: list[Loop] = []
        for r in self.new.loops:
            (loop,) = body
            assert isinstance(loop, Loop)
            body = loop.body
            if r.name not in values and r.extent == const(1):
                values[r.name] = const(0)
            elif r.name not in values:
                heads += [loop]
        body = substitute(body, values)
        for loop in reversed(heads):
            body = (replace(loop, body=body),)
        return body


def compute_in_box(tree: Tree, old: Equation, scope: tuple[Loop, ...], box: Box, beyond: Const | None) -> Computed:
    """The equation `old` computed in each iteration of the loops `scope` of the tree, for the box alone.

    What of the box is outside of the tensor is `beyond`, or not computed at all.
    """
    taken = {*loop_names(tree), *tree.kernel.sizes, *(t.name for t in tree.kernel.tensors)}
    fresh, dims = Names(taken, old.target), [str(i) for i in old.index]
    loops = tuple(Range(fresh.of(r.index), const(box.extent[dims.index(r.name)]), r.index) for r in old.loops)
    reduced = tuple(replace(r, name=fresh.of(r.index)) for r in old.reduced)
    across = tuple(Range(fresh.of(loop.name), loop.extent, word_of(loop.name)) for loop in scope)
    counts = {loop.name: var(r.name) for loop, r in zip(scope, across, strict=True)}
    inner = {r.name: var(n.name) for r, n in zip(old.loops, loops, strict=True)}
    place = {n: b.substitute(counts) + inner[n] for n, b in zip(dims, box.base, strict=True)}
    values = place | {r.name: var(n.name) for r, n in zip(old.reduced, reduced, strict=True)}
    extents = {r.name: r.extent.const for r in (*across, *loops) if r.extent.is_const}
    whole = {r.name: r.extent for r in old.loops}
    room = Buffer(old.target, "", tuple(whole[n] for n in dims), "global", ())
    alone = {r.name: const(0) for r in loops if r.extent == const(1)}
    found = bounds_conditions(room, tuple(place[n].substitute(alone) for n in dims), extents)
    plain = {Condition(r.extent - 1 - var(r.name)) for r in across}
    within = tuple(c for c in found if c not in plain)
    moved = substitute(old, values)
    conditions, value = moved.conditions, moved.value
    if beyond is None:
        conditions += within
    elif within:
        value = select_within(old, value, frozenset(r.name for r in (*across, *loops)), within, beyond)
    new = replace(
        moved,
        index=(*(var(r.name) for r in across), *(inner[n] for n in dims)),
        loops=(*across, *loops),
        value=value,
        reduced=reduced,
        conditions=tuple(dict.fromkeys(conditions)),
    )
    return Computed(old, new, tuple(place[r.name] for r in old.loops), scope, box.base)


def with_computed_equation(kernel: Kernel, made: Computed, readers: dict[str, dict[str, Affine]]) -> Kernel:
    """The kernel with the new equation; `readers` say in which iteration each of them reads it."""
    name, count = made.old.target, len(made.scope)

    def equation(old: Equation) -> Equation:
        values = readers.get(old.target)

        def change(value: object) -> object:
            if not isinstance(value, Load) or value.buffer != name:
                return value
            return replace(value, index=made.here(value.index, values or {}), fallback=None)

        return made.new if old is made.old else old if values is None else rewrite(old, change)

    extents = {r.name: r.extent for r in made.new.loops}
    shape = tuple(extents[str(i)] for i in made.new.index)
    tensors = tuple(
        replace(t, shape=shape, order=(*range(count), *(d + count for d in t.order))) if t.name == name else t
        for t in kernel.tensors
    )
    equations = tuple(equation(e) for e in kernel.equations)
    return replace(kernel, tensors=tensors, equations=equations, origin=kernel, derived=ComputedAt(name, made.point))
