"""What rows plainly say, without isl: most questions are answered here, with "impossible".

An equality is read as one reads the digits of a number:

    16*ci + 4*(lane/8) + vi  ==  16*ci' + 4*(lane'/8) + vi'     with lane/8 < 4 and vi < 4

says three things, ci == ci', lane/8 == lane'/8 and vi == vi'. An equality that no longer comes apart says what one of
its names is, and the name is replaced by that. Inequalities are held against the ranges of their names, and one
with a size against another that bounds the same size from the other side. "Possible" is never concluded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import gcd

Terms = tuple[tuple[str, int], ...]
# (is an equality, terms, constant): sum of terms + constant == 0, or >= 0.
Row = tuple[bool, Terms, int]
Sums = dict[str, int]

# Equalities that are looked at before a question is left to isl.
STEPS = 100


class Plain:
    """What rows say of their names.

    Attributes:
        impossible: no integers satisfy the rows.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self.impossible = False
        self._low: dict[str, int] = {}
        self._high: dict[str, int] = {}
        self._values: dict[str, tuple[Sums, int]] = {}  # names, and the sums that are put in their places
        # By a name without end and its factor, the inequalities that bound it.
        self._sized: dict[tuple[str, int], list[tuple[Sums, int]]] = {}
        equal: list[tuple[Sums, int]] = []
        least: dict[Terms, int] = {}
        for is_equal, terms, constant in rows:
            if is_equal:
                equal.append((dict(terms), constant))
            elif len(terms) == 1:
                self._bound(*terms[0], constant)
            elif constant < least.get(terms, constant + 1):
                least[terms] = constant
        self._solve([*equal, *self._remainders(least)])
        self.impossible = self.impossible or self._contradicted(least)

    def zero(self, terms: Terms, constant: int) -> bool:
        """True if the sum is certain to be zero."""
        sums, constant = self._replaced(dict(terms), constant)
        return self.impossible or (not sums and constant == 0)

    def certain(self, rows: Iterable[Row]) -> bool:
        """True if each of these rows is certain to hold, too."""
        for equal, terms, constant in rows:
            sums, constant = self._replaced(dict(terms), constant)
            if equal and (sums or constant):
                return self.impossible
            if not equal and not self._negative(_opposite(sums), -constant - 1):
                return self.impossible
        return True

    # -- ranges

    def _bound(self, name: str, factor: int, constant: int) -> None:
        """factor * name + constant >= 0."""
        if factor > 0:
            low = -(constant // factor)
            if low > self._low.get(name, low - 1):
                self._low[name] = low
                self.impossible = self.impossible or low > self._high.get(name, low)
        else:
            high = constant // -factor
            if high < self._high.get(name, high + 1):
                self._high[name] = high
                self.impossible = self.impossible or high < self._low.get(name, high)

    def _most(self, sums: Sums, constant: int) -> int | None:
        """The greatest value that the ranges of the names allow; None if there is none."""
        for name, factor in sums.items():
            end = (self._high if factor > 0 else self._low).get(name)
            if end is None:
                return None
            constant += factor * end
        return constant

    # -- equalities

    def _remainders(self, least: dict[Terms, int]) -> Iterator[tuple[Sums, int]]:
        """For each division an equality that gives its remainder a name."""
        for number, (terms, constant) in enumerate(least.items()):
            quotient, factor = terms[-1] if terms else ("", 0)
            if factor < 0 and "/" in quotient and least.get(_negative(terms)) == -factor - 1 - constant:
                rest = f"%{number}"
                self._low[rest], self._high[rest] = 0, -factor - 1
                divided = dict(terms[:-1])
                high, low = self._most(divided, constant), self._most(_opposite(divided), -constant)
                if high is not None:
                    self._bound(quotient, -1, high // -factor)
                if low is not None:
                    self._bound(quotient, 1, -(-low // -factor))
                yield {**dict(terms), rest: -1}, constant

    def _solve(self, waiting: list[tuple[Sums, int]]) -> None:
        steps = STEPS
        while waiting and steps and not self.impossible:
            sums, constant = self._replaced(*waiting.pop())
            common = gcd(*sums.values())
            if not common or constant % common:
                self.impossible = constant != 0
            elif common == 1:
                waiting += self._said(sums, constant)
            else:
                waiting += self._said({n: f // common for n, f in sums.items()}, constant // common)
            steps -= 1

    def _said(self, sums: Sums, constant: int) -> list[tuple[Sums, int]]:
        """The equalities that `sums + constant == 0` comes apart into; what a name is, if it does not."""
        for scale in sorted({abs(f) for f in sums.values()} - {1}, reverse=True):
            parts = self._apart(sums, constant, scale)
            if parts:
                return parts
        units = [n for n, f in sums.items() if f in (1, -1)]
        if units:
            # The ranges of the names that stay are what is known in the end.
            name = next((n for n in units if n not in self._low), units[0])
            factor = -sums.pop(name)
            self._values[name] = ({n: f * factor for n, f in sums.items()}, constant * factor)
            for other, (inner, c) in self._values.items():
                if name in inner:
                    self._values[other] = self._replaced(inner, c)
        return []

    def _apart(self, sums: Sums, constant: int, scale: int) -> list[tuple[Sums, int]]:
        """The multiples of `scale` in the sum, and the rest, if only one multiple can make up for the rest."""
        rest = {n: f for n, f in sums.items() if f % scale}
        if not rest:
            return []
        left = constant % scale
        high, low = self._most(rest, left), self._most(_opposite(rest), -left)
        if high is None or low is None or high // scale > -(low // scale):
            return []
        if high // scale < -(low // scale):
            return [({}, 1)]
        only = high // scale * scale
        multiples = {n: f for n, f in sums.items() if not f % scale}
        return [(rest, left - only), (multiples, constant - left + only)]

    def _replaced(self, sums: Sums, constant: int) -> tuple[Sums, int]:
        """The sum with what names are in their places."""
        if self._values.keys().isdisjoint(sums):
            return sums, constant
        new: Sums = {}
        for name, factor in sums.items():
            value = self._values.get(name)
            if value is None:
                new[name] = new.get(name, 0) + factor
                continue
            constant += factor * value[1]
            for n, f in value[0].items():
                new[n] = new.get(n, 0) + factor * f
        return {n: f for n, f in new.items() if f}, constant

    # -- inequalities

    def _contradicted(self, least: dict[Terms, int]) -> bool:
        """True if one of the inequalities, or the sum of two, is negative for certain."""
        # What a question adds to what is always so comes last.
        for terms, constant in reversed(least.items()):
            sums, constant = self._replaced(dict(terms), constant)
            if self._negative(sums, constant):
                return True
            for name, factor in sums.items():
                if name not in self._low or name not in self._high:
                    self._sized.setdefault((name, factor), []).append((sums, constant))
        return False

    def _negative(self, sums: Sums, constant: int) -> bool:
        """True if the sum is negative for certain, by the ranges or by what bounds a size from the other side."""
        size = next((n for n, f in sums.items() if n not in (self._high if f > 0 else self._low)), None)
        if size is None:
            most = self._most(sums, constant)
            return most is not None and most < 0
        for other, c in self._sized.get((size, -sums[size]), ()):
            both = dict(sums)
            for n, f in other.items():
                both[n] = both.get(n, 0) + f
            most = self._most({n: f for n, f in both.items() if f}, constant + c)
            if most is not None and most < 0:
                return True
        return False


def _opposite(sums: Sums) -> Sums:
    return {n: -f for n, f in sums.items()}


def _negative(terms: Terms) -> Terms:
    return tuple((n, -f) for n, f in terms)
