"""Values for names in a thread's program: also in what says which part of the kernel a copy or an instruction does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import Stmt
from tilegen.ir.walk import rewrite, substitute
from tilegen.lowering.launch.program import Perform, Spmd, VectorCopy


def substitute_integers(body: tuple[Spmd, ...], values: Mapping[str, Affine]) -> tuple[Spmd, ...]:
    """`body` with these values of its loops, parameters and coordinates."""

    def change(value: Any) -> Any:
        match value:
            case VectorCopy(origin=Stmt() as origin):
                return replace(value, origin=substitute(origin, values))
            case Perform(origin=nest):
                return replace(value, origin=substitute(nest, values))
            case _:
                return value

    return rewrite(substitute(body, values), change)
