"""Reductions in parts: what makes them the reduction of the kernel as written, and what is said where they are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.enumeration.runs import verdict
from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Condition, Load
from tilegen.ir.walk import substitute
from tilegen.ir.written import tree_of
from tilegen.judge import judge
from tilegen.schedule import apply

TEXT = """
kernel dot(x: f32[K], y: f32[K, N]) -> z: f32[N]:
    z[i] = sum[k](x[k] * y[k, i])

schedule contiguous for dot():
    tile(k, 5) -> kp, ki
    rfactor(z, kp) -> part

schedule strided for dot():
    tile(k, 4) -> ko, kp
    rfactor(z, kp) -> part

schedule twice for dot():
    tile(k, 4) -> ko, kp
    tile(ko, 3) -> kb, kc
    rfactor(z, kp) -> part
    rfactor(part, kb) -> piece

kernel best(X: f32[M, N]) -> at: i32[M]:
    at[i] = argmin[j](X[i, j]) for j <= i + 3

schedule parts for best():
    tile(j, 4) -> jo, jp
    rfactor(at, jp) -> part

kernel block(X: f32[N, K, R]) -> at: i32[N]:
    at[i] = argmax[k, r](X[i, k, r])

schedule blocks for block():
    tile(k, 2) -> ko, kp
    rfactor(at, kp) -> part

kernel both(X: f32[N, K, R], n: int = 4) -> y: f32[N]:
    y[i] = max[k, r](X[i, k, r]) for k <= i

schedule mixed for both():
    rfactor(y, k) -> part
"""
MODULE = parse(Source("parts.tg", TEXT))
SCHEDULES = {s.name: s for s in MODULE.schedules}


def schedule_tree(name):
    schedule = SCHEDULES[name]
    return apply(build(MODULE.kernels[schedule.kernel]), schedule).tree


def as_written(kernel):
    """The tree of a derived kernel as its equations say, so that nothing else is wrong."""
    return tree_of(kernel)


def with_equation(kernel, target, change):
    return replace(kernel, equations=tuple(change(e) if e.target == target else e for e in kernel.equations))


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_a_second_opinion_agrees_that_they_are_right(name):
    tree = schedule_tree(name)
    assert tree.kernel.written_kernel == build(MODULE.kernels[SCHEDULES[name].kernel])
    for number in (1, 4, 7):
        assert verdict(tree, {size: number + n for n, size in enumerate(tree.kernel.sizes)}) is None


def faults():
    """(name, a derived kernel that is wrong, words of the sentence, words of the witness)."""
    right = schedule_tree("contiguous").kernel
    point = right.derived.point
    kp, ki = var("part.kp"), var("part.ki")

    def terms(index):
        moved = replace(right, derived=replace(right.derived, point=(point[0], index)))
        return with_equation(
            moved,
            "part",
            lambda e: replace(
                e,
                value=substitute(right.origin.equations[0].value, {"i": var("part.i"), "k": index}),
                conditions=(Condition(var("K") - 1 - index),),
            ),
        )

    yield "overlapping", terms(kp * 4 + ki), "runs more than once", "z(i=0, k=4)"
    yield "gaps", terms(kp * 6 + ki), "never runs", "z(i=0, k=5) is missing"
    yield "reversed", terms(kp * 5 - ki), "that the kernel does not have", "k=-4"
    bare = with_equation(right, "part", lambda e: replace(e, conditions=()))
    yield "no tail", bare, "that the kernel does not have", "k=1)"
    yield "other value", with_equation(right, "part", lambda e: replace(e, value=e.value.args[0])), "other terms", None
    yield "other reduction", with_equation(right, "part", lambda e: replace(e, reduce="max")), "do not reduce", None
    running = with_equation(right, "z", lambda e: replace(e, running="part"))
    yield "read while it runs", running, "do not reduce", None
    fewer = with_equation(right, "z", lambda e: replace(e, conditions=(Condition(-var("z.kp")),)))
    yield "parts left out", fewer, "does not combine its parts", None
    shifted = with_equation(right, "z", lambda e: replace(e, value=replace(e.value, index=(var("z.kp"), const(0)))))
    yield "parts of another", shifted, "does not combine its parts", None
    yield "more sizes", replace(right, assumptions=(Condition(var("K") - 9),)), "has more than 'z' in parts", None
    output = tuple(replace(t, role="output") if t.name == "part" else t for t in right.tensors)
    yield "an output", replace(right, tensors=output), "has more than 'z' in parts", None
    yield "unknown", replace(right, derived=None), "it is not known how", None


def arg_faults():
    """The same for an arg reduction."""
    best = schedule_tree("parts").kernel
    (loop,) = best.equations[0].reduced
    back = {loop.name: loop.extent - 1 - var(loop.name)}
    split = replace(best.derived, point=tuple(p.substitute(back) for p in best.derived.point))
    yield (
        "the last of equals",
        with_equation(
            replace(best, derived=split),
            "part",
            lambda e: replace(
                e,
                value=substitute(e.value, back),
                arg=substitute(e.arg, back),
                conditions=substitute(e.conditions, back),
            ),
        ),
        "a higher index before a lower one",
        "j=4) comes before at(i=1, j=0)",
    )
    other = with_equation(best, "at", lambda e: replace(e, arg=Load("part", (const(0), var("at.i")), "i32")))
    yield "another index", other, "does not combine its parts", None


def place_faults():
    """The same for one over two indices."""
    block = schedule_tree("blocks").kernel
    turned = with_equation(block, "part", lambda e: replace(e, reduced=e.reduced[::-1]))
    yield (
        "the other index first",
        turned,
        "a higher index before a lower one",
        "k=2, r=0) comes before at(i=0, k=0, r=1)",
    )
    _, loop = block.equations[0].reduced
    back = {loop.name: loop.extent - 1 - var(loop.name)}
    split = replace(block.derived, point=tuple(p.substitute(back) for p in block.derived.point))
    yield (
        "an index backwards",
        with_equation(
            replace(block, derived=split),
            "part",
            lambda e: replace(e, value=substitute(e.value, back), arg=substitute(e.arg, back)),
        ),
        "a higher index before a lower one",
        "r=1) comes before at(i=0, k=0, r=0)",
    )


FAULTS = {name: rest for name, *rest in (*faults(), *arg_faults(), *place_faults())}


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_what_is_not_the_reduction_is_refused(name):
    kernel, sentence, witness = FAULTS[name]
    violation = judge(as_written(kernel))
    assert violation is not None
    assert sentence in violation.sentence, violation
    if witness:
        assert witness in violation.witness, violation


@pytest.mark.parametrize("name", ["overlapping", "gaps", "no tail", "other value", "parts left out", "another index"])
def test_a_second_opinion_agrees_that_it_is_wrong(name):
    kernel = FAULTS[name][0]
    sizes = {size: 7 for size in kernel.sizes}
    assert verdict(as_written(kernel), sizes) == "derived"
