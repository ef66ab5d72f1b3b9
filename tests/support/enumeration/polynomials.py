"""Values of a kernel as polynomials in what its inputs are: how linear recurrences are the same in any grouping."""

from __future__ import annotations

from tests.support.enumeration.machine import Run
from tilegen.ir.nodes import Const, Load, Op
from tilegen.ir.written import tree_of


class Polynomials(Run):
    """A kernel whose sums, products and linear steps are multiplied out; anything else is an unknown of its own.

    A condition is one that is 0 or 1: a choice is the one times it and the other times the rest.
    """

    def __init__(self, kernel, sizes, terms):
        self.tests = set()
        super().__init__(tree_of(kernel), sizes, frozenset(), terms)

    def _value(self, expr, env, path):
        match expr:
            case Const(value, _) if value == int(value):
                return self._number({(): int(value)})
            case Op("+" | "-" | "*" | "neg" as name, args):
                first, *rest = (self._value(a, env, path) for a in args)
                if name == "neg":
                    return self._product(self._number({(): -1}), first)
                if name == "*":
                    return self._product(first, *rest)
                return self._sum(first, *(self._product(self._number({(): -1 if name == "-" else 1}), r) for r in rest))
            case Op("select", (test, *arms)):
                found = self._value(test, env, path)
                one, two = (self._value(arm, env, path) for arm in arms)
                if self.terms.known[found][0] == "truth":
                    return one if self.terms.known[found][1] else two
                self.tests.add(found)
                return self._sum(self._product(found, one), two, self._product(self._number({(found,): -1}), two))
            case Load(fallback=Const(value)) if not self._place(expr, env)[2]:
                return self._number({(): value})
            case _:
                return super()._value(expr, env, path)

    def _stmt(self, stmt, env, path):
        if stmt.reduce not in ("sum", "prod", "linear"):
            super()._stmt(stmt, env, path)
            return
        old, value = self._read(stmt.target, env, path), self._value(stmt.value, env, path)
        factor = self._value(stmt.arg, env, path) if stmt.arg else None
        match stmt.reduce:
            case "sum":
                new = self._sum(old, value)
            case "prod":
                new = self._product(old, value)
            case "linear":
                new = self._sum(self._product(factor, old), value)
        self._write(stmt.target, new, env, path)

    def _known(self, number):
        """The factors of each term, and how often it is there."""
        word, *rest = self.terms.known[number]
        return dict(rest[0]) if word == "polynomial" else {(number,): 1}

    def _number(self, known):
        left = tuple(sorted((term, count) for term, count in known.items() if count))
        alone = len(left) == 1 and left[0][1] == len(left[0][0]) == 1
        return left[0][0][0] if alone else self.terms.of("polynomial", left)

    def _sum(self, *numbers):
        found = {}
        for number in numbers:
            for term, count in self._known(number).items():
                found[term] = found.get(term, 0) + count
        return self._number(found)

    def _product(self, one, two):
        found = {}
        for first, count in self._known(one).items():
            for second, times in self._known(two).items():
                both = [*first, *(each for each in second if each not in self.tests or each not in first)]
                term = tuple(sorted(both))
                found[term] = found.get(term, 0) + count * times
        return self._number(found)
