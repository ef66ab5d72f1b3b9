"""A reduction whose terms begin at a row's start, with a loop over all places where that may be.

C[i] = only[g](a[g, i] if start[g] <= i and i < start[g + 1])
C[i] = only[s, g](a[g, i] if start[g] == s and i < start[g + 1])   for s <= i
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.affine import var
from tilegen.ir.facts.choices import all_of
from tilegen.ir.nodes import Condition, Const, Equation, Index, Kernel, Load, Op, Range
from tilegen.ir.parts.derived import Anchored
from tilegen.ir.reductions.ragged import Side, conjuncts, sides_of
from tilegen.ir.written import derive


def start_of(equation: Equation, kernel: Kernel) -> Side | None:
    """What says that terms stand at or after an element of a row that rises; None if nothing does."""
    match equation.value:
        case Op("select", (test, _, Const())):
            for side in sides_of(equation.value):
                match side.value:
                    case Load(buffer, fallback=None) if buffer in dict(kernel.rising) and side.test in conjuncts(test):
                        if not side.upper and not side.more:
                            return side
    return None


def anchored(kernel: Kernel, made: Anchored) -> Kernel | None:
    """The kernel with that loop. None where the terms of the reduction begin at no row's start."""
    whole = next((e for e in kernel.equations if e.target == made.target), None)
    side = start_of(whole, kernel) if whole else None
    if whole is None or side is None:
        return None
    assert isinstance(side.value, Load)
    assert isinstance(whole.value, Op)
    test, *arms = whole.value.args
    place = Index(var(made.loop), side.value.dtype)
    here = [Op(sign, (place, side.value), "bool") for sign in (">=", "<=")]
    rest = [part for part in conjuncts(test) if part != side.test]
    value = replace(whole.value, args=(all_of([*here, *rest]), *arms))
    loop = Range(made.loop, dict(kernel.rising)[side.value.buffer] + 1, made.loop)
    behind = Condition(side.place - var(made.loop))
    new = replace(whole, value=value, reduced=(loop, *whole.reduced), conditions=(*whole.conditions, behind))
    return derive(kernel, made, {made.target: (new,)})
