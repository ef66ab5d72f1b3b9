"""Buffers whose places are used in turn, as `A.shared[ko%3, ...]`: the values are those of `A.shared[ko, ...]`.

With a dimension that never comes round, each place stands for one element again, and the check of values
applies. What is left is that no read comes too late: between the write that it means and the read, nobody
writes the same slot for another turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from tilegen.ir.affine import Affine, Mod
from tilegen.ir.nodes import Access, Load, Stmt, Tree
from tilegen.ir.walk import rewrite_accesses, rewrite_nodes
from tilegen.judge.copies.contents import check_values
from tilegen.judge.copies.storage import marked, settled_in, storages
from tilegen.poly.execution import Names, before, between
from tilegen.poly.instances import Leaf, Placed, Program, Use, alike_in, common, project, told_apart
from tilegen.poly.rows import Rows, renamed
from tilegen.poly.system import Form, Row, example, same, solvable
from tilegen.poly.verdict import Refused, Words


def check_values_in_turn(program: Program) -> None:
    """`check_values`, for buffers with slots too. Refused where no reading of these holds, as the first one is."""
    refusals: list[Refused] = []
    # Registers that go round are followed from write to write, as `latest` does; where that does not help, by
    # turns. The slots that are there may also never come round, in an iteration of a loop further inside. What
    # registers are filled from in shared memory is looked at in one iteration of the loop around all of its uses.
    shared = frozenset(b.name for b in program.buffers.values() if b.space == "shared")
    attempts: list[Callable[[], None]] = [
        *(partial(_check_turns, program, slots, shared) for slots in _choices(program)),
        lambda: check_values(program),
        lambda: check_values(project(_lives(program, shared))),
    ]
    for attempt in attempts:
        try:
            attempt()
            return
        except Refused as refused:
            refusals += [refused]
    raise refusals[0]


def _choices(program: Program) -> list[frozenset[tuple[str, int]]]:
    """Which slots to look at in turns: those in shared memory, then those in registers too."""
    every = _slots(program)
    shared = frozenset((name, d) for name, d in every if program.buffers[name].space == "shared")
    return [slots for slots in dict.fromkeys((shared, every)) if slots]


def _check_turns(program: Program, slots: frozenset[tuple[str, int]], shared: frozenset[str]) -> None:
    names = frozenset(name for name, _ in slots)
    program = project(_lives(program, names | shared))
    turning = _Turning(program, slots)
    unrolled = project(_unrolled(turning))
    check_values(unrolled)
    depths = _depths(unrolled, names)
    accesses = list(_accesses(turning))
    for read in (a for a in accesses if not a.use.writes):
        writes = [a for a in accesses if a.use.writes and a.use.buffer == read.use.buffer]
        scope = program.buffers[read.use.buffer].scope
        home = read.leaf.names.index(scope) + 1 if scope in read.leaf.names else 0
        _check_read(program, read, writes, max(home, depths[read.placed.number, read.turn.index]))


def _depths(unrolled: Program, names: frozenset[str]) -> dict[tuple[int, tuple[Affine, ...]], int]:
    """For each read of these, told by its leaf and index: the loops that it shares with the write that it means."""
    touches = [(s, t) for s in storages(unrolled) for t in s.touches if not t.use.writes and t.use.buffer in names]
    return {(t.placed.number, t.use.index): settled_in(storage, t) for storage, t in touches}


def _slots(program: Program) -> frozenset[tuple[str, int]]:
    """(buffer, dimension) where some write and some read go round with the same loops, one ahead of the other.

    One of them may go round once, and be at `ko` for `ko%2`. A place like `lane%4` tells threads apart, and has no
    turns.
    """
    turning: dict[bool, set[tuple[str, int, Affine, bool]]] = {True: set(), False: set()}
    for placed in program.leaves:
        leaf = placed.leaf
        serial = {name for name, kind in zip(leaf.names, leaf.kinds, strict=True) if kind == "serial"}
        for use in leaf.uses:
            buffer = program.buffers[use.buffer]
            for d, place in enumerate(use.index if buffer.space in ("shared", "register") else ()):
                # Neither a number nor a thread's place has turns.
                if place.terms and place.names() <= serial:
                    turn = _turn(place, buffer.shape[d])
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


class _Turning:
    """The accesses of a program with turns for slots: `index` gives an access its places without the remainders.

    Behind the loop that fills slots in turn, a slot is read for the last turn that went there: with n turns, slot
    (n - 1)%3, whether it is written so, or as (n + 2)%3, or as a number because n is one.
    """

    def __init__(self, program: Program, slots: frozenset[tuple[str, int]]) -> None:
        self.program = program
        self.slots = slots
        self._last: list[tuple[str, int, tuple[int, ...], Affine]] = []
        for placed in program.leaves:
            for use in placed.leaf.uses:
                if use.writes:
                    self._last += self._of_write(placed, use)

    def _of_write(self, placed: Placed, use: Use) -> Iterator[tuple[str, int, tuple[int, ...], Affine]]:
        """(buffer, dimension, place of the loop that it goes round with, its last turn) for each slot of a write."""
        leaf = placed.leaf
        for d, place in enumerate(use.index):
            if (use.buffer, d) not in self.slots:
                continue
            turn = _turn(place, self.program.buffers[use.buffer].shape[d])
            around = [n for n in leaf.names if n in turn.names()]
            if len(around) == 1:
                loop = placed.places[: leaf.names.index(around[0]) + 1]
                yield use.buffer, d, loop, turn.substitute({around[0]: leaf.loops[around[0]] - 1})

    def index(self, placed: Placed, use: Use) -> tuple[Affine, ...]:
        """The places of an access of `placed`, in turns."""
        return tuple(
            self._place(placed, use, d) if (use.buffer, d) in self.slots else place for d, place in enumerate(use.index)
        )

    def _place(self, placed: Placed, use: Use, dim: int) -> Affine:
        buffer = self.program.buffers[use.buffer]
        turn = _turn(use.index[dim], buffer.shape[dim])
        if use.writes or turn.names() & set(placed.leaf.names):
            return turn
        ahead = [
            (loop[-1], number)
            for number, (name, d, loop, _) in enumerate(self._last)
            if (name, d) == (buffer.name, dim) and _behind(placed, loop)
        ]
        if not ahead:
            return turn
        last = self._last[max(ahead)[1]][3]
        since = (last - turn) % buffer.shape[dim].const
        return last - since if since.is_const else turn


def _behind(placed: Placed, loop: tuple[int, ...]) -> bool:
    """True if `placed` stands in the same body as the loop at the place `loop`, further down."""
    mine = placed.places[: len(loop)]
    return len(mine) == len(loop) and mine[:-1] == loop[:-1] and mine[-1] > loop[-1]


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


def _unrolled(turning: _Turning) -> Tree:
    tree = turning.program.tree
    leaves = iter(turning.program.leaves)
    names = {name for name, _ in turning.slots}

    def change(stmt: Any) -> Any:
        if not isinstance(stmt, Stmt):
            return stmt
        placed = next(leaves)
        if not any(use.buffer in names for use in placed.leaf.uses):
            return stmt

        def in_turn(access: Access | Load) -> Access | Load:
            if access.buffer not in names:
                return access
            use = Use(access.buffer, access.index, isinstance(access, Access))
            return replace(access, index=turning.index(placed, use))

        return rewrite_accesses(stmt, in_turn)

    return replace(tree, body=rewrite_nodes(tree.body, change))


def _accesses(turning: _Turning) -> Iterator[_Access]:
    """The accesses to these buffers, equal ones of a leaf once."""
    names = {name for name, _ in turning.slots}
    for placed in turning.program.leaves:
        uses = {(u.buffer, u.index, u.writes): u for u in placed.leaf.uses if u.buffer in names}
        for use in uses.values():
            yield _Access(placed, use, Use(use.buffer, turning.index(placed, use), use.writes))


@dataclass(frozen=True)
class _Access:
    """An access of a leaf, and the turn that it is for: its index without the remainders of slots."""

    placed: Placed
    use: Use
    turn: Use

    @property
    def leaf(self) -> Leaf:
        return self.placed.leaf

    def goes_round(self, dim: int) -> bool:
        """True if there are turns for a place in this dimension."""
        return self.turn.index[dim] != self.use.index[dim]

    def in_turn(self, names: Names, mark: str) -> list[Form]:
        """The turn at a point whose loops have these names; what else is divided of them carries the mark."""
        names = marked(self.turn.forms, names, mark)
        return [f.renamed(names) for f in self.turn.forms]

    def names(self, mark: str, read: _Access, shared: frozenset[str]) -> dict[str, str]:
        """Its names at a point where it has the place of `read`, in the same iteration of the loops in `shared`."""
        met = shared | alike_in(self.leaf, read.leaf, common(self.use, read.use), shared)
        return {n: f"{n}{mark}" for n in self.leaf.primed(met)}


def _check_read(program: Program, read: _Access, writes: list[_Access], depth: int) -> None:
    """Nobody writes the slot of this read for another turn after the write that it means.

    That one is in the same iteration of the first `depth` loops, and so is what comes after it.
    """
    for meant in writes:
        place = common(meant.use, read.use)
        for shared, order in before(meant.placed, read.placed):
            if len(shared) < depth:
                continue
            if told_apart(meant.leaf, read.leaf, place, shared, order):
                continue
            names = meant.names("~", read, shared)
            rows = cache(partial(_meant, program, read, meant, names, order))
            for other in writes:
                _check_between(program, read, (meant, names), other, shared, rows)


def _meant(program: Program, read: _Access, meant: _Access, names: Names, order: tuple[Row, ...]) -> Rows:
    """Rows for a read, and for the write that it means, which comes before it in this way."""
    rows, turn = renamed(meant.leaf.domain, names), meant.in_turn(names, "~")
    swapped = {f"{n}'": n for n in read.leaf.names} | {n: f"{n}~" for n in read.leaf.names}
    return program.original.rows(read.leaf) + (rows + renamed(order, swapped) + same(turn, read.turn.forms))


def _check_between(
    program: Program,
    read: _Access,
    meant: tuple[_Access, Names],
    other: _Access,
    shared: frozenset[str],
    rows: Callable[[], Rows],
) -> None:
    if other.placed.shares(read.placed) < len(shared):
        return  # it is not in the iteration that both of them are in
    names = other.names("'", read, shared)

    def there() -> tuple[Row, ...]:
        place = [f.renamed(names) for f in other.use.forms]
        return renamed(other.leaf.domain, names) + same(place, read.use.forms)

    # In a dimension without turns the places are the same.
    turns = [d for d in range(len(other.turn.index)) if other.goes_round(d) or read.goes_round(d)]
    for question in between(meant, (other, names), (read, {}), shared, rows, there):
        turn = other.in_turn(names, "'")
        for a, b in ((turn[d], read.turn.forms[d]) for d in turns):
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
