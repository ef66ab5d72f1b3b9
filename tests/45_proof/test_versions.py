"""Two versions are told once where the one for full tiles is the other one, word for word, without certain tests."""

import pytest

from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Condition, Const, Stmt
from tilegen.lowering.guards.known import implication_checker
from tilegen.lowering.launch.claims import Claim
from tilegen.lowering.launch.program import For, If
from tilegen.lowering.launch.timelines import Barrier
from tilegen.proof.reading.versions import _drop_repeated

TEXT = """
kernel add(A: f32[M]) -> C: f32[M]:
    C[i] = A[i]
"""
KERNEL = build(parse(Source("t.tg", TEXT)).kernels["add"])
M, block, lane = (var(name) for name in ("M", "b", "l"))
IMPLIED = implication_checker(KERNEL, {"b": M.ceildiv(4), "l": const(4)})

FULL, INSIDE = Condition(M - 4 - block * 4), Condition(M - 1 - block * 4 - lane)
BARRIER = Barrier(claims=(Claim("RAW", "C"),))
STORE = Stmt("C", Access("C", (block * 4 + lane,)), Const(1.0, "f32"))


def loop(*body):
    return For("l", const(4), body)


def versions(full, other, test=FULL):
    return (If((test,), full, other),)


def test_a_version_without_tests_that_are_certain_is_left_out():
    other = (loop(If((INSIDE,), (STORE,))),)
    assert _drop_repeated(versions((loop(STORE),), other), (), IMPLIED) == (If((), other),)


def test_versions_inside_versions_come_first():
    inner = (loop(If((INSIDE,), (STORE,))),)
    body = versions((loop(STORE),), versions((loop(STORE),), inner, Condition(M - 5 - block * 4)))
    assert _drop_repeated(body, (), IMPLIED) == (If((), (If((), inner),)),)


@pytest.mark.parametrize(
    "body",
    [
        versions((loop(STORE),), (loop(If((INSIDE,), (STORE, STORE))),)),
        versions((loop(STORE),), (loop(If((Condition(INSIDE.value - 1),), (STORE,))),)),
        versions((loop(STORE),), (loop(If((INSIDE,), (STORE,))),), Condition(FULL.value + 1)),
        versions((BARRIER, loop(STORE)), (BARRIER, loop(If((INSIDE,), (STORE,))))),
    ],
    ids=["another statement", "another test", "no full tile", "a barrier"],
)
def test_other_versions_stay(body):
    assert _drop_repeated(body, (), IMPLIED) == body
