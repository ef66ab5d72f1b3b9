"""Ragged reductions, for the reference: of a part of the left side, the terms that lie between the ends of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tilegen.interpreter.expected.box import Memory, Part, evaluate
from tilegen.ir.affine import var
from tilegen.ir.nodes import Equation
from tilegen.ir.reductions.ragged import Side, sides_of
from tilegen.ir.reductions.scatter import speaks_of


def loops_of_ends(equation: Equation) -> frozenset[str]:
    """The reduced loops that tell where others of them begin or end; their iterations are taken one by one."""
    names = frozenset(r.name for r in equation.reduced)
    return frozenset(n for n in names for side in _sides(equation) if speaks_of(side.value, frozenset((n,))))


def between_ends(
    equation: Equation, part: Part, inner: Mapping[str, int], memory: Mapping[str, Memory]
) -> Iterator[Part]:
    """The box of the reduced loops, `inner`, from the first place that some point of the part has to the last one.

    It is one box, or one for each iteration of `loops_of_ends`.
    """
    single, sides = loops_of_ends(equation), _sides(equation)

    def cut(piece: Part, left: list[tuple[str, int]]) -> Iterator[Part]:
        if not left:
            yield piece
            return
        (name, extent), *others = left
        low, high = 0, extent
        later = frozenset(each for each, _ in left)
        for side in sides:
            if side.place == var(name) and not speaks_of(side.value, later) and low < high:
                low, high = _narrow(side, low, high, part.times(piece), memory)
        runs = [range(at, at + 1) for at in range(low, high)] if name in single else [range(low, high)] * (low < high)
        for run in runs:
            yield from cut(Part((*piece.names, name), (*piece.box, run), part.sizes), others)

    yield from cut(Part((), (), part.sizes), [*inner.items()])


def _narrow(side: Side, low: int, high: int, part: Part, memory: Mapping[str, Memory]) -> tuple[int, int]:
    """What is left of the places from `low` to `high` where the side holds at some point."""
    value, doubt = evaluate(side.value, part, memory, None)
    if not value.size or np.any(doubt):
        return low, high
    if side.upper:
        return low, min(high, int(value.max()) + side.more)
    return max(low, int(value.min()) + side.more), high


def _sides(equation: Equation) -> list[Side]:
    """An arg reduction sees all its values."""
    return [*sides_of(equation.value)] if equation.best is None else []
