"""Schedules whose launches overlap, for tests: one launch, several, with a ring and with roles."""

from __future__ import annotations

from tests.support.warpgroup_kernels import BUDGETS, RINGS
from tests.support.written import PRODUCT

STEP = "    dependent_launch()\n"

CHAIN = """
kernel chain(A: f32[N], B: f32[N]) -> C: f32[N]:
    var P: f32[N]
    P[i] = A[i] + B[i]
    C[i] = P[i] * 2

schedule s for chain():
    tile(P.i, 32) -> pb, pt
    bind(pb, block.x)
    bind(pt, thread.x)
    tile(C.i, 32) -> cb, ct
    bind(cb, block.x)
    bind(ct, thread.x)
"""
CASES = {name: text + STEP for name, text in {"tiles": PRODUCT, **RINGS, **BUDGETS}.items()}
TWO = CHAIN + STEP
