"""Two versions are told once where the one for full tiles is the other one, word for word, without certain tests."""

from dataclasses import replace

import pytest

from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Condition, Const, Stmt
from tilegen.lowering.guards.known import implication_checker
from tilegen.lowering.launch.claims import Claim
from tilegen.lowering.launch.program import For, If
from tilegen.lowering.launch.timelines import Barrier
from tilegen.poly import Refused
from tilegen.proof.reading.versions import _Merge

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


def merged(body):
    return _Merge(IMPLIED, {}, {}, {}, ()).body(body, (), ())


GUARDED = replace(STORE, guard=(INSIDE,))


def test_a_version_without_tests_that_are_certain_is_left_out():
    other = (loop(If((INSIDE,), (STORE,))),)
    assert merged(versions((loop(STORE),), other)) == (loop(GUARDED),)


def test_versions_inside_versions_come_first():
    inner = (loop(If((INSIDE,), (STORE,))),)
    body = versions((loop(STORE),), versions((loop(STORE),), inner, Condition(M - 5 - block * 4)))
    assert merged(body) == (loop(GUARDED),)


@pytest.mark.parametrize(
    "body",
    [
        versions((loop(STORE),), (loop(If((INSIDE,), (STORE, STORE))),)),
        versions((loop(STORE),), (loop(If((Condition(INSIDE.value - 1),), (STORE,))),)),
        versions((loop(STORE),), (loop(If((INSIDE,), (STORE,))),), Condition(FULL.value + 1)),
    ],
    ids=["another statement", "another test", "no full tile"],
)
def test_other_versions_stay_each_under_its_test(body):
    first, *others = merged(body)
    (test,) = body[0].test
    assert first == loop(replace(STORE, guard=(test,)))
    assert [s.guard[0] for each in others for s in each.body] == [Condition(-1 - test.value)] * len(others[0].body)


def test_no_barrier_stands_in_versions():
    with pytest.raises(Refused, match="a barrier stands under a test"):
        merged(versions((BARRIER, loop(STORE)), (BARRIER, loop(If((INSIDE,), (STORE,))))))
