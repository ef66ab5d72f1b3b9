"""Whether rows make two index tuples equal: plainly, by adding equalities, or by asking isl."""

from __future__ import annotations

from tilegen.poly.system import Form, Row, solvable

# Eliminations that are tried before isl is asked; one for each loop of a long chain of copies is plenty.
STEPS = 12


def differing(rows: tuple[Row, ...], left: tuple[Form, ...], right: tuple[Form, ...]) -> tuple[Row, ...] | None:
    """A question with an answer: `rows`, and that the two index tuples differ; None if rows make them equal."""
    for a, b in zip(left, right, strict=True):
        difference = a.minus(b)
        if _vanishes(difference, rows):
            continue
        for side in (a.minus(b, 1), b.minus(a, 1)):
            question = rows + side.nonnegative()
            if solvable(question):
                return question
    return None


def _vanishes(difference: Form, rows: tuple[Row, ...]) -> bool:
    """True if the equalities among the rows plainly make the sum zero; saves most questions to isl."""
    sums, constant = dict(difference.terms), difference.const
    for _ in range(STEPS):
        if not sums:
            return constant == 0
        for equal, terms, c in rows:
            if not equal:
                continue
            pivot = next(((n, f) for n, f in terms if n in sums and abs(f) == 1), None)
            if pivot is None or (len(terms) > 1 and not _shrinks(sums, terms, pivot)):
                continue
            factor = sums[pivot[0]] * pivot[1]
            for n, f in terms:
                sums[n] = sums.get(n, 0) - factor * f
                if not sums[n]:
                    del sums[n]
            constant -= factor * c
            break
        else:
            return False
    return False


def _shrinks(sums: dict[str, int], terms: tuple[tuple[str, int], ...], pivot: tuple[str, int]) -> bool:
    factor = sums[pivot[0]] * pivot[1]
    new = sum(1 for n, _ in terms if n not in sums)
    gone = sum(1 for n, f in terms if sums.get(n) == factor * f)
    return gone > new or (gone == new and pivot[0] > min(n for n, _ in terms))
