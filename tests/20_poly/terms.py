"""Symbolic values for the second opinion on legality."""

from __future__ import annotations


class Terms:
    """Symbolic values, each structure one number, so that comparing them is cheap."""

    def __init__(self):
        self.numbers, self.known = {}, []

    def of(self, *term):
        if term not in self.numbers:
            self.numbers[term] = len(self.known)
            self.known += [term]
        return self.numbers[term]

    def bag(self, reduce, old, value):
        """The terms of `old` and `value`, in no order, under the word of their reduction."""
        known = self.known[old]
        parts = known[2] if known[:2] == ("bag", reduce) else (old,)
        return self.of("bag", reduce, tuple(sorted((*parts, value))))

    def best(self, stmt, reordered, best, value, arg, index):
        """The new best value and its index."""
        if stmt.name in reordered:
            place = self.of("at", value, index)
            return self.bag(stmt.reduce, best, value), self.bag(stmt.reduce, arg, place)
        return self.of("best", stmt.reduce, best, value), self.of("arg", stmt.reduce, best, value, arg, index)

    def together(self, reduce, old, value):
        """As `bag`, with the terms of a value that is itself such a bag; an empty one has no word yet.

        Zeros are no terms of a sum.
        """
        if reduce == "sum" and self.known[value] == ("const", 0):
            return old
        parts = self.known[value][2] if self.known[value][:2] in (("bag", reduce), ("bag", None)) else (value,)
        every = tuple(sorted((*self.known[old][2], *parts)))
        return self.of("bag", reduce if every else None, every)
