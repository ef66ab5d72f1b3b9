"""Running reductions, y[i] = sum[k <= i](x[k]): which index runs along which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilegen.ir.affine import Affine, var
from tilegen.ir.nodes import Condition, Equation, Range
from tilegen.ir.reductions.initial import COMBINES
from tilegen.ir.reductions.linear import LINEAR
from tilegen.ir.walk import walk


@dataclass(frozen=True)
class Compared:
    """A `condition` that lets `k`, which is reduced, go up to `i` of the left side, or from it on if not `forward`.

    With `inclusive`, `k` may be `i`.
    """

    condition: Condition
    i: Range
    k: Range
    forward: bool
    inclusive: bool


def compared(condition: Condition, own: Mapping[str, Range], reduced: Mapping[str, Range]) -> Compared | None:
    """The condition as one that compares two indices alone, a loop of the left side and one that is reduced."""
    names = [name for name, _ in condition.value.terms if isinstance(name, str)]
    i, k = (next((n for n in names if n in group), None) for group in (own, reduced))
    if i is None or k is None or condition.equal:
        return None
    for forward, higher in ((True, var(i) - var(k)), (False, var(k) - var(i))):
        for inclusive in (True, False):
            if condition.value == higher - (0 if inclusive else 1):
                return Compared(condition, own[i], reduced[k], forward, inclusive)
    return None


def depends_on(equation: Equation, r: Range) -> bool:
    """True if the terms of the equation depend on a loop."""
    return any(r.name in index.names() for index in walk((equation.value, equation.arg)) if isinstance(index, Affine))


def running_of(equation: Equation) -> Compared | None:
    """How the equation is a running reduction; None where it is none, or more than that."""
    own, reduced = ({r.name: r for r in ranges} for ranges in (equation.loops, equation.reduced))
    found = [each for c in equation.conditions if (each := compared(c, own, reduced))]
    if equation.reduce not in (*COMBINES, LINEAR) or len(found) != 1 or depends_on(equation, found[0].i):
        return None
    others = (c.value.names() for c in equation.conditions if c != found[0].condition)
    return None if any(found[0].i.name in names and names & reduced.keys() for names in others) else found[0]
