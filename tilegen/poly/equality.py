"""Do the rows imply that two index tuples are equal?"""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.poly.rows import Rows
from tilegen.poly.system import Form, solvable


def find_difference(rows: Rows, left: tuple[Form, ...], right: tuple[Form, ...]) -> Rows | None:
    """A question with an answer: `rows`, and that the two index tuples differ; None if rows make them equal."""
    return next(differences(rows, left, right), None)


def differences(rows: Rows, left: tuple[Form, ...], right: tuple[Form, ...]) -> Iterator[Rows]:
    """Questions with an answer which hold, together, all points of `rows` at which the two index tuples differ."""
    apart = [a.minus(b) for a, b in zip(left, right, strict=True)]
    both = rows + tuple(row for difference in apart for row in difference.rows)
    for a, b, difference in zip(left, right, apart, strict=True):
        if not difference.terms and not difference.const:
            continue
        for side in (a.minus(b, 1), b.minus(a, 1)):
            # `both` has the rows of all divisions already, and more than these questions is asked about it.
            question = both + ((False, side.terms, side.const),)
            if solvable(question):
                yield question
