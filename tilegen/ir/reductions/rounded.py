"""A reduction over whole tiles: its range is longer than the tensors, and what is read beyond these is zero."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import TypeVar

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import Const, Equation, Gather, Kernel, Load, Range
from tilegen.ir.parts.derived import RoundedUp
from tilegen.ir.walk import rewrite, walk

T = TypeVar("T")


def round_up_range(kernel: Kernel, made: RoundedUp) -> Kernel:
    """The kernel with that range rounded up. Reads that depend on it give 0 outside of their tensor."""

    def longer(r: Range) -> Range:
        return replace(r, extent=r.extent.ceildiv(made.by) * made.by) if r.name == made.loop else r

    def change(equation: Equation) -> Equation:
        if equation.target != made.target:
            return equation
        ranges = tuple(longer(r) for r in equation.reduced)
        return replace(equation, reduced=ranges, value=with_zeros(equation.value, {made.loop}))

    equations = tuple(change(e) for e in kernel.equations)
    return replace(kernel, equations=equations, origin=kernel, derived=made)


def with_zeros(value: T, loops: Set[str]) -> T:
    """`value` with zeros for what reads at an index of one of `loops` find outside of their tensor."""

    def depends(index: Affine) -> bool:
        return not index.names().isdisjoint(loops)

    def zeros(v: object) -> object:
        if isinstance(v, Gather) and any(depends(i) for i in walk(v.index) if isinstance(i, Affine)):
            return replace(v, fallback=v.fallback or Const(0, v.dtype), tested=tuple(range(len(v.index))))
        if not isinstance(v, Load) or v.fallback or not any(map(depends, v.index)):
            return v
        return replace(v, fallback=Const(0, v.dtype))

    return rewrite(value, zeros)
