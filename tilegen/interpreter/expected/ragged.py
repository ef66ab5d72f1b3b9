"""Ragged reductions, for the reference: of a part of the left side, the terms that lie between the ends of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tilegen.interpreter.expected.box import Memory, Part, evaluate
from tilegen.ir.affine import var
from tilegen.ir.nodes import Equation
from tilegen.ir.reductions.ragged import sides_of
from tilegen.ir.reductions.scatter import speaks_of

Ends = tuple[int, int]


def ends_of(equation: Equation, part: Part, memory: Mapping[str, Memory]) -> Mapping[str, Ends]:
    """For each reduced loop whose ends data give, the first and last place that some point of the part has, and 1."""
    found: dict[str, Ends] = {}
    reduced = frozenset(r.name for r in equation.reduced)
    for side in sides_of(equation.value) if equation.best is None else ():
        (name, *others) = sorted(side.place.names() & reduced) or [""]
        if others or side.place != var(name) or speaks_of(side.value, reduced):
            continue
        value, doubt = evaluate(side.value, part, memory, part.mask(()))
        if value.size and not np.any(doubt):
            low, high = found.get(name, (0, 2**62))
            most = (int(value.max()) if side.upper else int(value.min())) + side.more
            found[name] = (low, min(high, most)) if side.upper else (max(low, most), high)
    return found


def between(piece: Part, ends: Mapping[str, Ends]) -> Part:
    """The part of a box that lies between the ends of its loops."""
    box = tuple(
        range(max(r.start, ends[name][0]), max(ends[name][0], min(r.stop, ends[name][1]))) if name in ends else r
        for name, r in zip(piece.names, piece.box, strict=True)
    )
    return replace(piece, box=box)
