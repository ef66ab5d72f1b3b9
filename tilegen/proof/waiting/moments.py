"""Instances of the leaves of a lowered program, one before another in the one program that all threads run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from tilegen.ir.affine import Affine, var
from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS
from tilegen.judge.threads.cross_thread import rows_of_adjacent
from tilegen.poly.covering import find_uncovered
from tilegen.poly.instances import Leaf, Placed, Projection, Use, with_divisions
from tilegen.poly.rows import Rows, equate, rename
from tilegen.poly.system import Form, equal_rows, example, form, solvable
from tilegen.poly.verdict import Refused, Words
from tilegen.proof.waiting.barriers import CertainBarriers, Gap

# The kind of a loop over the blocks of a cluster: around all that is in the memory of each of them, and around what one
# of them does to that of another.
RANK = "rank"


@dataclass(frozen=True)
class Moment:
    """An instance of a leaf, whose names are those of the leaf with a mark. Loops over blocks are the same for all, but
    for those of a cluster."""

    placed: Placed
    mark: str = ""

    @property
    def leaf(self) -> Leaf:
        return self.placed.leaf

    @cached_property
    def names(self) -> Mapping[str, str]:
        blocks = frozenset(n for n, kind in zip(self.leaf.names, self.leaf.kinds, strict=True) if kind in BLOCK_KINDS)
        return {n: f"{n}{self.mark}" for n in self.leaf.primed_names(blocks)} if self.mark else {}

    @property
    def rows(self) -> Rows:
        return rename(self.leaf.domain, self.names)

    @property
    def loops(self) -> list[str]:
        return [self.names.get(n, n) for n in self.leaf.names]

    @property
    def coordinates(self) -> Mapping[str, str]:
        """The names of those of the thread by its loops; in a cluster, of the block that does it by that of all."""
        own = {n: n for n, kind in zip(self.leaf.names, self.leaf.kinds, strict=True) if kind in THREAD_KINDS}
        own |= dict.fromkeys(self.leaf.along(RANK)[:1], *self.leaf.along(RANK)[-1:])
        return {name: self.names.get(n, n) for name, n in own.items()}

    @property
    def block(self) -> tuple[Form, ...]:
        """The number in its cluster of the block in whose memory this is."""
        return tuple(self.form(var(name)) for name in self.leaf.along(RANK)[:1])

    @property
    def doer(self) -> tuple[Form, ...]:
        """That of the block that does it."""
        return tuple(self.form(var(name)) for name in self.leaf.along(RANK)[-1:])

    def form(self, value: Affine) -> Form:
        """The value there."""
        plain = form(value)
        return plain.rename(with_divisions(self.names, (plain,), self.mark)) if self.mark else plain


def rows_of_same_thread(one: Moment, two: Moment) -> Rows:
    """Rows that say so; along an axis that `two` is no loop of, the name of the axis tells which thread is meant."""
    return equate((name, two.coordinates.get(n, n)) for n, name in one.coordinates.items())


def rows_of_same_iteration(one: Moment, two: Moment, loops: Iterable[str]) -> Rows:
    """Rows that say so of each of these loops."""
    return equate((one.names.get(n, n), two.names.get(n, n)) for n in loops)


def orders_before(one: Moment, two: Moment) -> Iterator[Rows]:
    """Rows for the ways in which `one` stands before `two` in the program that every thread runs."""
    return (rows for _, rows in carried_orders_before(one, two))


def carried_orders_before(one: Moment, two: Moment) -> Iterator[tuple[str | None, Rows]]:
    """The same, each with the loop that has gone on in between, or None; what is nearest comes first."""
    ways: list[tuple[str | None, Rows]] = []
    equal: Rows = ()
    depth = one.placed.common_depth(two.placed)
    for name, kind in list(zip(one.leaf.names, one.leaf.kinds, strict=True))[:depth]:
        first, second = one.names.get(name, name), two.names.get(name, name)
        if kind not in THREAD_KINDS and name not in one.leaf.along(RANK)[:1] and first != second:
            ways.append((name, (*equal, (False, ((second, 1), (first, -1)), -1))))
            equal += equate([(second, first)])
    if one.placed.places < two.placed.places:
        ways.append((None, equal))
    return reversed(ways)


def rows_of_same_place(one: Moment, a: Use, two: Moment, b: Use) -> Rows:
    """Rows that say that the two touch one element, of one block."""
    index = ([*at.block, *map(at.form, use.index)] for at, use in ((one, a), (two, b)))
    return equal_rows(*index)


def rows_of_one_life(program: Projection, name: str, one: Moment, two: Moment) -> Rows:
    """Rows that say that both are in one iteration of the loops around all uses of a buffer.

    That nothing is read which an earlier one has written, the check of values has shown.
    """
    users = [p for p in program.leaves if name in p.leaf.buffers]
    return rows_of_same_iteration(one, two, users[0].leaf.names[: min(users[0].common_depth(p) for p in users)])


def rows_of_neighbours(
    certain: CertainBarriers, one: Moment, two: Moment, loop: str | None, has: Callable[[Gap], bool] = lambda gap: True
) -> Rows:
    """Rows that say that no whole iteration with a barrier lies between the two; `has` says which barriers count."""
    found: Rows = ()
    for each, row in rows_of_adjacent(one.placed, two.placed, loop):
        if any(map(has, certain.barriers_in_iteration(two.placed, each))):
            found += rename((row,), {f"{each}'": two.names.get(each, each), each: one.names.get(each, each)})
    return found


def refuse_uncovered(
    program: Projection, sentence: str, point: Moment, wanted: Rows, pieces: Iterable[Rows], more: Iterable[str] = ()
) -> None:
    """Refused where `wanted` is possible, and with it none of the pieces; `more` are names in it beside those of
    `point`."""
    names = list(dict.fromkeys((*program.kernel.symbols, *point.loops, *more)))
    question = program.original.context + wanted
    possible = (wanted + piece for piece in pieces if solvable(question + piece))
    found = find_uncovered(question, possible, names)
    if found is not None:
        raise Refused(sentence, _words(program, point, found))


def refuse_possible(program: Projection, sentence: str, point: Moment, rows: Rows) -> None:
    """Refused where the rows are possible."""
    question = program.original.context + rows
    if solvable(question):
        found = example(question, [*program.kernel.symbols, *point.loops])
        assert found is not None
        raise Refused(sentence, _words(program, point, found))


def _words(program: Projection, point: Moment, found: Mapping[str, int]) -> str:
    words = Words(program.original, found)
    return f"{point.leaf.stmt.name}{words.iteration(point.leaf)}{words.sizes}"
