"""What a promise of different elements says of two iterations that meet: they are those of one element of that input.

for i < N                             where different(p): iterations that add to one y[q] have one p[i] == q,
  for q < M  scatter                  and so one i
    y[q] += select(p[i] == q, x[i], 0)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from tilegen.ir.affine import Affine, var
from tilegen.ir.nodes import INTEGERS, Cast, Expr, Index, Load, Loop, Op, Stmt
from tilegen.ir.reductions.scatter import pick_of
from tilegen.ir.walk import loads


class Promise(NamedTuple):
    """Of two accesses to one element that are promised the same `by`, the places `same` are equal."""

    by: tuple[object, ...]
    same: tuple[Affine, ...]


def promise_of(
    path: Sequence[Loop], stmt: Stmt, elements: Sequence[tuple[str, tuple[Affine, ...]]], different: Collection[str]
) -> Promise | None:
    """What is known of iterations of `stmt` that update one element.

    Args:
        elements: what the kernel's statement reads at the instance that runs, in the order of the loads.
        different: the inputs of different elements.
    """
    for loop in (each for each in path if each.kind == "scatter"):
        pick = pick_of(stmt.value, loop.name)
        load, offset = _shifted_load(pick.place) if pick else (None, Affine())
        number = next((n for n, each in enumerate(loads(stmt)) if each == load), None)
        if number is None or elements[number][0] not in different:
            continue
        for dim, index in enumerate(stmt.target.index):
            rest = index - var(loop.name) - offset
            if rest.is_const:
                return Promise((elements[number][0], dim, rest), elements[number][1])
    return None


def _shifted_load(place: Expr) -> tuple[Load | None, Affine]:
    """The element that gives a place, and what the place is less than that."""
    match place:
        case Load():
            return place, Affine()
        case Cast(arg, "i32" | "i64") if arg.dtype in INTEGERS and arg.dtype != "i64":
            return _shifted_load(arg)
        case Op("-", (one, Index(index))):
            load, offset = _shifted_load(one)
            return load, offset + index
        case _:
            return None, Affine()
