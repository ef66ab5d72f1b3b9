"""The iteration of loops in which a statement runs an instance, as a function of the instance."""

from __future__ import annotations

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, var
from tilegen.ir.facts.ranges import interval_of
from tilegen.ir.nodes import Loop, Range, Stmt


def iteration_of(
    stmt: Stmt, ranges: tuple[Range, ...], path: tuple[Loop, ...], scope: tuple[Loop, ...]
) -> dict[str, Affine]:
    """The iteration of each loop of `scope` in which `stmt` runs an instance, in the loops of its equation.

    The loop has to be one digit of an index in mixed radix, loops further inside being lower digits; else StepError.
    """
    assert stmt.instance is not None
    extents = {loop.name: loop.extent.const for loop in path if loop.extent.is_const}
    found: dict[str, Affine] = {}
    for loop in scope:
        digits = [_digit(value, loop.name, extents) for value in stmt.instance]
        known = [d.substitute({"": var(r.name)}) for d, r in zip(digits, ranges, strict=True) if d is not None]
        if not known:
            notes = ("put compute_at before the steps that collapse or turn loops",)
            raise StepError(
                f"the indices of '{stmt.name}' do not tell which iteration of '{loop.name}' they are in", notes=notes
            )
        found[loop.name] = known[0]
    return found


def _digit(value: Affine, loop: str, extents: dict[str, int]) -> Affine | None:
    """The loop as a digit of `value`, as a function of `value` (the empty name); None where it is no digit."""
    factor = value.coefficient(loop)
    if factor < 1 or not value.linear_in(loop):
        return None
    others = [(atom, c) for atom, c in value.terms if atom != loop]
    ends = interval_of(Affine(tuple((a, c) for a, c in others if c % factor), value.const), extents)
    if ends is None or ends[0] < 0 or ends[1] >= factor:
        return None
    digit = var("") // factor
    if all(c % factor for _, c in others):
        return digit
    extent = extents.get(loop)
    higher = [c for _, c in others if not c % factor]
    if extent is None or any(c % (factor * extent) for c in higher):
        return None
    return digit % extent
