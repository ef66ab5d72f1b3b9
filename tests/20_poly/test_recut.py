"""A tree with a loop cut in two is told from one that does anything else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Condition, Loop, Stmt, tree_of
from tilegen.ir.walk import rewrite, substitute
from tilegen.poly import judge
from tilegen.poly import recut as recuts
from tilegen.poly.changed import changed as differing
from tilegen.poly.project import project
from tilegen.primitives._call import bind

TEXT = """
kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])

schedule steps for gemm():
    tile(i, 32) -> bi, ti
    tile(j, 8) -> j, v
    cache_register(C, at=j)
    tile(j, 4) -> bj, j
    tile(k, 1) -> k, one

schedule lanes for gemm():
    tile(i, 32) -> bi, ti
    tile(ti, 8) -> wi, li
    order(bi, wi, li, j, k)
    tile(j, 4) -> bj, tj
    order(bi, bj, wi, li, tj, k)
    order(bi, bj, wi, tj, li, k)
    order(bi, bj, wi, li, tj, k)
    collapse(wi, li) -> lane
"""
MODULE = parse(Source("gemm.tg", TEXT))


def stages(schedule=0):
    tree = tree_of(build(MODULE.kernels["gemm"]))
    yield None, tree
    for call in MODULE.schedules[schedule].steps:
        tree = bind(call).apply(tree)
        yield call.word, tree


STAGES = list(stages())
WRITTEN, CUT = STAGES[0][1], STAGES[1][1]
OTHER, APART, MERGED = (tree for _, tree in list(stages(1))[-3:])


def recut(old, new):
    pairs = differing(old, new)
    return pairs is not None and recuts.recut(old, new, pairs)


def merged(old, new):
    pairs = differing(old, new)
    return pairs is not None and recuts.merged(old, new, pairs)


def changed(change):
    return replace(CUT, body=rewrite(CUT.body, change))


def loop(name, **fields):
    return changed(lambda v: replace(v, **fields) if isinstance(v, Loop) and v.name == name else v)


def stmt(change):
    return changed(lambda v: change(v) if isinstance(v, Stmt) else v)


def turned(value):
    """The two new loops in the other order."""
    if isinstance(value, Loop) and value.name == "bi":
        inner = value.body[0]
        return replace(inner, body=(replace(value, body=inner.body),))
    return value


def test_every_cut_is_seen_and_nothing_else():
    pairs = zip(STAGES, STAGES[1:], strict=False)
    seen = [recut(old, new) for (_, old), (_, new) in pairs]
    # A loop of one iteration inside another of the same extent is not looked for.
    assert seen == [True, True, False, True, False]
    assert not recut(CUT, CUT)
    assert not recut(CUT, WRITTEN)


def test_a_buffer_lives_in_the_inner_loop():
    old, new = STAGES[3][1], STAGES[4][1]
    assert {b.scope for b in new.buffers} == {None, "j"}
    moved = replace(new, buffers=tuple(replace(b, scope=b.scope and "bj") for b in new.buffers))
    assert not recut(old, moved)


FAULTS = {
    "a tile more": loop("bi", extent=var("M").ceildiv(32) + 1),
    "a tile less": loop("bi", extent=var("M") // 32),
    "another size": loop("ti", extent=const(31)),
    "no test": stmt(lambda s: replace(s, guard=())),
    "another test": stmt(lambda s: replace(s, guard=(Condition(s.guard[0].value - 1),))),
    "a test more": stmt(lambda s: replace(s, guard=(*s.guard, Condition(var("bi") - 1)))),
    "backwards": changed(
        lambda v: (
            replace(v, body=substitute(v.body, {"ti": const(31) - var("ti")}))
            if isinstance(v, Loop) and v.name == "ti"
            else v
        )
    ),
    "turned": changed(turned),
    "twice": changed(lambda v: replace(v, body=v.body * 2) if isinstance(v, Loop) and v.name == "k" else v),
    "in terms of names": replace(CUT, reassociated=("C",)),
    "another buffer": replace(CUT, buffers=(*CUT.buffers[:-1], replace(CUT.buffers[-1], shape=(var("M"), var("M"))))),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_none(fault):
    assert recut(WRITTEN, CUT)
    assert not recut(WRITTEN, FAULTS[fault])


@pytest.mark.parametrize("fault", ["a tile less", "no test", "twice"])
def test_they_are_refused_as_ever(fault):
    assert judge(WRITTEN) is None
    refused = judge(FAULTS[fault], WRITTEN)
    assert refused is not None
    assert refused == judge(FAULTS[fault])


def test_only_what_was_accepted_last_answers():
    wrong = loop("bi", extent=var("M") // 32)
    cut = bind(MODULE.schedules[0].steps[1]).apply(wrong)
    assert recut(wrong, cut)
    assert judge(wrong) is not None
    assert judge(cut, wrong) is not None
    assert judge(WRITTEN) is None
    assert judge(cut, wrong) is not None


def lanes(change):
    """The merged tree with its loop `lane` changed."""
    there = rewrite(MERGED.body, lambda v: change(v) if isinstance(v, Loop) and v.name == "lane" else v)
    return replace(MERGED, body=there)


def at(place):
    return lambda loop: replace(loop, body=substitute(loop.body, {"lane": place}))


def living_in(tree, name):
    kept = replace(tree.buffers[0], name="kept", role="copy", space="register", scope=name)
    return replace(tree, buffers=(*tree.buffers, kept))


LANE = var("lane")
UNMERGED = {
    "a lane more": lanes(lambda v: replace(v, extent=v.extent + 1)),
    "a lane less": lanes(lambda v: replace(v, extent=v.extent - 1)),
    "backwards": lanes(at(const(31) - LANE)),
    "another row": lanes(at(LANE // 8 * 8)),
    "rows and columns exchanged": lanes(at(LANE % 4 * 8 + LANE // 4)),
    "twice": lanes(lambda v: replace(v, body=v.body * 2)),
    "in terms of names": replace(MERGED, reassociated=("C",)),
}


def test_two_loops_made_one_are_seen_and_nothing_else():
    assert merged(APART, MERGED)
    assert not merged(MERGED, APART)
    assert not recut(APART, MERGED)
    assert not merged(OTHER, MERGED)
    assert not merged(MERGED, MERGED)


@pytest.mark.parametrize("fault", UNMERGED)
def test_faults_in_one_loop_are_none(fault):
    assert not merged(APART, UNMERGED[fault])
    assert judge(APART) is None
    assert judge(UNMERGED[fault], APART) == judge(UNMERGED[fault])


def test_a_buffer_may_live_in_the_inner_of_two_loops_made_one():
    assert merged(living_in(APART, "li"), living_in(MERGED, "lane"))
    assert not merged(living_in(APART, "wi"), living_in(MERGED, "lane"))


def test_what_is_inferred_is_not_asked_and_is_no_proof():
    """The judge asks nothing of what two steps have left as it is, and the proof asks it."""
    kernel = replace(build(MODULE.kernels["gemm"]), name="inferred")
    written, cut, merged_ = (replace(tree, kernel=kernel) for tree in (WRITTEN, CUT, MERGED))
    assert judge(written) is None
    assert judge(cut, written) is None
    assert judge(merged_, cut) is None
    runs = [(p.leaf.where, p.leaf.stmt.instance) for p in project(cut).of("C")]
    question = ("covered", "C", *runs)
    assert project(cut, judged=True).known(question)
    assert not project(cut).known(question)


@pytest.mark.parametrize("fault", ["a tile less", "no test", "twice"])
def test_faults_behind_what_is_inferred_are_refused_as_ever(fault):
    steps = MODULE.schedules[0].steps
    wrong = bind(steps[1]).apply(FAULTS[fault])
    assert judge(WRITTEN) is None
    assert judge(CUT, WRITTEN) is None
    refused = judge(wrong, CUT)
    assert refused is not None
    assert refused == judge(wrong)
