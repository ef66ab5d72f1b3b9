"""The first index of the range of an argmax or argmin: what it is where no value beats the start."""

from __future__ import annotations

from collections.abc import Iterable

from tilegen.errors import SourceError, Span
from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import Condition, Const, Expr, Index, Op, Range


def first_index(
    reduced: Range, arg: Affine, conditions: Iterable[Condition], left: Iterable[Range], dtype: str, span: Span
) -> Expr:
    """The least value of `arg`, which grows with the loop `reduced`, where the conditions hold.

    It is given in the loops of the left side, for an index of the type `dtype`. Where the conditions hold nowhere,
    it is the lower end of the range. Raises SourceError where they leave gaps.
    """
    ends = [arg.substitute({reduced.name: low}) for low in _lower_ends(reduced, conditions, span)]
    loops = {r.name for r in left}
    ends = [e for e in ends if not any(o != e and _never_negative(o - e, loops) for o in ends)]
    if ends[0].is_const and len(ends) == 1:
        return Const(ends[0].const, dtype)
    first: Expr = Index(ends[0])
    for end in ends[1:]:
        first = Op("select", (Op("<", (first, Index(end)), "bool"), Index(end), first), "i32")
    return first


def _lower_ends(reduced: Range, conditions: Iterable[Condition], span: Span) -> list[Affine]:
    """What the loop is not less than: 0, and what each condition says."""
    loop, ends = reduced.name, [const(0)]
    for condition in conditions:
        if loop not in condition.value.names():
            continue
        for value in (condition.value, -condition.value) if condition.equal else (condition.value,):
            if not value.linear_in(loop):
                raise SourceError(
                    f"the range of '{reduced.index}' is not told by its ends, and the first index of it is wanted",
                    span,
                    notes=("take the whole range, and give what lies in a gap a value that never wins: -inf, or inf",),
                )
            factor = value.coefficient(loop)
            if factor > 0:
                ends.append((var(loop) * factor - value).ceildiv(factor))
    return list(dict.fromkeys(ends))


def _never_negative(value: Affine, loops: set[str]) -> bool:
    """True if `value` is at least 0 by its coefficients alone, loops being at least 0 and sizes at least 1."""
    if not all(isinstance(atom, str) and factor >= 0 for atom, factor in value.terms):
        return False
    return value.const + sum(factor for atom, factor in value.terms if atom not in loops) >= 0
