"""Which elements of its target an equation defines, where that can be read off."""

from __future__ import annotations

from tilegen.ir.affine import var
from tilegen.ir.nodes import Condition, Equation, Tensor


def conditions_on_left(equation: Equation) -> tuple[Condition, ...]:
    """The conditions that decide which points of the left side there are: those on no reduced index."""
    reduced = {r.name for r in equation.reduced}
    return tuple(c for c in equation.conditions if c.value.names().isdisjoint(reduced))


def defines_all(equation: Equation, target: Tensor) -> bool:
    """True if the equation defines every element of its target, each at a point of its own.

    Each index is a loop that runs over the whole dimension, and no condition leaves a point out. False means only that
    this cannot be read off.
    """
    whole = tuple((var(r.name), r.extent) for r in equation.loops)
    places = tuple(zip(equation.index, target.shape, strict=True))
    return not conditions_on_left(equation) and len(whole) == len(places) and set(whole) == set(places)
