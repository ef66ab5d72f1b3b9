"""Values of an intermediate tensor outside of its bounds: the constant after the 'else' of its reads."""

from __future__ import annotations

from collections.abc import Iterable

from tilegen.errors import StepError
from tilegen.ir.facts.choices import condition_of
from tilegen.ir.nodes import Condition, Const, Equation, Expr, Op, Stmt
from tilegen.ir.reductions.initial import init_value
from tilegen.ir.reductions.rounded import with_zeros
from tilegen.ir.walk import loads


def beyond_of(tensor: str, readers: Iterable[Stmt]) -> Const | None:
    """What reads outside of the tensor give; None if there are none. StepError where they differ."""
    given = [load.fallback for stmt in readers for load in loads(stmt) if load.buffer == tensor and load.fallback]
    found = sorted({each.value for each in given})
    if len(found) > 1:
        notes = ("one 'else' for all of them can be computed with the tensor",)
        raise StepError(f"outside of '{tensor}' some reads give {found[0]:g}, and others {found[1]:g}", notes=notes)
    return given[0] if given else None


def select_within(
    old: Equation, value: Expr, loops: frozenset[str], within: tuple[Condition, ...], beyond: Const
) -> Expr:
    """`value` where its point is `within` the tensor, and `beyond` elsewhere.

    Elsewhere each term of a reduction is a neutral one. StepError where a reduction of such gives another value.
    """
    if old.conditions:
        raise StepError(
            f"'{old.target}' is read outside of its bounds, and its equation leaves out elements inside of them",
            notes=("define it everywhere, by a choice: 'a if condition else b'",),
        )
    nothing = init_value(old.reduce, beyond.dtype) if old.reduce else beyond
    if nothing != beyond:
        raise StepError(
            f"'{old.target}' is read as {beyond.value:g} outside, and a {old.reduce} of nothing is {nothing.value:g}",
            notes=(f"reads that give {nothing.value:g} there can be served",),
        )
    return Op("select", (condition_of(within), with_zeros(value, loops), beyond), beyond.dtype)
