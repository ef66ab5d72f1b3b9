"""What rows plainly say, without isl: most questions are answered here, with "impossible".

An equality is read as one reads the digits of a number:

    16*ci + 4*(lane/8) + vi  ==  16*ci' + 4*(lane'/8) + vi'     with lane/8 < 4 and vi < 4

says three things, ci == ci', lane/8 == lane'/8 and vi == vi'. An equality that no longer comes apart says what one of
its names is, and the name is replaced by that. Inequalities are held against the ranges of their names, and one
with a size against another that bounds the same size from the other side. "Possible" is never concluded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from math import gcd

Terms = tuple[tuple[str, int], ...]
# (is an equality, terms, constant): sum of terms + constant == 0, or >= 0.
Row = tuple[bool, Terms, int]
Sums = dict[str, int]
# Names, each with the sum that it is.
Values = dict[str, tuple[Sums, int]]

# Equalities that are looked at before a question is left to isl.
STEPS = 100


class Plain:
    """What rows say of their names.

    Attributes:
        impossible: no integers satisfy the rows.
    """

    __slots__ = ("_given", "_high", "_low", "_sized", "_standing", "_values", "impossible")

    def __init__(self, rows: Iterable[Row]) -> None:
        self.impossible = False
        self._low: dict[str, int] = {}
        self._high: dict[str, int] = {}
        self._values: Values = {}  # names, and the sums that are put in their places
        self._given: dict[Terms, int] = {}  # the inequalities as they came
        self._standing: list[tuple[Sums, int]] = []  # and in the names that stay
        # By a name without end and its factor, the inequalities that bound it.
        self._sized: dict[tuple[str, int], tuple[tuple[Sums, int], ...]] = {}
        self._add(rows)

    def plus(self, rows: Iterable[Row]) -> Plain:
        """What these rows and `rows` say. What has been worked out stays: this is cheaper than to begin anew."""
        if self.impossible:
            return self
        new = object.__new__(Plain)
        new.impossible = False
        new._low, new._high, new._values = self._low.copy(), self._high.copy(), self._values.copy()
        new._given, new._standing, new._sized = self._given.copy(), self._standing, self._sized.copy()
        new._add(rows)
        return new

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

    def extends(self, names: Iterable[str], rows: Iterable[Row], both: Plain) -> bool:
        """True if wherever these rows hold, some integers for other names than theirs are certain to satisfy `rows`.

        Args:
            names: all names of these rows.
            both: what is plain of these rows and `rows`: it says which integers to try.
        """
        mine = {*names, *self._low}
        chosen = both._chosen(mine)
        for equal, terms, constant in rows:
            sums, start = _put(dict(terms), constant, chosen)
            if not mine.issuperset(sums) or not self.certain(((equal, tuple(sums.items()), start),)):
                return False
        return True

    def _chosen(self, known: AbstractSet[str]) -> Values:
        """Names that are not `known`, each as a sum; where the rows allow it, of names that are."""
        chosen: Values = {}
        for name, (inner, constant) in self._values.items():
            sums, constant = _put({name: -1, **inner}, constant, chosen)
            own = next((n for n, f in sums.items() if n not in known and f in (1, -1)), None)
            if own is not None:
                factor = -sums.pop(own)
                value = {n: f * factor for n, f in sums.items()}, constant * factor
                for other, (old, c) in chosen.items():
                    if own in old:
                        chosen[other] = _put(old, c, {own: value})
                chosen[own] = value
        return chosen

    def _add(self, rows: Iterable[Row]) -> None:
        equal: list[tuple[Sums, int]] = []
        least: dict[Terms, int] = {}
        known, given, ends = len(self._values), self._given, set[str]()
        for is_equal, terms, constant in rows:
            if is_equal:
                equal.append((dict(terms), constant))
            elif len(terms) == 1 and terms[0][0] not in self._values:
                name, factor = terms[0]
                if self._bound(name, factor, constant):
                    ends.add(name)
            elif constant < given.get(terms, constant + 1):
                least[terms] = given[terms] = constant
        if self.impossible:
            return
        equal += self._remainders(least)
        self._solve(equal)
        if not self.impossible:
            self.impossible = self._contradicted(least, ends.union(list(self._values)[known:]))

    # -- ranges

    def _bound(self, name: str, factor: int, constant: int) -> bool:
        """factor * name + constant >= 0: True if that is new."""
        if factor > 0:
            low = -(constant // factor)
            known = self._low.get(name)
            if known is not None and low <= known:
                return False
            self._low[name] = low
            other = self._high.get(name)
            if other is not None and low > other:
                self.impossible = True
        else:
            high = constant // -factor
            known = self._high.get(name)
            if known is not None and high >= known:
                return False
            self._high[name] = high
            other = self._low.get(name)
            if other is not None and high < other:
                self.impossible = True
        return True

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
        for terms, constant in least.items():
            quotient, factor = terms[-1] if terms else ("", 0)
            if factor < 0 and "/" in quotient and least.get(_negative(terms)) == -factor - 1 - constant:
                rest = f"{terms} + {constant}"  # what it is, so that it is the same wherever it is met
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
        scales = set(map(abs, sums.values()))
        scales.discard(1)
        for scale in sorted(scales, reverse=True):
            parts = self._apart(sums, constant, scale)
            if parts:
                return parts
        units = [n for n, f in sums.items() if f in (1, -1)]
        if units:
            # The ranges of the names that stay are what is known in the end.
            name = next((n for n in units if n not in self._low), units[0])
            factor = -sums[name]
            self._values[name] = ({n: f * factor for n, f in sums.items() if n != name}, constant * factor)
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
        return _put(sums, constant, self._values)

    # -- inequalities

    def _contradicted(self, least: dict[Terms, int], changed: set[str]) -> bool:
        """True if one of the inequalities, or the sum of two, is negative for certain.

        Those that were there before are looked at again where `changed` says more of their names.
        """
        # What a question adds to what is always so comes last.
        new = [self._replaced(dict(terms), constant) for terms, constant in reversed(least.items())]
        stay = self._standing
        if changed and stay:
            new += [self._replaced(*one) for one in stay if not changed.isdisjoint(one[0])]
            stay = [one for one in stay if changed.isdisjoint(one[0])]
        low, high, sized = self._low, self._high, self._sized
        open_: list[tuple[Sums, int]] = []
        for one in new:
            sums, constant = one
            if self._negative(sums, constant):
                return True
            endless = [n for n in sums if n not in low or n not in high]
            for name in endless:
                key = (name, sums[name])
                sized[key] = (*sized.get(key, ()), one)
            # What the ranges alone say is not looked at again.
            if endless or constant + sum(f * (low if f > 0 else high)[n] for n, f in sums.items()) < 0:
                open_.append(one)
        self._standing = stay + open_
        return False

    def _negative(self, sums: Sums, constant: int) -> bool:
        """True if the sum is negative for certain, by the ranges or by what bounds a size from the other side."""
        most = constant
        for name, factor in sums.items():
            end = (self._high if factor > 0 else self._low).get(name)
            if end is None:
                return self._negative_with(name, sums, constant)
            most += factor * end
        return most < 0

    def _negative_with(self, size: str, sums: Sums, constant: int) -> bool:
        for other, c in self._sized.get((size, -sums[size]), ()):
            both = dict(sums)
            for n, f in other.items():
                both[n] = both.get(n, 0) + f
            most = self._most({n: f for n, f in both.items() if f}, constant + c)
            if most is not None and most < 0:
                return True
        return False


def _put(sums: Sums, constant: int, values: Values) -> tuple[Sums, int]:
    """The sum with the values of names in their places."""
    if values.keys().isdisjoint(sums):
        return sums, constant
    new: Sums = {}
    for name, factor in sums.items():
        value = values.get(name)
        if value is None:
            new[name] = new.get(name, 0) + factor
            continue
        constant += factor * value[1]
        for n, f in value[0].items():
            new[n] = new.get(n, 0) + factor * f
    return {n: f for n, f in new.items() if f}, constant


def _opposite(sums: Sums) -> Sums:
    return {n: -f for n, f in sums.items()}


def _negative(terms: Terms) -> Terms:
    return tuple((n, -f) for n, f in terms)
