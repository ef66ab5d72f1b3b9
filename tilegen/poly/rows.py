"""Rows that questions have in common: what is plain of them is worked out once, and each question adds to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilegen.poly.plain import Plain, Row


class Rows:
    """Rows, as a tuple of them is; `rows + more` are these and more, and knows what was plain of `rows`."""

    __slots__ = ("_all", "_base", "_more", "_plain")

    def __init__(self, rows: tuple[Row, ...], base: Rows | None = None) -> None:
        self._base = base
        self._more = rows
        self._all: tuple[Row, ...] | None = rows if base is None else None
        self._plain: Plain | None = None

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

    @property
    def plain(self) -> Plain:
        """What the rows plainly say."""
        if self._plain is None:
            # What lies between was not asked about; only the first rows are sure to be asked about again.
            new: tuple[Row, ...] = ()
            base: Rows = self
            while base._base is not None and base._plain is None:
                new = base._more + new
                base = base._base
            if base._plain is None:
                base._plain = Plain(base._more)
            self._plain = base._plain.plus(new) if base is not self else base._plain
        return self._plain


def plain_of(rows: Rows | Iterable[Row]) -> Plain:
    """What rows plainly say."""
    return rows.plain if isinstance(rows, Rows) else Plain(rows)
