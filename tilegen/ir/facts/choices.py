"""When the condition of a choice holds, as far as it compares indices: cases, of which one is so."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from itertools import product

from tilegen.ir.affine import Affine, const
from tilegen.ir.nodes import Condition, Const, Expr, Index, Op

# Each case is a conjunction, and one of them holds.
Cases = tuple[tuple[Condition, ...], ...]
ALWAYS: Cases = ((),)
_MOST_CASES = 16


def cases_of(condition: Expr) -> tuple[Cases, Cases]:
    """When a condition is true, and when it is false, as far as it compares indices; what else it says is left out."""
    match condition:
        case Op("not", (arg,)):
            true, false = cases_of(arg)
            return false, true
        case Op("and", (one, two)):
            (true, false), (also, nor) = cases_of(one), cases_of(two)
            return both(true, also), _any(false, nor)
        case Op("or", (one, two)):
            (true, false), (also, nor) = cases_of(one), cases_of(two)
            return _any(true, also), both(false, nor)
        case Op("<" | "<=" | ">" | ">=" | "==" | "!=" as word, (left, right)):
            first, second = _affine(left), _affine(right)
            if first is not None and second is not None:
                return _compare_cases(word, first - second)
    return ALWAYS, ALWAYS


def _compare_cases(word: str, difference: Affine) -> tuple[Cases, Cases]:
    """When the difference of the two sides is as `word` says, and when it is not."""
    less, equal, more = Condition(-difference - 1), Condition(difference, equal=True), Condition(difference - 1)
    at_most, at_least = Condition(-difference), Condition(difference)
    match word:
        case "<":
            return ((less,),), ((at_least,),)
        case "<=":
            return ((at_most,),), ((more,),)
        case ">":
            return ((more,),), ((at_most,),)
        case ">=":
            return ((at_least,),), ((less,),)
        case "==":
            return ((equal,),), ((less,), (more,))
        case "!=":
            return ((less,), (more,)), ((equal,),)
        case _:
            raise TypeError(word)


def _affine(value: Expr) -> Affine | None:
    match value:
        case Index(index):
            return index
        case Const(int(number), _):
            return const(number)
        case _:
            return None


def tests_of(condition: Expr) -> tuple[Condition, ...] | None:
    """The tests, none of them an equality, that make up a condition; None where it is more than that."""
    match condition:
        case Op("and", (one, two)):
            first, second = tests_of(one), tests_of(two)
            return None if first is None or second is None else first + second
        case Op("<" | "<=" | ">" | ">=" as word, (left, right)):
            first_side, second_side = _affine(left), _affine(right)
            if first_side is not None and second_side is not None:
                return _compare_cases(word, first_side - second_side)[0][0]
    return None


def condition_of(tests: Iterable[Condition]) -> Expr:
    """A condition that holds where all the tests do."""
    return all_of(map(_comparison, tests))


def all_of(parts: Iterable[Expr]) -> Expr:
    """All of the parts, of which there is one at least."""
    return reduce(lambda a, b: Op("and", (a, b), "bool"), parts)


def comparison(word: str, left: Affine, right: Affine) -> Condition:
    """`left word right`, but for `!=`, over the integers."""
    ((condition,),) = _compare_cases(word, left - right)[0]
    return condition


def _comparison(test: Condition) -> Expr:
    """The test as a value, with the terms of each sign on their own side."""
    low, high = test.value.sides()
    constant = test.value.const
    if test.equal:
        return Op("==", (Index(high + max(0, constant)), Index(low + max(0, -constant))), "bool")
    if low.is_const:
        return Op(">=", (Index(high), Index(const(-constant))), "bool")
    return Op("<", (Index(low + max(0, -constant - 1)), Index(high + max(0, constant + 1))), "bool")


def negations(condition: Condition) -> tuple[Condition, ...]:
    """The conditions of which one holds where this one does not."""
    value = condition.value
    return (Condition(value - 1), Condition(-value - 1)) if condition.equal else (Condition(-value - 1),)


def tests_behind_else(tests: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """What is known where not all of the tests hold: of one inequality, its contrary; of others nothing."""
    return negations(tests[0]) if len(tests) == 1 and not tests[0].equal else ()


def both(one: Cases, two: Cases) -> Cases:
    """When one of each is the case; only the first where there are too many ways, which says less."""
    ways = tuple(tuple(dict.fromkeys(a + b)) for a, b in product(one, two))
    return ways if len(ways) <= _MOST_CASES else one


def _any(one: Cases, two: Cases) -> Cases:
    return tuple(dict.fromkeys(one + two))
