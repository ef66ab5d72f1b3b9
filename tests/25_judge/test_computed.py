"""Values computed at loops: what makes them those of the kernel as written, and what is said where they are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.enumeration.runs import verdict
from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.ir.affine import const, var
from tilegen.ir.facts.choices import condition_of
from tilegen.ir.nodes import Condition, Const, Load, Op, Tensor
from tilegen.ir.walk import rewrite, substitute
from tilegen.ir.written import tree_of
from tilegen.judge import judge
from tilegen.schedule import apply

TEXT = """
kernel ends(X: f32[N + 2]) -> Y: f32[N]:
    var P: f32[N + 1]
    P[i] = X[i + 1] - X[i]
    Y[i] = P[i + 1] * P[i]

schedule tiles for ends():
    tile(Y.i, 4) -> b, t
    compute_at(P, at=b)

kernel sums(A: f32[M, K]) -> Y: f32[M]:
    var P: f32[M]
    P[i] = sum[k](A[i, k]) for k <= i
    Y[i] = P[i] * 2.0

schedule parts for sums():
    tile(Y.i, 4) -> b, t
    compute_at(P, at=b)

kernel border(X: f32[N]) -> Y: f32[N]:
    var P: f32[N]
    P[i] = X[i] * 2.0
    Y[i] = P[i] + (P[i + 1] else 3.0)

schedule edges for border():
    tile(Y.i, 4) -> b, t
    compute_at(P, at=b)

kernel totals(A: f32[M, K]) -> Y: f32[M]:
    var P: f32[M]
    P[i] = sum[k](A[i, k])
    Y[i] = P[i] + (P[i + 1] else 0.0)

schedule ends for totals():
    tile(Y.i, 4) -> b, t
    compute_at(P, at=b)

kernel plane(A: f32[M, K]) -> Y: f32[M]:
    var P: f32[M, K]
    P[r, c] = A[r, c] * 2.0
    Y[i] = sum[k](P[i, k])

schedule columns for plane():
    round_up(k, 8)
    cache_global(P, layout=[c, r], tiles=[8, 1])
"""
MODULE = parse(Source("computed.tg", TEXT))


def derive(number):
    schedule = MODULE.schedules[number]
    return apply(build(MODULE.kernels[schedule.kernel]), schedule).tree.kernel


def with_equation(kernel, target, **changes):
    return replace(
        kernel, equations=tuple(replace(e, **changes) if e.target == target else e for e in kernel.equations)
    )


def read_at(kernel, change):
    """The kernel with every element of P that Y reads changed."""

    def change_load(value):
        return change(value) if isinstance(value, Load) and value.buffer == "P" else value

    return with_equation(kernel, "Y", value=rewrite(kernel.equations[1].value, change_load))


def at(kernel, place):
    """The kernel with P computed at another place."""
    moved = replace(kernel, derived=replace(kernel.derived, point=(place,)))
    value = substitute(kernel.origin.equations[0].value, {kernel.origin.equations[0].loops[0].name: place})
    return with_equation(moved, "P", value=value)


def shorter(kernel):
    """The kernel with a box that is too small by one."""
    across, box = kernel.equations[0].loops
    tensors = tuple(replace(t, shape=(t.shape[0], const(4))) if t.name == "P" else t for t in kernel.tensors)
    return with_equation(replace(kernel, tensors=tensors), "P", loops=(across, replace(box, extent=const(4))))


def faults():
    """(name, a derived kernel that is wrong, words of the sentence, words of the witness)."""
    right = derive(0)
    b, i = (var(r.name) for r in right.equations[0].loops)
    yield "too small", shorter(right), "'P' is read where it is not computed", "Y(i=3) reads it (N=4)"
    less = with_equation(right, "P", conditions=(Condition(var("N") - 1 - b * 4 - i),))
    yield "not at the end", less, "'P' is read where it is not computed", "Y(i=0) reads it (N=1)"
    yield "past the end", with_equation(right, "P", conditions=()), "where the kernel as written does not", "P("
    yield "another place", at(right, b * 5 + i), "reads others of it", None
    yield "another value", with_equation(right, "P", value=Load("X", (b * 4 + i,), "f32")), "is not computed as", None
    moved = read_at(right, lambda load: replace(load, index=(load.index[0], load.index[1] + 1)))
    yield "a neighbour", moved, "reads others of it", None
    tile = read_at(right, lambda load: replace(load, index=(load.index[0] + 1, load.index[1] - 4)))
    yield "of another tile", tile, "'P' is read where it is not computed", "Y(i=0) reads it (N=1)"
    yield "outside", read_at(right, lambda load: replace(load, fallback=Const(0.0, "f32"))), "reads others of it", None
    yield "more sizes", replace(right, assumptions=(Condition(var("N") - 9),)), "reads others of it", None
    extra = Tensor("Z", "f32", (const(1),), "intermediate", (0,))
    yield "more tensors", replace(right, tensors=(*right.tensors, extra)), "reads others of it", None
    output = tuple(replace(t, role="output") if t.name == "P" else t for t in right.tensors)
    yield "an output", replace(right, tensors=output), "reads others of it", None
    yield "unknown", replace(right, derived=None), "it is not known how", None
    yield "of nothing", replace(right.origin, derived=right.derived), "it is said how", None


def reduction_faults():
    """The same for a reduction that is computed at loops."""
    right = derive(1)
    first = right.equations[0]
    (k,) = first.reduced
    fewer = (*first.conditions, Condition(3 - var(k.name)))
    yield "fewer terms", with_equation(right, "P", conditions=fewer), "is not computed as", None
    more = tuple(c for c in first.conditions if k.name not in c.value.names())
    yield "more terms", with_equation(right, "P", conditions=more), "is not computed as", None
    short = (replace(k, extent=k.extent - 1),)
    yield "one term less", with_equation(right, "P", reduced=short), "is not computed as", None
    yield "another reduction", with_equation(right, "P", reduce="max"), "is not computed as", None


def border_faults():
    """The same where reads outside of the tensor give a constant, which is computed there."""
    right = derive(2)
    b, i = (var(r.name) for r in right.equations[0].loops)
    test, value, beyond = right.equations[0].value.args

    def choose(test, value, beyond):
        return with_equation(right, "P", value=replace(right.equations[0].value, args=(test, value, beyond)))

    def until(end):
        return condition_of([Condition(end - 1 - b * 4 - i)])

    assert test == until(var("N"))
    yield "another border", choose(test, value, Const(2.0, "f32")), "not what reads there give", None
    yield "a border too far out", choose(until(var("N") + 1), value, beyond), "does not have it", "P("
    yield "a border too far in", choose(until(var("N") - 1), value, beyond), "'P' is not computed inside", "P("
    loose = substitute(right.origin.equations[0].value, {right.origin.equations[0].loops[0].name: b * 4 + i})
    inside = (Condition(var("N") - 1 - b * 4 - i),)
    yield "no border", with_equation(right, "P", value=loose, conditions=inside), "read where it is not computed", "Y("
    yield "a value beyond", choose(test, loose, beyond), "is not computed as", None
    by_value = Op(">", (value.args[0], Const(0.0, "f32")), "bool")
    yield "a choice by values", choose(by_value, value, beyond), "what is no test of its place", None
    total = derive(3)
    first = total.equations[0]
    one = replace(first.value, args=(*first.value.args[:2], Const(1.0, "f32")))
    yield "terms beyond", with_equation(total, "P", value=one), "not what reads there give", None


def storage_faults():
    """The same for a tensor that is computed once, in another order and for whole tiles."""
    right = derive(4)
    first, second = right.equations
    p = right.tensor("P")
    assert p.order == (1, 0)

    def with_tensor(**changes):
        return replace(right, tensors=tuple(replace(t, **changes) if t is p else t for t in right.tensors))

    yield "an order of one dimension", with_tensor(order=(1, 1)), "reads others of it", None
    yield "longer than its loops", with_tensor(shape=(p.shape[0] + 1, p.shape[1])), "reads others of it", None
    test, value, beyond = first.value.args
    ones = replace(first.value, args=(test, value, Const(1.0, "f32")))
    yield "ones beyond", with_equation(right, "P", value=ones), "not what reads there give", None
    (k,) = second.reduced
    tiles = tuple(replace(r, extent=r.extent + 8) for r in second.reduced)
    yield "one tile more", with_equation(right, "Y", reduced=tiles), "reads others of it", None
    short = (first.loops[0], replace(first.loops[1], extent=var("K")))
    columns = replace(with_tensor(shape=(p.shape[0], var("K"))), equations=(replace(first, loops=short), second))
    yield "no whole tiles", columns, "'P' is read where it is not computed", "Y("


FAULTS = {name: rest for name, *rest in (*faults(), *reduction_faults(), *border_faults(), *storage_faults())}


@pytest.mark.parametrize("number", range(len(MODULE.schedules)))
def test_a_second_opinion_agrees_that_they_are_right(number):
    tree = tree_of(derive(number))
    assert judge(tree) is None
    assert tree.kernel.written_kernel == build(MODULE.kernels[MODULE.schedules[number].kernel])
    for first in (1, 4, 7):
        assert verdict(tree, {size: first + n for n, size in enumerate(tree.kernel.sizes)}) is None


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_what_is_not_the_kernel_is_refused(name):
    kernel, sentence, witness = FAULTS[name]
    violation = judge(tree_of(kernel))
    assert violation is not None
    assert sentence in violation.sentence, violation
    if witness:
        assert witness in violation.witness, violation


@pytest.mark.parametrize(
    "name",
    [
        "too small",
        "not at the end",
        "another place",
        "another value",
        "a neighbour",
        "of another tile",
        "more terms",
        "another border",
        "a border too far out",
        "a border too far in",
        "terms beyond",
    ],  # fmt: skip
)
def test_a_second_opinion_agrees_that_it_is_wrong(name):
    kernel = FAULTS[name][0]
    assert verdict(tree_of(kernel), {size: 7 for size in kernel.sizes}) == "derived"
