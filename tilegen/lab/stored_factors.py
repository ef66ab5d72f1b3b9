"""Convolutions whose images or filters are stored in another form first: the sum as it is of those that are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from tilegen.ir.affine import Affine, Div, Mod, const, var
from tilegen.ir.nodes import Equation, Kernel, Load, Range
from tilegen.ir.ranges import simplify
from tilegen.ir.walk import loads, rewrite, rewrite_indices

_SMALL = (3, 4)  # sizes at which elements are counted


def with_given_factors(kernel: Kernel) -> tuple[Equation, ...]:
    """The kernel's equations without the first ones that copy a tensor, zeros beyond; others read the tensor instead.

    A loop that counts several dimensions, `k/4` and `k%4`, becomes one loop for each.
    """
    equations = kernel.equations
    while len(equations) > 1 and (rest := _read_what_is_copied(kernel, equations[0], equations[1:])):
        equations = rest
    return equations


def _read_what_is_copied(kernel: Kernel, stored: Equation, rest: Sequence[Equation]) -> tuple[Equation, ...] | None:
    """`rest` with what `stored` copies in the place of the copies; None where it copies nothing, or not so plainly."""
    copied = stored.value
    names = [str(i) for i in stored.index]
    if stored.reduce or stored.conditions or not isinstance(copied, Load) or names != [r.name for r in stored.loops]:
        return None
    if copied.fallback is not None and copied.fallback.value != 0:
        return None
    readers = [load for each in rest for load in loads(each.value) if load.buffer == stored.target]
    beyond = [load.fallback for load in readers if load.fallback is not None]
    if any(value.value != 0 for value in beyond) or beyond and not _copies_all(kernel, stored, copied):
        return None

    def change(value: object) -> object:
        if not isinstance(value, Load) or value.buffer != stored.target:
            return value
        places = dict(zip(names, value.index, strict=True))
        index = tuple(simplify(i.substitute(places), {}) for i in copied.index)
        return replace(value, buffer=copied.buffer, index=index, fallback=copied.fallback or value.fallback)

    return tuple(_with_all_digits(replace(each, value=rewrite(each.value, change))) for each in rest)


def _copies_all(kernel: Kernel, stored: Equation, copied: Load) -> bool:
    """True if no element of the tensor is left out, at some sizes."""
    for size in _SMALL:
        sizes = dict.fromkeys(kernel.sizes, size)
        shape = [extent.evaluate(sizes) for extent in kernel.tensor(copied.buffer).shape]
        points = product(*(range(loop.extent.evaluate(sizes)) for loop in stored.loops))
        seen = set()
        for point in points:
            values = sizes | dict(zip((loop.name for loop in stored.loops), point, strict=True))
            seen.add(tuple(i.evaluate(values) for i in copied.index))
        if not all(place in seen for place in product(*map(range, shape))):
            return False
    return True


def _with_all_digits(equation: Equation) -> Equation:
    for loop in equation.reduced:
        equation = _with_digits(equation, loop)
    return equation


def _with_digits(equation: Equation, loop: Range) -> Equation:
    """The equation with two loops in place of one that stands in it divided by one number, and nowhere else."""
    atoms = {a for load in loads(equation.value) for i in load.index for a, _ in i.terms if loop.name in _names(a)}
    divisors = {atom.by for atom in atoms if isinstance(atom, Div | Mod) and atom.arg == var(loop.name)}
    if len(divisors) != 1 or len(atoms) != 2 or not loop.extent.is_const:
        return equation
    (by,) = divisors
    high, low = f"{loop.name}/{by}", f"{loop.name}%{by}"
    value, extents = var(high) * by + var(low), {high: -(-loop.extent.const // by), low: by}
    ranges = tuple(replace(loop, name=name, extent=const(extent)) for name, extent in extents.items())
    reduced = tuple(new for old in equation.reduced for new in (ranges if old is loop else (old,)))
    body = rewrite_indices(equation.value, lambda i: simplify(i.substitute({loop.name: value}), extents))
    return replace(equation, reduced=reduced, value=body)


def _names(atom: str | Div | Mod) -> frozenset[str]:
    return Affine(((atom, 1),)).names()
