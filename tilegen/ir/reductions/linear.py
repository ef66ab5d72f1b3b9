"""Linear recurrences, y[i] = a[i] * y[i - 1] + b[i], as running reductions.

Each element is what steps up to it make of 0. A step is a pair of a factor and a term, and two of them, one after
another, are one: (a2, b2) after (a1, b1) is (a2*a1, a2*b1 + b2). That is associative, so that steps may be taken
together in groups, and not commutative, so that they keep their order.

A reduction is `linear` in an equation that steps have made of such a recurrence: its value is the term, and its `arg`
the factor. No kernel is written so.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.affine import Affine, var
from tilegen.ir.facts.choices import Cases, cases_of
from tilegen.ir.nodes import Condition, Const, Equation, Expr, Load, Op, Range
from tilegen.ir.walk import loads, substitute

LINEAR = "linear"
# A factor and a term; None is a factor of 0, or no term.
_Step = tuple[Expr | None, Expr | None]


def running_form(equation: Equation) -> Equation | None:
    """The linear reduction over k <= i that a recurrence along `i` is; None where it is more than that.

    Whether the first element is made of 0 is not asked here.
    """
    if equation.carried != 1 or equation.reduce or equation.hits:
        return None
    i = equation.loops[0]
    if any(i.name in c.value.names() for c in equation.conditions):
        return None
    before = previous(equation)
    if (step := _step(equation.value, equation.target, before, i.name)) is None or step[0] is None:
        return None
    factor, term = step
    k = Range(f"{i.name}.before", i.extent, "k" if i.index != "k" else "j")
    at = {i.name: var(k.name)}
    return replace(
        equation,
        value=substitute(term or Const(0, equation.value.dtype), at),
        reduce=LINEAR,
        arg=substitute(factor, at),
        reduced=(k,),
        conditions=(*equation.conditions, Condition(var(i.name) - var(k.name))),
        carried=0,
    )


def previous(equation: Equation) -> tuple[Affine, ...]:
    """The element of the target an iteration before in the outermost loop."""
    i = equation.loops[0].name
    return substitute(equation.index, {i: var(i) - 1})


def words_of_blocks(blocks: Affine, reduce: str | None) -> Affine:
    """How many words blocks tell each other a running value in: one that counts them, and one or two for each."""
    return blocks * (2 if reduce == LINEAR else 1) + 1


def after_step(factor: Expr, old: Expr, term: Expr) -> Expr:
    """What a step makes of a value."""
    return Op("+", (Op("*", (factor, old), old.dtype), term), old.dtype)


def _step(value: Expr, target: str, before: tuple[Affine, ...], i: str) -> _Step | None:
    """What `value` multiplies the element before by, and what it adds; None where it does something else with it."""

    def reads(*values: Expr) -> bool:
        return any(load.buffer == target for load in loads(values))

    def step(value: Expr) -> _Step | None:
        return _step(value, target, before, i)

    if not reads(value):
        return None, value
    match value:
        case Load(index=index, fallback=fallback):
            here = index == before and (fallback is None or fallback.value == 0)
            return (Const(1, value.dtype), None) if here else None
        case Op("neg", (arg,)) if found := step(arg):
            return _negative(found[0]), _negative(found[1])
        case Op("+" | "-" as name, (left, right)) if (one := step(left)) and (two := step(right)):
            factor, term = (_sum(name, *pair) for pair in zip(one, two, strict=True))
            return factor, term
        case Op("*", (left, right)) if not reads(left) and (found := step(right)):
            return _product(left, found[0]), _product(left, found[1])
        case Op("*", (left, right)) if not reads(right) and (found := step(left)):
            return _product(found[0], right), _product(found[1], right)
        case Op("select", (test, *arms)) if not reads(test):
            return _chosen(test, [(step(arm), cases) for arm, cases in zip(arms, cases_of(test), strict=True)], i)
        case _:
            return None


def _negative(value: Expr | None) -> Expr | None:
    return value and Op("neg", (value,), value.dtype)


def _sum(name: str, one: Expr | None, two: Expr | None) -> Expr | None:
    if one is None:
        return two if name == "+" else _negative(two)
    return one if two is None else Op(name, (one, two), one.dtype)


def _product(one: Expr | None, two: Expr | None) -> Expr | None:
    if one is None or two is None:
        return None
    if isinstance(two, Const) and two.value == 1:
        return one
    return two if isinstance(one, Const) and one.value == 1 else Op("*", (one, two), two.dtype)


def _chosen(test: Expr, arms: list[tuple[_Step | None, Cases]], i: str) -> _Step | None:
    """A choice of steps. One that does not go on from the element before is for the first iteration alone, where that
    is 0: elsewhere it may be infinite, and 0 times it nan."""
    first = (Condition(var(i), equal=True), Condition(-var(i), equal=True), Condition(-var(i)))
    factors, terms = [], []
    for step, cases in arms:
        if step is None or step[0] is None and not all(any(c in first for c in case) for case in cases):
            return None
        factors.append(step[0])
        terms.append(step[1])
    return _select(test, factors), _select(test, terms)


def _select(test: Expr, arms: list[Expr | None]) -> Expr | None:
    dtype = next((arm.dtype for arm in arms if arm), None)
    if dtype is None:
        return None
    one, two = (arm or Const(0, dtype) for arm in arms)
    return Op("select", (test, one, two), dtype)
