"""Rows that questions have in common: what is plain of them is worked out once, and each question adds to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tilegen.poly.plain import Plain, Row


class Rows:
    """Rows, as a tuple of them is; `rows + more` are these and more, and knows what was plain of `rows`."""

    __slots__ = ("_all", "_base", "_by_name", "_each", "_kept", "_more", "_plain")

    def __init__(self, rows: tuple[Row, ...], base: Rows | None = None) -> None:
        self._base = base
        self._more = rows
        self._kept = base is None
        self._all: tuple[Row, ...] | None = rows if base is None else None
        self._plain: Plain | None = None
        self._each: frozenset[Row] | None = None
        self._by_name: dict[str, list[Row]] | None = None

    def __add__(self, more: tuple[Row, ...]) -> Rows:
        return Rows(more, self) if more else self

    def __iter__(self) -> Iterator[Row]:
        return iter(self.all)

    @property
    def all(self) -> tuple[Row, ...]:
        """The rows, the first ones first."""
        if self._all is None:
            assert self._base is not None
            self._all = self._base.all + self._more
        return self._all

    def kept(self) -> Rows:
        """These rows, which more than one question begins with."""
        self._kept = True
        return self

    def since_kept(self) -> tuple[Rows, tuple[Row, ...]]:
        """The nearest rows that are kept, and those that have been added to them."""
        base: Rows = self
        new: tuple[Row, ...] = ()
        while not base._kept:
            assert base._base is not None
            base, new = base._base, base._more + new
        return base, new

    @property
    def each(self) -> frozenset[Row]:
        """The rows, for asking whether one is among them."""
        if self._each is None:
            self._each = frozenset(self.all)
        return self._each

    @property
    def by_name(self) -> dict[str, list[Row]]:
        """The rows that each name is in."""
        if self._by_name is None:
            self._by_name = {}
            for row in dict.fromkeys(self.all):
                for name, _ in row[1]:
                    self._by_name.setdefault(name, []).append(row)
        return self._by_name

    def beyond(self, base: Rows) -> tuple[Row, ...] | None:
        """The rows that have been added to `base`; None if these began otherwise."""
        if self is base:
            return ()
        if self._base is None:
            return None
        before = self._base.beyond(base)
        return None if before is None else before + self._more

    @property
    def plain(self) -> Plain:
        """What the rows plainly say."""
        if self._plain is None:
            # What lies between was not asked about, and will not be.
            base, new = self._base, self._more
            while base is not None and base._plain is None and not base._kept:
                new = base._more + new
                base = base._base
            self._plain = Plain(new) if base is None else base.plain.plus(new)
        return self._plain


def plain_of(rows: Rows | Iterable[Row]) -> Plain:
    """What rows plainly say."""
    return rows.plain if isinstance(rows, Rows) else Plain(rows)


def renamed(rows: tuple[Row, ...], names: Mapping[str, str]) -> tuple[Row, ...]:
    """The rows with other names."""
    if not names:
        return rows
    return tuple([(e, tuple([(names.get(n, n), f) for n, f in terms]), c) for e, terms, c in rows])


def identified(rows: tuple[Row, ...], names: Mapping[str, str]) -> tuple[Row, ...]:
    """The rows with names replaced by others, which they may have already: the terms of one name are added up."""
    found: tuple[Row, ...] = ()
    for equal, terms, constant in rows:
        sums: dict[str, int] = {}
        for n, f in terms:
            n = names.get(n, n)
            sums[n] = sums.get(n, 0) + f
        found += ((equal, tuple((n, f) for n, f in sums.items() if f), constant),)
    return found


def exchanged(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The rows with the prime on the first of two instances instead of the second."""
    return tuple(
        [(e, tuple([(n[:-1] if n.endswith("'") else f"{n}'", f) for n, f in terms]), c) for e, terms, c in rows]
    )
