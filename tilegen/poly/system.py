"""Integer systems: conjunctions of affine constraints, and the one question that is asked of them.

Every proof of the judge comes down to "is there an integer point that satisfies all of these?". A
system is rows over named variables: sizes, loop variables of one or two statement instances, and one
variable for each floor division. isl answers; a system that isl cannot decide within its budget raises
`Undecided`. isl's matrix format is read ten times faster than its set notation, so it is used here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from threading import RLock, local
from typing import Any, NamedTuple

import islpy as isl

from tilegen.ir.affine import Affine, Div, Mod, factors_of, names_of_atom
from tilegen.ir.facts.choices import negations
from tilegen.ir.nodes import Condition
from tilegen.poly.rows import Row as Row
from tilegen.poly.rows import Rows, Terms, add_up, rename

# isl operations that one question may take: twice what any question of the stock schedules needs.
BUDGET = 3_000_000
# A question with more names than this, and more of them in each row on average, is not asked.
DENSE_NAMES, DENSE_TERMS = 9, 6

Point = dict[str, int]


class Undecided(Exception):
    """isl spent its budget on a question."""

    why = "the question is beyond the budget for one proof"


class NoSizes(Undecided):
    """A question has points, and at none that was tried is a product of sizes that of its factors."""

    why = "it may go wrong, and no sizes are found at which it does"


class Form(NamedTuple):
    """An affine expression as a plain sum; `rows` define the variables of its divisions."""

    terms: Terms
    const: int
    rows: tuple[Row, ...] = ()

    def rename(self, names: Mapping[str, str]) -> Form:
        """With the variables in `names` replaced; a division variable changes with what it divides."""
        if not names or not self.terms:
            return self
        if not self.rows:
            return Form(_rename_terms(self.terms, names), self.const)
        return Form(_rename_terms(self.terms, names), self.const, rename(self.rows, names))

    def minus(self, other: Form, subtracted: int = 0) -> Form:
        """self - other - subtracted."""
        terms = add_up((*self.terms, *[(name, -factor) for name, factor in other.terms]))
        return Form(terms, self.const - other.const - subtracted, self.rows + other.rows)

    def zero(self) -> tuple[Row, ...]:
        """Rows that say self == 0."""
        return ((True, self.terms, self.const), *self.rows)

    def nonnegative(self) -> tuple[Row, ...]:
        """Rows that say self >= 0."""
        return ((False, self.terms, self.const), *self.rows)


def quotient_of(atom: Div | Mod) -> str:
    """The name of a variable for the quotient."""
    return f"({atom.arg})/{atom.by}"


@lru_cache(maxsize=20_000)
def quotients(value: Affine) -> tuple[tuple[str, frozenset[str]], ...]:
    """The variables for the divisions in `value`, each with all names inside of it."""
    return tuple((quotient_of(division), division.arg.names()) for division in value.divisions())


def _rename_terms(terms: Terms, names: Mapping[str, str]) -> Terms:
    return tuple([(names.get(n, n), f) for n, f in terms])


@lru_cache(maxsize=20_000)
def form(value: Affine) -> Form:
    """`value` as a sum; each division gets a variable named after it, `(i + 3)/4`."""
    terms: list[tuple[str, int]] = []
    constant = value.const
    rows: tuple[Row, ...] = ()
    for atom, factor in value.terms:
        if isinstance(atom, str):
            terms.append((atom, factor))
            continue
        inner = form(atom.arg)
        quotient = quotient_of(atom)
        rows += inner.rows
        # 0 <= arg - by * quotient < by
        rest = (*inner.terms, (quotient, -atom.by))
        rows += ((False, rest, inner.const),)
        rows += ((False, tuple((n, -f) for n, f in rest), atom.by - 1 - inner.const),)
        match atom:
            case Div():
                terms.append((quotient, factor))
            case Mod():
                terms += [(name, factor * f) for name, f in rest]
                constant += factor * inner.const
            case _:
                raise TypeError(atom)
    return Form(add_up(terms), constant, rows)


@lru_cache(maxsize=20_000)
def rows_of(condition: Condition) -> tuple[Row, ...]:
    """Rows that say the condition; most divisions vanish, since floor(a/n) >= b means a >= n*b."""
    value = condition.value
    if condition.equal:
        return form(value).zero()
    while True:
        divisions = [(a, f) for a, f in value.terms if isinstance(a, Div)]
        if len(divisions) != 1 or abs(divisions[0][1]) != 1:
            return form(value).nonnegative()
        division, factor = divisions[0]
        assert isinstance(division, Div)
        rest = value - Affine(((division, factor),))
        value = rest * division.by + (division.arg if factor > 0 else division.by - 1 - division.arg)


@lru_cache(maxsize=20_000)
def range_of(name: str, extent: Affine) -> tuple[Row, ...]:
    """Rows that say 0 <= name < extent."""
    return ((False, ((name, 1),), 0), *rows_of(Condition(extent - 1 - Affine(((name, 1),)))))


def negation_rows(condition: Condition) -> tuple[tuple[Row, ...], ...]:
    """The conditions of which one holds where this one does not, each as rows."""
    return tuple(map(rows_of, negations(condition)))


def equal_rows(left: Iterable[Form], right: Iterable[Form]) -> tuple[Row, ...]:
    """Rows that say that two index tuples are equal."""
    rows: tuple[Row, ...] = ()
    for a, b in zip(left, right, strict=True):
        if a != b:
            rows += a.minus(b).zero()
    return rows


def substitute_rows(rows: Rows, values: Mapping[str, Form]) -> Rows:
    """`rows` with names replaced by sums; rows that define the divisions in those are added."""
    result: Rows = ()
    for equal, terms, constant in rows:
        sums: list[tuple[str, int]] = []
        for name, factor in terms:
            value = values.get(name) or Form(((name, 1),), 0)
            sums += [(inner, factor * f) for inner, f in value.terms]
            constant += factor * value.const
            result += value.rows
        result += ((equal, add_up(sums), constant),)
    return result


# -- solving


class _Asked(local):
    count = 0


context = isl.Context()
context.set_max_operations(BUDGET)
one_at_a_time = RLock()  # of the threads: the context counts the operations of a question
_asked = _Asked()


def question_count() -> int:
    """A number that has grown by one for each question of this thread since its last call, and by one for that call."""
    _asked.count += 1
    return _asked.count


def solvable(rows: Iterable[Row]) -> bool:
    """True if some integer point satisfies all rows. Raises Undecided past the budget."""
    _asked.count += 1
    return _is_solvable(tuple(rows))


# Schedules, their steps and the versions of a kernel ask many questions again.
@lru_cache(maxsize=200_000)
def _is_solvable(rows: Rows) -> bool:
    kept, _ = _simplify(rows)
    if not kept:
        return kept is not None
    # What is special to a question stands at its end: with that first isl is done sooner.
    text, columns = matrix(kept[::-1])
    # isl counts no operations in the simplex tableau of a dense system, and can spend minutes there.
    if len(columns) > DENSE_NAMES and sum(len(terms) for _, terms, _ in kept) > DENSE_TERMS * len(kept):
        raise Undecided("a dense system")
    return not _ask(text, "is_empty")


def example(rows: Iterable[Row], first: Iterable[str] = ()) -> Point | None:
    """A point that satisfies all rows, the least one in the order of `first`, or None if there is none.

    Sizes and their products in `first` fit. Raises NoSizes where none such is found.
    """
    whole, names = tuple(rows), tuple(first)
    point = _least_point(whole, names)
    return point and with_products(point, names, lambda more: _least_point(whole + more, names))


def with_products(point: Point, names: Iterable[str], again: Callable[[Rows], Point | None]) -> Point:
    """`point`, or one near it, at which each product of sizes in `names` is the product of its factors.

    All factors but one are as large as in `point` then. Raises NoSizes where there is none such.

    Args:
        again: finds a point that satisfies further rows, too.
    """
    sizes = {name: max(1, point[name]) for name in names}
    known = {name: factors_of(name) for name in sizes if sizes.keys() >= names_of_atom(name)}
    parts = {name: each for name, each in known.items() if len(each) > 1}
    if all(sizes[name] == prod(f.evaluate(sizes) for f in each) for name, each in parts.items()):
        return point
    for free in product(*parts.values()):
        more: Rows = ()
        for (name, each), one in zip(parts.items(), free, strict=True):
            fixed = [f for n, f in enumerate(each) if n != each.index(one)]
            equal = [Affine(((name, 1),)) - one * prod(f.evaluate(sizes) for f in fixed)]
            equal += [f - f.evaluate(sizes) for f in fixed]
            more += tuple(row for value in equal for row in rows_of(Condition(value, equal=True)))
        if found := again(more):
            return found
    raise NoSizes


def _least_point(rows: Rows, first: tuple[str, ...]) -> Point | None:
    if not solvable(rows):
        return None
    kept, merged = _simplify(rows)
    assert kept is not None
    order = list(dict.fromkeys([_find(merged, n) for n in first]))
    text, columns = matrix(kept, order)
    with one_at_a_time:
        try:
            found = _ask(text, "lexmin")
            point = found.sample_point()
        except (Undecided, isl.Error):
            point = _ask(text, "sample_point")
    values = {
        name: point.get_coordinate_val(isl.dim_type.set, n).to_python() if not point.is_void() else 0
        for name, n in columns.items()
    }
    # Variables that no row restricts do not matter; zero does for loops and one for sizes, rows say which.
    everything = {n for _, terms, _ in rows for n, _ in terms} | set(first)
    return {name: values.get(_find(merged, name), 0) for name in everything}


def _ask(text: str, question: str) -> Any:
    with one_at_a_time:
        context.reset_operations()
        try:
            return getattr(isl.BasicSet.read_from_str(context, text), question)()
        except isl.Error as error:
            raise Undecided(str(error)) from None


def _find(merged: Mapping[str, str], name: str) -> str:
    while name in merged:
        name = merged[name]
    return name


def _simplify(rows: Iterable[Row]) -> tuple[list[Row] | None, dict[str, str]]:
    """(rows without those that are trivially true, names merged into others); None if one is false.

    Equalities of two names merge them: most questions are decided here, without isl.
    """
    merged: dict[str, str] = {}
    rows = list(dict.fromkeys(rows))
    while True:
        new = False
        for equal, terms, constant in rows:
            if equal and not constant and len(terms) == 2 and terms[0][1] == -terms[1][1]:
                one, two = _find(merged, terms[0][0]), _find(merged, terms[1][0])
                if one != two:
                    merged[two] = one
                    new = True
        if not new:
            return _without_trivial(rows), merged
        rows = list(dict.fromkeys(_merged_row(row, merged) for row in rows))


def _merged_row(row: Row, merged: Mapping[str, str]) -> Row:
    for name, _ in row[1]:
        if name in merged:
            break
    else:
        return row
    return row[0], add_up((_find(merged, name), factor) for name, factor in row[1]), row[2]


def _without_trivial(rows: list[Row]) -> list[Row] | None:
    kept = []
    for row in rows:
        if row[1]:
            kept.append(row)
        elif row[2] < 0 or (row[0] and row[2]):
            return None
    return kept


def matrix(rows: Sequence[Row], first: list[str] = []) -> tuple[str, dict[str, int]]:  # noqa: B006
    """The rows in PolyLib's notation, and the column of each name."""
    names = dict.fromkeys(first, 0)
    for _, terms, _ in rows:
        names.update(terms)
    columns = {name: n for n, name in enumerate(names)}
    width = len(columns)
    lines: dict[str, None] = {}
    for equal, terms, constant in rows:
        cells = ["0"] * (width + 2)
        cells[0] = "0" if equal else "1"
        cells[-1] = str(constant)
        for name, factor in terms:
            cells[columns[name] + 1] = str(factor)
        lines[" ".join(cells)] = None
    return f"{len(lines)} {width + 2}\n" + "\n".join(lines), columns


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
