"""Convolutions whose filters are stored in another form first: the sum as it is of the filters as they are given."""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.affine import Affine, Div, Mod, const, var
from tilegen.ir.nodes import Equation, Load, Range
from tilegen.ir.ranges import simplify
from tilegen.ir.walk import loads, rewrite, rewrite_indices


def with_given_filters(stored: Equation, sums: Equation) -> Equation | None:
    """`sums` with the elements that `stored` copies, zeros beyond; None where it copies none, or not so plainly.

    A loop that counts several dimensions, `k/4` and `k%4`, becomes one loop for each.
    """
    copied = stored.value
    names = [str(i) for i in stored.index]
    if stored.reduce or stored.conditions or not isinstance(copied, Load) or names != [r.name for r in stored.loops]:
        return None
    if copied.fallback is not None and copied.fallback.value != 0:
        return None

    def change(value: object) -> object:
        if not isinstance(value, Load) or value.buffer != stored.target:
            return value
        places = dict(zip(names, value.index, strict=True))
        index = tuple(i.substitute(places) for i in copied.index)
        return replace(value, buffer=copied.buffer, index=index, fallback=copied.fallback)

    found = replace(sums, value=rewrite(sums.value, change))
    for loop in sums.reduced:
        found = _with_digits(found, loop)
    return found


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
