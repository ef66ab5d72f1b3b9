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
from tilegen.poly.order import earlier
from tilegen.poly.project import Leaf, Placed, Program, Use, project, renamed
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
    for placed, real, turns in _reads(program, slots):
        _check_read(program, slots, placed, real, turns, depths[placed.number, turns])


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


def _reads(program: Program, slots: frozenset[tuple[str, int]]) -> Iterator[tuple[Placed, Use, tuple[Affine, ...]]]:
    for placed in program.leaves:
        for use in {(u.buffer, u.index): u for u in placed.leaf.uses if not u.writes}.values():
            if any(name == use.buffer for name, _ in slots):
                yield placed, use, _in_turn(use.index, program.buffers[use.buffer], slots)


@dataclass(frozen=True)
class _Instance:
    """An access of a leaf at a point whose names carry a mark."""

    placed: Placed
    use: Use
    turns: Use
    mark: str

    @property
    def leaf(self) -> Leaf:
        return self.placed.leaf

    def rows(self) -> tuple[Row, ...]:
        return renamed(self.leaf.domain, self.names)

    def place(self) -> list[Form]:
        return [f.renamed(self.names) for f in self.use.forms]

    def turn(self) -> list[Form]:
        divisions = {n for f in self.turns.forms for _, terms, _ in f.rows for n, _ in terms if "/" in n}
        names = self.names | {n: f"{n}{self.mark}" for n in divisions}
        return [f.renamed(names) for f in self.turns.forms]

    @property
    def names(self) -> dict[str, str]:
        return {n: f"{n}{self.mark}" for n in self.leaf.primed(frozenset())}


def _check_read(
    program: Program,
    slots: frozenset[tuple[str, int]],
    placed: Placed,
    use: Use,
    turns: tuple[Affine, ...],
    depth: int,
) -> None:
    """Nobody writes the slot of this read for another turn after the write that it means.

    That one is in the same iteration of the first `depth` loops, and so is what would come after it.
    """
    read = _Instance(placed, use, Use(use.buffer, turns, False), "")
    writes = [
        _Instance(p, u, Use(u.buffer, _in_turn(u.index, program.buffers[u.buffer], slots), True), "'")
        for p in program.leaves
        for u in p.leaf.uses
        if u.writes and u.buffer == use.buffer
    ]
    for other in writes:
        for rows in _late(program, other, read, depth):
            for meant in (replace(w, mark="~") for w in writes):
                for order in _then(program, meant, other, depth):
                    question = rows + (*meant.rows(), *order, *same(meant.turn(), read.turn()))
                    if not solvable(question):
                        continue
                    point = example(question, [*program.kernel.sizes, *read.leaf.names])
                    assert point is not None
                    words = Words(program.original, point)
                    raise Refused(
                        f"a slot of '{use.buffer}' is written again before its last read",
                        f"{words.instance(other.leaf, True)} writes {words.element(other.use, True)}, which "
                        f"{words.instance(read.leaf)} reads later for an earlier turn{words.sizes}",
                    )


def _late(program: Program, other: _Instance, read: _Instance, depth: int) -> Iterator[Rows]:
    """The ways in which `other` writes the slot of `read`, before it, for another turn."""
    for order in _then(program, other, read, depth):
        rows = program.original.pair(read.leaf, other.leaf, frozenset())
        rows += order + same(other.place(), read.place())
        for d, (a, b) in enumerate(zip(other.turn(), read.turn(), strict=True)):
            if other.turns.index[d] == other.use.index[d] and read.turns.index[d] == read.use.index[d]:
                continue  # a dimension without turns, in which the places are the same
            for apart in (a.minus(b, 1), b.minus(a, 1)):
                if solvable(late := rows + apart.nonnegative()):
                    yield late


def _then(program: Program, one: _Instance, two: _Instance, least: int) -> Iterator[tuple[Row, ...]]:
    """The ways in which `one` comes before `two` during one life of the buffer, in one iteration of `least` loops."""
    scope, names = program.buffers[one.use.buffer].scope, one.leaf.names
    home = max(names.index(scope) + 1 if scope in names else 0, least)
    yield from earlier(one.placed, one.mark, two.placed, two.mark, home)
