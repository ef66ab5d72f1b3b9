"""Reads with a fallback become a choice: the element where the index is inside, else the fallback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilegen.ir.affine import Affine
from tilegen.ir.facts.choices import ALWAYS, Cases, both, cases_of, condition_of, tests_behind_else
from tilegen.ir.nodes import Buffer, Cast, Condition, Const, Expr, Gather, Load, Op
from tilegen.ir.walk import loads, rewrite
from tilegen.lowering.guards.guards import IsImplied, Tests
from tilegen.lowering.launch.program import Combine, For, If, Spmd, with_body


def choose(body: tuple[Spmd, ...], buffers: Mapping[str, Buffer], is_implied: IsImplied) -> tuple[Spmd, ...]:
    """`body` without fallbacks. What the tests around a read imply is not asked again."""
    return _choose(body, _Place(buffers, is_implied))


@dataclass(frozen=True)
class _Place:
    """What is known where a read stands: the tests around it, the loops, outermost first, and the cases of choices."""

    buffers: Mapping[str, Buffer]
    is_implied: IsImplied
    given: Tests = ()
    loops: tuple[str, ...] = ()
    cases: Cases = ALWAYS

    def with_cases(self, cases: Cases) -> _Place:
        """The arm of a choice that is taken in one of these cases."""
        return replace(self, cases=both(self.cases, cases))

    def is_certain(self, condition: Condition) -> bool:
        return all(self.is_implied(condition, self.given + case) for case in self.cases)

    def changes(self, condition: Condition) -> int:
        """How deep the innermost loop is that `condition` changes in."""
        names = condition.value.names()
        return max((depth for depth, name in enumerate(self.loops, 1) if name in names), default=0)


def _choose(body: tuple[Spmd, ...], place: _Place) -> tuple[Spmd, ...]:
    out: list[Spmd] = []
    for node in body:
        match node:
            case If(test=test, body=then, orelse=orelse):
                inner = _choose(then, replace(place, given=place.given + test))
                otherwise = replace(place, given=place.given + tests_behind_else(test))
                out.append(with_body(node, inner, _choose(orelse, otherwise)))
            case For(name=name):
                out.append(with_body(node, _choose(node.body, replace(place, loops=(*place.loops, name)))))
            case Combine(test=test):  # its tests stand around its value
                out.append(_without_fallbacks(node, replace(place, given=place.given + test)))
            case _:
                out.append(_without_fallbacks(node, place) if any(load.fallback for load in loads(node)) else node)
    return tuple(out)


def _without_fallbacks(node: Spmd, place: _Place) -> Spmd:
    whole = (Op, Cast, Gather)
    return rewrite(node, lambda v: _choices_for_fallbacks(v, place) if isinstance(v, (Load, *whole)) else v, whole)


def _choices_for_fallbacks(value: Expr, place: _Place) -> Expr:
    """`value` with choices in place of its fallbacks."""
    match value:
        case Op("select", (test, then, other)):
            true, false = cases_of(test)
            arms = (
                _choices_for_fallbacks(then, place.with_cases(true)),
                _choices_for_fallbacks(other, place.with_cases(false)),
            )
            return replace(value, args=(_choices_for_fallbacks(test, place), *arms))
        case Op("and" | "or" as word, (one, two)):
            # The second one is asked where the first one does not decide.
            second = _choices_for_fallbacks(two, place.with_cases(cases_of(one)[word == "or"]))
            return replace(value, args=(_choices_for_fallbacks(one, place), second))
        case Op(args=args):
            return replace(value, args=tuple(_choices_for_fallbacks(a, place) for a in args))
        case Cast(arg):
            return replace(value, arg=_choices_for_fallbacks(arg, place))
        case Gather(index=index, fallback=other):
            parts = tuple(_choices_for_fallbacks(i, place) for i in index)
            return replace(value, index=parts, fallback=other and _choices_for_fallbacks(other, place))
        case Load(fallback=Const()):
            return _guarded_choice(value, place)
        case _:
            return value


def _guarded_choice(load: Load, place: _Place) -> Expr:
    element = replace(load, fallback=None)
    assert load.fallback is not None
    if load.fallback.value != 0:
        place = replace(place, cases=ALWAYS)  # it is not what keeps a read in its tensor that a choice makes
    tests = [c for c in inside(place.buffers[load.buffer], load.index) if not place.is_certain(c)]
    if not tests:
        return element
    # What an inner loop does not change is tested first, once for all of its iterations.
    tests.sort(key=place.changes)
    return Op("select", (condition_of(tests), element, load.fallback), load.dtype)


def inside(buffer: Buffer, index: tuple[Affine, ...]) -> Tests:
    """The conditions that `index` is an element of `buffer`."""
    tests: Tests = ()
    for place, extent in zip(index, buffer.shape, strict=True):
        tests += (Condition(place), Condition(extent - 1 - place))
    return tests
