"""Symbolic values for the second opinion on legality."""

from __future__ import annotations

from math import inf

COMPARE = {"<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__, "==": int.__eq__, "!=": int.__ne__}


NOTHING = {"sum": 0, "prod": 1, "max": -inf, "min": inf}  # the result of no terms


class Terms:
    """Symbolic values, each structure one number, so that comparing them is cheap.

    Comparisons of indices are known, and so is what a choice between two values takes by them. Factors have no order,
    and a tf32 number has nothing to be cut off.
    """

    def __init__(self):
        self.numbers, self.known = {}, []
        self.asked = {}  # a term as it was asked for -> its number

    def of(self, *term):
        """The number of a term of other numbers."""
        number = self.asked.get(term)
        if number is None:
            number = self.asked[term] = self._find(term)
        return number

    def _find(self, term):
        match term:
            case ("tf32_rz", one) if self.known[one][0] in ("tf32", "tf32_rz") or self.known[one] == ("const", 0):
                return one
            case ("*", one, two) if one > two:
                term = "*", two, one
            case (word, left, right) if word in COMPARE and None not in (self._whole(left), self._whole(right)):
                term = "truth", COMPARE[word](self._whole(left), self._whole(right))
            case ("and" | "or" as word, one, two) if "truth" in (self.known[one][0], self.known[two][0]):
                first, second = (one, two) if self.known[one][0] == "truth" else (two, one)
                return first if self.known[first][1] == (word == "or") else second
            case ("not", one) if self.known[one][0] == "truth":
                term = "truth", not self.known[one][1]
            case ("select", test, yes, no) if self.known[test][0] == "truth":
                return yes if self.known[test][1] else no
        if term not in self.numbers:
            self.numbers[term] = len(self.known)
            self.known += [term]
        return self.numbers[term]

    def _whole(self, number):
        """The integer that a term is; None where it is none that is known."""
        word, *rest = self.known[number]
        return rest[0] if word in ("index", "const") and isinstance(rest[0], int) else None

    def bag(self, reduce, old, *values):
        """The terms of `old` and the values, in no order, under the word of their reduction."""
        known = self.known[old]
        parts = known[2] if known[:2] in (("bag", reduce), ("bag", None)) else (old,)
        return self.of("bag", reduce, tuple(sorted((*parts, *values))))

    def best(self, stmt, reordered, best, value, arg, index):
        """The new best value and its index."""
        if stmt.name in reordered:
            place = self.of("at", value, index)
            return self.bag(stmt.reduce, best, value), self.bag(stmt.reduce, arg, place)
        return self.of("best", stmt.reduce, best, value), self.of("arg", stmt.reduce, best, value, arg, index)

    def together(self, reduce, old, value):
        """As `bag`, with the terms of a value that is itself such a bag; an empty one has no word yet.

        Zeros are no terms of a sum, and what changes no other reduction is none of that.
        """
        if self.known[value] == ("const", NOTHING.get(reduce)):
            return old
        parts = self.known[value][2] if self.known[value][:2] in (("bag", reduce), ("bag", None)) else (value,)
        every = tuple(sorted((*self.known[old][2], *parts)))
        return self.of("bag", reduce if every else None, every)
