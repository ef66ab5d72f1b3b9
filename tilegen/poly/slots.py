"""Buffers whose places are used in turn, as `A.shared[ko%3, ...]`: the values are those of `A.shared[ko, ...]`.

With a dimension that never comes round, each place stands for one element again, and the check of values
applies. What is left is that no read comes too late: between the write that it means and the read, nobody
writes the same slot for another turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tilegen.ir.affine import Affine, Mod
from tilegen.ir.nodes import Access, Buffer, Load, Tree
from tilegen.ir.walk import rewrite
from tilegen.poly.flow import settled, storages
from tilegen.poly.order import before, between
from tilegen.poly.project import Leaf, Placed, Program, Use, common, project, renamed, told_apart
from tilegen.poly.rows import Rows
from tilegen.poly.system import Form, Row, example, same, solvable
from tilegen.poly.values import check_values
from tilegen.poly.verdict import Refused, Words


def check_values_in_turn(program: Program) -> None:
    """`check_values`, for buffers with slots too. Refused where no reading of these holds, as the first one is."""
    refusals: list[Refused] = []
    # Registers that go round are followed from write to write, as `latest` does; where that does not help, by
    # turns. The slots that are there may also never come round, in an iteration of a loop further inside.
    shared = frozenset(b.name for b in program.buffers.values() if b.space == "shared")
    attempts: list[Callable[[], None]] = [
        *(partial(_check_turns, program, slots) for slots in _choices(program)),
        lambda: check_values(program),
        lambda: check_values(project(_lives(program, shared))),
    ]
    for attempt in attempts:
        try:
            return attempt()
        except Refused as refused:
            refusals += [refused]
    raise refusals[0]


def _choices(program: Program) -> list[frozenset[tuple[str, int]]]:
    found = (_slots(program, "shared"), _slots(program, "shared", "register"))
    return [slots for slots in dict.fromkeys(found) if slots]


def _check_turns(program: Program, slots: frozenset[tuple[str, int]]) -> None:
    names = frozenset(name for name, _ in slots)
    program = project(_lives(program, names))
    unrolled = project(_unrolled(program.tree, slots))
    check_values(unrolled)
    depths = _depths(unrolled, names)
    accesses = list(_accesses(program, slots))
    for read in (a for a in accesses if not a.use.writes):
        writes = [a for a in accesses if a.use.writes and a.use.buffer == read.use.buffer]
        scope = program.buffers[read.use.buffer].scope
        home = read.leaf.names.index(scope) + 1 if scope in read.leaf.names else 0
        _check_read(program, read, writes, max(home, depths[read.placed.number, read.turn.index]))


def _depths(unrolled: Program, names: frozenset[str]) -> dict[tuple[int, tuple[Affine, ...]], int]:
    """For each read of these, told by its leaf and index: the loops that it shares with the write that it means."""
    touches = [(s, t) for s in storages(unrolled) for t in s.touches if not t.use.writes and t.use.buffer in names]
    return {(t.placed.number, t.use.index): settled(storage, t).depth for storage, t in touches}


def _slots(program: Program, *spaces: str) -> frozenset[tuple[str, int]]:
    """(buffer, dimension) where some write and some read go round with the same loops, one ahead of the other.

    One of them may go round once, and be at `ko` for `ko%2`. A place like `lane%4` tells threads apart, and has no
    turns.
    """
    turning: dict[bool, set[tuple[str, int, Affine, bool]]] = {True: set(), False: set()}
    for placed in program.leaves:
        kinds = dict(zip(placed.leaf.names, placed.leaf.kinds, strict=True))
        for use in placed.leaf.uses:
            buffer = program.buffers[use.buffer]
            for d, place in enumerate(use.index):
                turn = _turn(place, buffer.shape[d])
                if buffer.space in spaces and all(kinds.get(name) == "serial" for name in turn.names()):
                    turning[use.writes].add((use.buffer, d, turn, turn != place))
    return frozenset(
        (name, d)
        for name, d, first, round_ in turning[True]
        for other, e, second, again in turning[False]
        if (name, d) == (other, e) and first != second and first.names() == second.names() and (round_ or again)
    )


def _turn(place: Affine, slots: Affine) -> Affine:
    """What `place`, one of so many slots, is the remainder of; it is inside of them, and so the remainder of itself."""
    match place:
        case Affine(((Mod(arg, by), 1),), 0) if slots == Affine((), by):
            return arg
        case _:
            return place


def _in_turn(index: tuple[Affine, ...], buffer: Buffer, slots: frozenset[tuple[str, int]]) -> tuple[Affine, ...]:
    return tuple(_turn(p, buffer.shape[d]) if (buffer.name, d) in slots else p for d, p in enumerate(index))


def _lives(program: Program, names: frozenset[str]) -> Tree:
    """The tree with each of the buffers in the innermost loop around all of its uses.

    All checks then speak of one iteration of that loop, in which everything that is read is written too.
    """
    homes = {name: home_of(program, name) for name in names}
    buffers = tuple(replace(b, scope=homes.get(b.name) or b.scope) for b in program.tree.buffers)
    return replace(program.tree, buffers=buffers)


def home_of(program: Program, name: str) -> str | None:
    """The innermost loop around all uses of a buffer."""
    users = [p for p in program.leaves if any(u.buffer == name for u in p.leaf.uses)]
    depth = min(users[0].shares(p) for p in users)
    return users[0].leaf.names[depth - 1] if depth else None


def _unrolled(tree: Tree, slots: frozenset[tuple[str, int]]) -> Tree:
    known = {b.name: b for b in tree.buffers}

    def change(value: Any) -> Any:
        if isinstance(value, Access | Load) and any(name == value.buffer for name, _ in slots):
            return replace(value, index=_in_turn(value.index, known[value.buffer], slots))
        return value

    return replace(tree, body=rewrite(tree.body, change))


def _accesses(program: Program, slots: frozenset[tuple[str, int]]) -> Iterator[_Access]:
    """The accesses to these buffers, equal ones of a leaf once."""
    names = {name for name, _ in slots}
    for placed in program.leaves:
        uses = {(u.buffer, u.index, u.writes): u for u in placed.leaf.uses if u.buffer in names}
        for use in uses.values():
            index = _in_turn(use.index, program.buffers[use.buffer], slots)
            yield _Access(placed, use, Use(use.buffer, index, use.writes))


@dataclass(frozen=True)
class _Access:
    """An access of a leaf, and the turn that it is for: its index without the remainders of slots."""

    placed: Placed
    use: Use
    turn: Use

    @property
    def leaf(self) -> Leaf:
        return self.placed.leaf

    def at(self, mark: str, shared: frozenset[str]) -> tuple[tuple[Row, ...], list[Form], list[Form]]:
        """Rows, place and turn at a point whose names carry a mark, but for those of the loops in `shared`."""
        names = {n: f"{n}{mark}" for n in self.leaf.primed(shared)}
        divisions = {n for f in self.turn.forms for _, terms, _ in f.rows for n, _ in terms if "/" in n}
        place = [f.renamed(names) for f in self.use.forms]
        return (
            renamed(self.leaf.domain, names),
            place,
            [f.renamed(names | {n: f"{n}{mark}" for n in divisions}) for f in self.turn.forms],
        )


def _check_read(program: Program, read: _Access, writes: list[_Access], depth: int) -> None:
    """Nobody writes the slot of this read for another turn after the write that it means.

    That one is in the same iteration of the first `depth` loops, and so is what comes after it.
    """
    for meant in writes:
        for shared, order in before(meant.placed, read.placed):
            if len(shared) < depth or told_apart(meant.leaf, read.leaf, common(meant.use, read.use), shared, order):
                continue
            rows, _, turn = meant.at("~", shared)
            swapped = {f"{n}'": n for n in read.leaf.names} | {n: f"{n}~" for n in read.leaf.names}
            both = program.original.rows(read.leaf) + (rows + renamed(order, swapped) + same(turn, read.turn.forms))
            if both.plain.impossible:
                continue
            for other in writes:
                _check_between(program, read, meant, other, shared, both)


def _check_between(
    program: Program, read: _Access, meant: _Access, other: _Access, shared: frozenset[str], rows: Rows
) -> None:
    domain, place, turn = other.at("'", shared)
    rows += domain + same(place, read.use.forms)
    for question in between((meant, "~"), (other, "'"), (read, ""), shared, rows):
        for d, (a, b) in enumerate(zip(turn, read.turn.forms, strict=True)):
            if other.turn.index[d] == other.use.index[d] and read.turn.index[d] == read.use.index[d]:
                continue  # a dimension without turns, in which the places are the same
            for apart in (a.minus(b, 1), b.minus(a, 1)):
                if not solvable(wrong := question + apart.nonnegative()):
                    continue
                point = example(wrong, [*program.kernel.sizes, *read.leaf.names])
                assert point is not None
                words = Words(program.original, point, shared)
                raise Refused(
                    f"a slot of '{read.use.buffer}' is written again before its last read",
                    f"{words.instance(other.leaf, True)} writes {words.element(other.use, True)}, which "
                    f"{words.instance(read.leaf)} reads later for an earlier turn{words.sizes}",
                )
