"""Prefixes made of other results: what makes them the kernel's, and what is said where they are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.enumeration.runs import verdict
from tilegen import load
from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Condition
from tilegen.ir.parts.derived import RoundedUp
from tilegen.ir.reductions.rounded import round_up_range
from tilegen.ir.walk import rewrite, substitute
from tilegen.ir.written import tree_of
from tilegen.judge import judge
from tilegen.schedule import apply

TEXT = """
kernel sums(x: f32[M, N]) -> y: f32[M, N]:
    y[r, i] = sum[k <= i](x[r, k])

schedule running for sums():
    scan(y) -> run

schedule tiles for sums():
    split_scan(y, 4) -> total, local, ahead

schedule both for sums():
    split_scan(y, 4) -> total, local, ahead
    scan(local, along=total)
"""
MODULE = parse(Source("sums.tg", TEXT))
RUNNING, TILES, BOTH = (apply(build(MODULE.kernels["sums"]), s).tree.kernel for s in MODULE.schedules)


def changed(kernel, target, **how):
    equations = tuple(replace(e, **how) if e.target == target else e for e in kernel.equations)
    assert equations != kernel.equations
    return replace(kernel, equations=equations)


def equation(kernel, target):
    return next(e for e in kernel.equations if e.target == target)


def faults():
    """(name, a derived kernel that is wrong, words of the sentence, words of the witness)."""
    yield "stale", changed(RUNNING, "y", inclusive=False), "never runs", "y(r=0, i=0, k=0) is missing"
    ahead = changed(BOTH, "local", inclusive=False)
    yield "stale in a tile", ahead, "never runs", "local(r=0, io=0, ii=0, ki=0) is missing"
    for name, less, word in (("one more", 0, "does not have"), ("one less", 2, "never runs")):
        ko, io = var("ahead.ko"), var("ahead.io")
        yield f"{name} tile before", changed(TILES, "ahead", conditions=(Condition(io - ko - less),)), word, "y(r=0"
        ki, ii = var("local.ki"), var("local.ii")
        tail = equation(TILES, "local").conditions[1:]
        limits = changed(TILES, "local", conditions=(Condition(ii - ki + 1 - less), *tail))
        yield f"{name} in a tile", limits, word, "k="
    tail = equation(TILES, "total").conditions
    yield (
        "wrong total",
        changed(TILES, "total", conditions=(*tail, Condition(2 - var("total.ki")))),
        "never runs",
        "k=3",
    )
    (load,) = (equation(TILES, "ahead").value,)
    same = changed(TILES, "ahead", value=replace(load, index=(load.index[0], var("ahead.io"))))
    yield "total of one tile", same, "does not have", None
    old = equation(TILES, "y").value
    row = rewrite(
        old, lambda v: replace(v, index=(const(0), *v.index[1:])) if getattr(v, "buffer", "") == "ahead" else v
    )
    yield "of another row", changed(TILES, "y", value=row), "other terms", None
    yield "other operation", changed(TILES, "y", value=replace(old, name="max")), "more than results", None
    yield "other reduction", changed(TILES, "ahead", reduce="max"), "is no sum", None
    place = equation(TILES, "y").index
    yield "another place", changed(TILES, "y", index=(place[0], place[1] + 1)), "not regrouped where it is", None
    few = (*equation(TILES, "y").conditions, Condition(var("N") - 9))
    yield "not all points", changed(TILES, "y", conditions=few), "never runs", "missing"
    yield "more sizes", replace(TILES, assumptions=(Condition(var("N") - 9),)), "more than 'y' regrouped", None
    tensors = tuple(replace(t, role="output") if t.name == "total" else t for t in TILES.tensors)
    yield "an output", replace(TILES, tensors=tensors), "more than 'y' regrouped", None
    other = changed(RUNNING, "y", value=replace(equation(RUNNING, "y").value, index=(const(0),)))
    yield "runs in another row", other, "in the loop that reduces it", None


LINEAR = """
kernel f(a: f32[N], b: f32[N]) -> y: f32[N]:
    y[i] = a[i] * (y[i - 1] else 0) + b[i]

schedule running for f():
    scan(y) -> run

schedule tiles for f():
    split_scan(y, 4) -> total, local, ahead, factor, factors
"""
STEPS, PAIRS = (load(LINEAR).schedule(name).tree.kernel for name in ("running", "tiles"))


def shifted(kernel):
    """The same, and the first element is made of one that nothing defines."""
    tensors = tuple(replace(t, shape=(var("N") + 1,)) if t.name == "y" else t for t in kernel.tensors)
    equations = rewrite(
        kernel.equations,
        lambda v: (
            replace(v, index=(v.index[0] + 1,)) if "y" in (getattr(v, "buffer", ""), getattr(v, "target", "")) else v
        ),
    )
    return replace(kernel, tensors=tensors, equations=equations, origin=kernel.origin and shifted(kernel.origin))


def linear_faults():
    """The same of a linear recurrence: what its groups are made of, and that they keep their order."""
    yield "stale element", changed(STEPS, "y", inclusive=False), "never runs", "y(i=0, k=0) is missing"
    run = equation(STEPS, "run")
    yield "term for factor", changed(STEPS, "run", arg=run.value), "other terms", None
    back = {"run.o": const(0), "y.o": const(0), run.reduced[0].name: var("N") - 1 - var(run.reduced[0].name)}
    turned = changed(STEPS, "run", value=substitute(run.value, back), arg=substitute(run.arg, back))
    yield "turned", turned, "other terms", None
    whole, both = equation(PAIRS, "y").value.args
    by, before = whole.args
    first = changed(PAIRS, "y", value=replace(whole, name="+", args=(replace(whole, args=(by, both)), before)))
    yield "first what is last", first, "factor of another", None
    tail = equation(PAIRS, "factors").conditions[1:]
    less = (Condition(var("factors.ii") - var("factors.ki") - 1), *tail)
    yield "one factor less", changed(PAIRS, "factors", conditions=less), "factor of another", None
    yield "sum of factors", changed(PAIRS, "factor", reduce="sum"), "is no prod", None
    yield "factor for total", changed(PAIRS, "ahead", arg=equation(PAIRS, "ahead").value), "is no prod", None
    yield "sum of groups", changed(PAIRS, "y", value=replace(whole, name="+", args=(before, both))), "more than", None
    groups = PAIRS
    for name in ("total", "factor"):
        old, at = equation(groups, name), {f"{name}.ki": 3 - var(f"{name}.ki")}
        groups = changed(groups, name, value=substitute(old.value, at), arg=substitute(old.arg, at),
                         conditions=substitute(old.conditions, at))  # fmt: skip
        made = groups.derived
        terms = tuple((n, substitute(t, at) if n == name else t) for n, t in made.terms)
        groups = replace(groups, derived=replace(made, terms=terms))
    yield "made of another element", shifted(STEPS), "the first element of the recurrence of 'y' is made of", None
    yield "turned groups", groups, "the order of the steps that build an element of 'y' changes", "must run before"


FAULTS = {name: rest for name, *rest in (*faults(), *linear_faults())}


@pytest.mark.parametrize("kernel", [RUNNING, TILES, BOTH, STEPS, PAIRS])
def test_a_second_opinion_agrees_that_they_are_right(kernel):
    assert judge(tree_of(kernel)) is None
    for number in (1, 4, 7):
        assert verdict(tree_of(kernel), {"M": 2, "N": number}) is None


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_what_is_not_the_prefix_is_refused(name):
    kernel, sentence, witness = FAULTS[name]
    violation = judge(tree_of(kernel))
    assert violation is not None
    assert sentence in violation.sentence, violation
    assert witness is None or witness in violation.witness, violation


@pytest.mark.parametrize(
    "name",
    ["stale", "stale in a tile", "one more tile before", "one less tile before", "one less in a tile", "wrong total",
     "of another row", "other operation", "another place", "stale element", "term for factor", "turned",
     "first what is last", "one factor less", "sum of factors", "sum of groups", "turned groups"],
)  # fmt: skip
def test_a_second_opinion_agrees_that_it_is_wrong(name):
    assert verdict(tree_of(FAULTS[name][0]), {"M": 2, "N": 9}) in ("derived", "bounds")


def test_what_runs_keeps_its_terms():
    """More of them, or fewer, in another loop, and what reads it would read something else."""
    for made in (RoundedUp("total", "total.ki", 8), RoundedUp("total", "total.ki", 4)):
        violation = judge(tree_of(round_up_range(BOTH, made)))
        assert violation.sentence == "'local' reads 'total' while that runs, so that 'total' stays as it is"
