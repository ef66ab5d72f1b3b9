"""Loops of which the data pick one iteration: in all others a reduction gets a neutral term.

for i < N                                    for i < N
  for b < 256  scatter                         b = x[i]
    h[b] += select(x[i] == b, w[i], 0)         if 0 <= b < 256: h[b] += w[i]
"""

from __future__ import annotations

from typing import NamedTuple

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.facts.choices import all_of
from tilegen.ir.nodes import Const, Expr, Index, Op
from tilegen.ir.reductions.ragged import conjuncts
from tilegen.ir.walk import walk


class Pick(NamedTuple):
    """The iteration `place` of a loop, if it has that one, has `term`; all others have `rest`."""

    place: Expr
    term: Expr
    rest: Const


def pick_of(value: Expr, loop: str) -> Pick | None:
    """Which iteration of `loop` has a term of its own in a value; None where its form does not say."""
    match value:
        case Op("select", (test, term, Const() as rest), dtype):
            parts = [*conjuncts(test)]
            for part in parts:
                if (place := _place(part, loop)) is not None:
                    others = [each for each in parts if each is not part]
                    if others:
                        term = Op("select", (all_of(others), term, rest), dtype)
                    return Pick(place, term, rest)
    return None


def speaks_of(value: object, names: frozenset[str]) -> bool:
    """True if an index in `value` depends on one of the names."""
    return any(isinstance(v, Affine) and not v.names().isdisjoint(names) for v in walk(value))


def _place(test: Expr, loop: str) -> Expr | None:
    """Which iteration an equality leaves, in the type of its sides; what is below 0 or beyond the loop is none."""
    match test:
        case Op("==", (Index(index, dtype), other)) | Op("==", (other, Index(index, dtype))):
            if index.coefficient(loop) == 1 and index.linear_in(loop) and not speaks_of(other, frozenset((loop,))):
                offset = index - var(loop)
                return other if offset == const(0) else Op("-", (other, Index(offset, dtype)), dtype)
    return None
