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
from functools import lru_cache
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
        # By a name without end and whether it is added, the inequalities that bound it.
        self._sized: dict[tuple[str, bool], tuple[tuple[Sums, int], ...]] = {}
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
            least, most = self._ends(terms, constant)
            if least is not None and least >= 0 and (not equal or most == 0):
                continue
            sums, constant = self._replaced(dict(terms), constant)
            if equal and (sums or constant):
                return self.impossible
            if not equal and not self._follows(sums, constant):
                return self.impossible
        return True

    def open(self, names: Iterable[str], rows: Iterable[Row], both: Plain) -> list[Row]:
        """What is left to ask where some integers for other names than these rows' have to satisfy `rows`, too.

        A name that is some sum of others wherever all rows hold is replaced by that: no other integer would do. What
        is certain then is left out.

        Args:
            names: all names of these rows, and what else is given.
            both: what is plain of these rows and `rows`: it says which sums.
        """
        mine, rows = {*names, *self._low}, list(rows)
        chosen = both._chosen(mine)
        spoken = {*names, *(name for _, terms, _ in rows for name, _ in terms)}
        left: list[Row] = []
        for equal, terms, constant in rows:
            sums, start = _put(dict(terms), constant, chosen)
            if mine.issuperset(sums) and self.certain(((equal, tuple(sums.items()), start),)):
                continue
            if not spoken.issuperset(sums):
                # The name of a remainder is known here alone.
                sums, start = _put(sums, start, both._remainders_named())
            if not spoken.issuperset(sums):
                return rows
            left.append((equal, tuple((n, f) for n, f in sums.items() if f), start))
        return left

    def _remainders_named(self) -> Values:
        """The remainders that divisions leave, by their names."""
        return {_remainder(terms, constant)[1]: (dict(terms), constant) for terms, constant in self._given.items()}

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
        values, given, ends = self._values, self._given, set[str]()
        known = len(values)
        for is_equal, terms, constant in rows:
            if is_equal:
                equal.append((dict(terms), constant))
            elif len(terms) == 1 and terms[0][0] not in values:
                name, factor = terms[0]
                if self._bound(name, factor, constant):
                    ends.add(name)
            elif constant < given.get(terms, constant + 1):
                least[terms] = given[terms] = constant
        if self.impossible:
            return
        equal += self._remainders(least)
        if not self.impossible:
            self._solve(equal)
        if not self.impossible:
            self.impossible = self._contradicted(least, ends.union(list(values)[known:]))

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

    def _ends(self, terms: Terms, constant: int) -> tuple[int | None, int | None]:
        """The least and the greatest value that the ranges of the names allow; None for no end."""
        least: int | None = constant
        most: int | None = constant
        for name, factor in terms:
            low, high = self._low.get(name), self._high.get(name)
            if factor < 0:
                low, high = high, low
            least = None if least is None or low is None else least + factor * low
            most = None if most is None or high is None else most + factor * high
        return least, most

    # -- equalities

    def _remainders(self, least: dict[Terms, int]) -> Iterator[tuple[Sums, int]]:
        """For each division an equality that gives its remainder a name."""
        for terms, constant in least.items():
            quotient, factor = terms[-1] if terms else ("", 0)
            if factor < 0 and "/" in quotient and least.get(_negative(terms)) == -factor - 1 - constant:
                sums, rest = _remainder(terms, constant)
                self._low[rest], self._high[rest] = 0, -factor - 1
                low, high = self._ends(terms[:-1], constant)
                if high is not None:
                    self._bound(quotient, -1, high // -factor)
                if low is not None:
                    self._bound(quotient, 1, -(low // -factor))
                yield sums, constant

    def _solve(self, waiting: list[tuple[Sums, int]]) -> None:
        values = self._values
        for _ in range(STEPS):
            if not waiting:
                return
            sums, constant = _put(*waiting.pop(), values)
            common = gcd(*sums.values())
            if not common or constant % common:
                if constant:
                    self.impossible = True
                    return
            elif common == 1:
                waiting += self._said(sums, constant)
            else:
                waiting += self._said({n: f // common for n, f in sums.items()}, constant // common)

    def _said(self, sums: Sums, constant: int) -> list[tuple[Sums, int]]:
        """The equalities that `sums + constant == 0` comes apart into; what a name is, if it does not.

        No number but one divides all factors.
        """
        scales = set(map(abs, sums.values()))
        scales.discard(1)
        if scales and (parts := self._apart(sums, constant, scales)):
            return parts
        # The ranges of the names that stay are what is known in the end.
        name = ""
        for n, f in sums.items():
            if f in (1, -1) and (not name or n not in self._low):
                name = n
                if n not in self._low:
                    break
        if name:
            rest = sums.copy()
            value = (_opposite(rest), -constant) if rest.pop(name) == 1 else (rest, constant)
            self._values[name] = value
        return []

    def _apart(self, sums: Sums, constant: int, scales: set[int]) -> list[tuple[Sums, int]]:
        """The digits that the sum comes apart into, the highest one last; none if it does not.

        At each scale: the multiples of it, if only one multiple can make up for the rest, and that rest.
        """
        parts: list[tuple[Sums, int]] = []
        low, high = self._low, self._high
        for scale in sorted(scales, reverse=True):
            least = most = left = constant % scale
            for name, factor in sums.items():
                if not factor % scale:
                    continue
                below, above = (low, high) if factor > 0 else (high, low)
                lower, upper = below.get(name), above.get(name)
                if lower is None or upper is None:
                    break
                least += factor * lower
                most += factor * upper
            else:
                only, first = most // scale, -(-least // scale)
                if only < first:
                    return [({}, 1)]
                if only == first:
                    parts.append(({n: f for n, f in sums.items() if not f % scale}, constant - left + only * scale))
                    sums, constant = {n: f for n, f in sums.items() if f % scale}, left - only * scale
        return [(sums, constant), *reversed(parts)] if parts else []

    def _replaced(self, sums: Sums, constant: int) -> tuple[Sums, int]:
        """The sum with what names are in their places."""
        return _put(sums, constant, self._values)

    # -- inequalities

    def _contradicted(self, least: dict[Terms, int], changed: set[str]) -> bool:
        """True if one of the inequalities, or the sum of two, is negative for certain.

        Those that were there before are looked at again where `changed` says more of their names.
        """
        values = self._values
        stay: list[tuple[Sums, int]] = self._standing
        again: list[tuple[Sums, int]] = []
        if changed and stay:
            stay = []
            for one in self._standing:
                (stay if changed.isdisjoint(one[0]) else again).append(one)
        # What a question adds to what is always so comes last.
        open_: list[tuple[Sums, int]] = []
        for terms, constant in reversed(least.items()):
            if self._looked_at(_put(dict(terms), constant, values), open_):
                return True
        for sums, constant in again:
            if self._looked_at(_put(sums, constant, values), open_):
                return True
        self._standing = stay + open_
        return False

    def _looked_at(self, one: tuple[Sums, int], open_: list[tuple[Sums, int]]) -> bool:
        """True if an inequality is negative for certain; it joins `open_` unless the ranges alone say it."""
        sums, constant = one
        low, high = self._low, self._high
        least = most = constant
        endless: list[str] = []
        missing = ""  # the first name without the end that the greatest value needs
        for name, factor in sums.items():
            below, above = low.get(name), high.get(name)
            if factor < 0:
                below, above = above, below
            if above is None:
                missing = missing or name
                endless.append(name)
            elif below is None:
                most += factor * above
                endless.append(name)
            else:
                least += factor * below
                most += factor * above
        if self._negative_with(missing, sums, constant) if missing else most < 0:
            return True
        sized = self._sized
        for name in endless:
            key = (name, sums[name] > 0)
            sized[key] = (*sized.get(key, ()), one)
        # What the ranges alone say is not looked at again.
        if endless or least < 0:
            open_.append(one)
        return False

    def _follows(self, sums: Sums, constant: int) -> bool:
        """True if the sum is never negative: by the ranges, by a row that says so, or by what bounds a size."""
        if any(constant >= less and sums == other for other, less in self._standing):
            return True
        # A sum of multiples of four that is more than -4 is not negative.
        return self._negative(_opposite(sums), -1 - constant - (-1 - constant) % (gcd(*sums.values()) or 1))

    def _negative(self, sums: Sums, constant: int) -> bool:
        """True if the sum is negative for certain, by the ranges or by what bounds a size from the other side."""
        most = constant
        for name, factor in sums.items():
            end = (self._high if factor > 0 else self._low).get(name)
            if end is None:
                return self._negative_with(name, sums, constant)
            most += factor * end
        return most < 0 or any(
            (name, factor < 0) in self._sized and self._negative_with(name, sums, constant)
            for name, factor in sums.items()
        )

    def _negative_with(self, size: str, sums: Sums, constant: int) -> bool:
        low, high, factor = self._low, self._high, sums[size]
        for other, most in self._sized.get((size, factor < 0), ()):
            common = gcd(factor, other[size])
            mine, its = abs(other[size]) // common, abs(factor) // common
            most = mine * constant + its * most
            both = {n: mine * f for n, f in sums.items()} if mine > 1 else sums.copy()
            for n, f in other.items():
                both[n] = both.get(n, 0) + its * f
            for name, f in both.items():
                if f:
                    end = (high if f > 0 else low).get(name)
                    if end is None:
                        break
                    most += f * end
            else:
                if most < 0:
                    return True
        return False


def _put(sums: Sums, constant: int, values: Values) -> tuple[Sums, int]:
    """The sum with the values of names in their places, until no name in it has a value."""
    known = values.keys()
    while not known.isdisjoint(sums):
        new = sums.copy()
        for name in [n for n in sums if n in known]:
            factor = new.pop(name)
            inner, more = values[name]
            constant += factor * more
            for n, f in inner.items():
                new[n] = new.get(n, 0) + factor * f
        sums = {n: f for n, f in new.items() if f} if 0 in new.values() else new
    return sums, constant


@lru_cache(maxsize=20_000)
def _remainder(terms: Terms, constant: int) -> tuple[Sums, str]:
    """The remainder of a division less its name; the name says what it is, so that it is the same everywhere."""
    rest = f"{terms} + {constant}"
    return {**dict(terms), rest: -1}, rest


def _opposite(sums: Sums) -> Sums:
    return {n: -f for n, f in sums.items()}


def _negative(terms: Terms) -> Terms:
    return tuple((n, -f) for n, f in terms)
