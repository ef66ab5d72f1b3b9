"""A tree with loops in another order, where no order matters, is told from one that does anything else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Loop, Stmt, tree_of
from tilegen.ir.walk import rewrite
from tilegen.poly import judge
from tilegen.poly import turned as turns
from tilegen.poly.changed import changed
from tilegen.primitives._call import bind

TEXT = """
kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])

schedule steps for gemm():
    tile(i, 8) -> bi, i
    tile(j, 8) -> bj, j
    tile(k, 4) -> ko, k
    order(bi, bj, ko, k, i, j)
    cache_register(C, at=bj)
    unroll(k)
    order(j, i)
    serpentine(j, i)
    order(i, k)
"""
MODULE = parse(Source("gemm.tg", TEXT))


def rekinded(old, new):
    return changed(old, new) == [] and old.buffers == new.buffers


def turned(old, new):
    pairs = changed(old, new)
    return pairs is not None and turns.turned(old, new, pairs)


def stages():
    tree = tree_of(build(MODULE.kernels["gemm"]))
    yield None, tree
    for call in MODULE.schedules[0].steps[:-1]:
        tree = bind(call).apply(tree)
        yield call.word, tree


STAGES = list(stages())
CACHED, UNROLLED, ORDERED, TURNED = (tree for _, tree in STAGES[-4:])


def test_every_turn_is_seen_and_nothing_else():
    pairs = [(old, new) for (_, old), (_, new) in zip(STAGES, STAGES[1:], strict=False)]
    assert [rekinded(*p) for p in pairs] == [False] * 5 + [True, False, False]
    assert [turned(*p) for p in pairs] == [False] * 5 + [True, True, True]
    assert not turned(TURNED, ORDERED)


def loop(tree, name, **fields):
    return replace(
        tree,
        body=rewrite(tree.body, lambda v: replace(v, **fields) if isinstance(v, Loop) and v.name == name else v),
    )


def stmt(tree, change):
    return replace(tree, body=rewrite(tree.body, lambda v: change(v) if isinstance(v, Stmt) else v))


def updates(tree, change):
    return stmt(tree, lambda s: change(s) if s.name == "C" else s)


def second(tree, change):
    """`change` made to the second of the two nests in every row."""

    def there(value):
        if isinstance(value, Loop) and value.name == "j" and len(value.body) == 2:
            return replace(value, body=(value.body[0], change(value.body[1])))
        return value

    return replace(tree, body=rewrite(tree.body, there))


def other_place(statement):
    """Written where another iteration of i writes too."""
    return replace(statement, target=Access(statement.target.buffer, (const(0), *statement.target.index[1:])))


FAULTS = {
    "a row less": loop(TURNED, "j", extent=const(3)),
    "an iteration less": loop(TURNED, "i", extent=const(7)),
    "another loop": loop(TURNED, "ko", extent=var("K").ceildiv(4) + 1),
    "a row twice": replace(
        TURNED,
        body=rewrite(
            TURNED.body,
            lambda v: replace(v, body=(v.body[0],) * 2) if isinstance(v, Loop) and len(v.body) == 2 and v.name == "j"
            else v,
        ),
    ),
    "shifted": second(TURNED, lambda n: replace(n, body=tuple(replace(s, guard=()) for s in n.body))),
    "another place": updates(TURNED, other_place),
    "in terms of names": replace(TURNED, reassociated=("C",)),
    "another home": replace(TURNED, buffers=tuple(replace(b, scope=b.scope and "bi") for b in TURNED.buffers)),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_none(fault):
    assert turned(ORDERED, TURNED)
    assert not turned(ORDERED, FAULTS[fault])
    assert not rekinded(ORDERED, FAULTS[fault])


def test_a_loop_that_the_place_does_not_say_keeps_its_place():
    """Over k the terms of a sum keep their order."""
    other = bind(MODULE.schedules[0].steps[-1]).apply(ORDERED)
    assert not turned(ORDERED, other)
    swapped = bind(replace(MODULE.schedules[0].steps[-1])).apply(UNROLLED)
    assert not turned(UNROLLED, swapped)


@pytest.mark.parametrize(
    "place",
    [
        (var("i") // 2, var("j")),
        (var("i") + var("j"), const(0)),
        (var("i") * 7 + var("j"), const(0)),
        (var("i") * 8 + var("j") // 2, const(0)),
        (var("i"), const(0)),
        (var("i"), var("i") + var("j")),
    ],
)
def test_places_that_do_not_tell_iterations_apart(place):
    def change(statement):
        return replace(statement, target=Access(statement.target.buffer, place))

    old = updates(UNROLLED, change)
    assert turned(UNROLLED, ORDERED)
    assert not turned(old, updates(ORDERED, change))


def test_places_that_do():
    def change(statement):
        return replace(statement, target=Access(statement.target.buffer, (const(0), var("i") * -8 + var("j"))))

    assert turned(updates(UNROLLED, change), updates(ORDERED, change))


ROWS = """
kernel rows(X: f32[M, N]) -> Y: f32[N, M]:
    Y[j, i] = X[i, j]

schedule steps for rows():
    tile(i, 32) -> bi, ti
    order(ti, bi, j)
"""


@pytest.mark.parametrize(
    ("place", "apart"),
    [
        ((var("j"), var("bi") * 32 + var("ti")), True),
        ((var("j"), var("bi") * 31 + var("ti")), False),
        ((var("j"), var("bi") + var("ti") * 1000), False),
        ((const(0), var("j") * 5000 + var("bi") * 32 + var("ti")), False),
    ],
)
def test_the_longest_step_may_run_to_any_extent(place, apart):
    module = parse(Source("rows.tg", ROWS))
    cut, order = map(bind, module.schedules[0].steps)
    tiled = cut.apply(tree_of(build(module.kernels["rows"])))
    old = stmt(tiled, lambda s: replace(s, target=Access("Y", place)))
    assert turned(old, order.apply(old)) == apart


def test_no_turn_where_the_own_tensor_is_read_elsewhere():
    def change(statement):
        loads = {"B": "C.reg"}
        return rewrite(
            statement,
            lambda v: replace(v, buffer=loads.get(v.buffer, v.buffer)) if type(v).__name__ == "Load" else v,
        )

    assert not turned(updates(UNROLLED, change), updates(ORDERED, change))


def test_no_turn_of_a_loop_that_a_buffer_lives_in():
    inside = tuple(replace(b, scope=b.scope and "j") for b in UNROLLED.buffers)
    assert not turned(replace(UNROLLED, buffers=inside), replace(ORDERED, buffers=inside))


@pytest.mark.parametrize("fault", ["a row less", "an iteration less", "a row twice"])
def test_they_are_refused_as_ever(fault):
    assert judge(ORDERED) is None
    refused = judge(FAULTS[fault], ORDERED)
    assert refused is not None
    assert refused == judge(FAULTS[fault])


def test_only_what_was_accepted_last_answers():
    wrong = loop(UNROLLED, "ko", extent=var("K") // 4)
    kinds = loop(wrong, "ko", kind="unrolled")
    assert rekinded(wrong, kinds)
    assert judge(wrong) is not None
    assert judge(kinds, wrong) is not None


@pytest.mark.parametrize("name", ["k", "ko"])
def test_races_behind_what_is_inferred_are_refused_as_ever(name):
    assert judge(CACHED) is None
    assert judge(UNROLLED, CACHED) is None
    assert judge(ORDERED, UNROLLED) is None
    wrong = loop(ORDERED, name, kind="thread.x")
    refused = judge(wrong, ORDERED)
    assert refused is not None
    assert refused == judge(wrong)
