"""What is decided of a test without the solver is what the solver says."""

from __future__ import annotations

from itertools import product

import pytest

from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Condition
from tilegen.lowering.guards.known import implication_checker
from tilegen.poly import Facts

TEXT = """
kernel add(A: f32[M, N]) -> C: f32[M, N] where M >= 8:
    C[i, j] = A[i, j]
"""
KERNEL = build(parse(Source("t.tg", TEXT)).kernels["add"])
M, N, B, T, L = (var(name) for name in ("M", "N", "o", "t", "l"))
LOOPS = {"o": M.ceildiv(16), "t": const(16), "l": const(4)}
TESTS = [
    Condition(M - 1 - B * 16 - T),
    Condition(M - 16 - B * 16),
    Condition(M - 1 - B * 16),
    Condition(M - 8),
    Condition(M - 9),
    Condition(M % 4, equal=True),
    Condition(T % 4, equal=True),
    Condition(N - 1 - T - L * 16),
    Condition(N - M),
    Condition(M - 1 - B * 16 - (T // 4) * 4),
]


@pytest.mark.parametrize("condition", TESTS, ids=str)
def test_a_test_is_certain_where_the_solver_says_so(condition):
    facts, is_implied = Facts(KERNEL), implication_checker(KERNEL, LOOPS)
    for given in [(), *((g,) for g in TESTS), *product(TESTS[:6], TESTS[5:])]:
        related = tuple(g for g in given if not condition.value.names().isdisjoint(g.value.names()))
        assert is_implied(condition, given) == facts.is_implied(condition, LOOPS, related), given
