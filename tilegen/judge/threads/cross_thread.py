"""Which statements of a launch need a barrier between them: dependences that cross threads of a block.

A dependence crosses threads if two threads of one block touch an element of shared or global memory, one of them
writing, in an order that the loops around both fix. It exists if that is possible at some admitted size. Whoever puts
a barrier between every two such accesses has kept every dependence; whoever proves a launch asks that each is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import Literal

from tilegen.ir.hardware.atomics import are_updates_of_one
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS, Tree
from tilegen.poly.instances import Leaf, Placed, Projection, Use, common_index, equal_loops, project
from tilegen.poly.rows import Row, Rows, identify, rename
from tilegen.poly.system import Undecided, equal_rows, example, solvable
from tilegen.poly.verdict import Words

# What the two accesses do, the later one first: "RAW" is read after write.
DependenceKind = Literal["RAW", "WAR", "WAW"]


@dataclass(frozen=True, eq=False)
class Dependence:
    """Two threads of one block may use an element of shared or global memory, one writing, in a fixed order.

    isl is asked whether they ever do when `exists` is read.

    Attributes:
        kind: "RAW" (the sink reads what the source wrote), "WAR" or "WAW".
        source, sink: leaves of the launch, counted in the order of `ir.walk.leaves`.
        carried_by: the loop of which the sink runs in a later iteration, or None: all common loops that
            are not thread loops are in the same iteration, and the source comes first in the text.
    """

    kind: DependenceKind
    buffer: str
    source: int
    sink: int
    carried_by: str | None
    crossings: list[Crossing] = field(default_factory=list, repr=False)

    @cached_property
    def exists(self) -> bool:
        """True if it exists at some admitted size; what isl cannot decide is taken to exist."""
        return False in self._apart_at.values() or any(map(_may_be, self.crossings))

    def is_iterations_apart(self, loop: str) -> bool:
        """True if a whole iteration of `loop` is certain to pass in between, where the dependence exists.

        It is the loop that carries it, and the sink never runs in the very next iteration, or a loop of the sink
        that it is never in the first iteration of.
        """
        if loop not in self._apart_at:
            one = self.crossings[0]
            row = dict(rows_of_adjacent(one.first, one.second, self.carried_by)).get(loop)
            if row is None:
                return False
            self._apart_at[loop] = not any(_may_be(crossing, row) for crossing in self.crossings)
        return self._apart_at[loop]

    @cached_property
    def _apart_at(self) -> dict[str, bool]:
        return {}


def _may_be(crossing: Crossing, *rows: Row) -> bool:
    try:
        return crossing.is_possible(rows)
    except Undecided:
        return True


def dependences(tree: Tree, launch: int, more: Sequence[Placed] = ()) -> tuple[Dependence, ...]:
    """The dependences of launch number `launch` (an index into `tree.body`) that may cross threads.

    Cooperative loops have been dealt out before: thread loops say which thread runs what. A statement
    outside the loop of some thread dimension that the launch has runs on thread 0 of it, or on all of them
    if it writes a register that each of them has; lanes that combine leave the target to the first of them.
    Every dependence that exists at some admitted size is listed, and some that do not exist. `more` are statements of
    the launch that stand in no tree, numbered after its own.
    """
    program = project(tree)
    leaves = [*(p for p in program.leaves if p.places[0] == launch), *more]
    first = leaves[0].number if leaves else 0
    found: dict[tuple[str, str, int, int, str | None], Dependence] = {}
    for one, two, pairs in meetings(program, leaves):
        for a, b in pairs:
            for way in ways_later(one, two):
                crossing = Crossing(program, one, two, a, b, way)
                if crossing.plainly_none:
                    continue
                kind: DependenceKind = "WAW" if a.writes and b.writes else "RAW" if a.writes else "WAR"
                key = (kind, memory_of(a.buffer), one.number - first, two.number - first, way[0])
                found.setdefault(key, Dependence(*key)).crossings.append(crossing)
    return tuple(found.values())


def rows_of_adjacent(one: Placed, two: Placed, carried_by: str | None) -> Iterator[tuple[str, Row]]:
    """Loops that may have a whole iteration between `one` and the later `two`, and a row that says they have not.

    Of a ragged loop data decide which iterations run: none is certain between two that do.
    """
    if carried_by is not None:
        if ("ragged", carried_by) not in zip(two.leaf.kinds, two.leaf.names, strict=True):
            yield carried_by, (True, ((f"{carried_by}'", 1), (carried_by, -1)), -1)
        return
    depth = one.common_depth(two)
    for name, kind in zip(two.leaf.names[depth:], two.leaf.kinds[depth:], strict=True):
        if kind in THREAD_KINDS:
            return
        if kind not in (*BLOCK_KINDS, "ragged"):
            yield name, (True, ((f"{name}'", 1),), 0)


def meetings(program: Projection, leaves: Sequence[Placed]) -> Iterator[tuple[Placed, Placed, list[tuple[Use, Use]]]]:
    """Two of the leaves, and their accesses to one buffer that threads can meet in, one of them writing."""
    used = [(placed, uses) for placed in leaves if (uses := _memory_uses(program, placed.leaf))]
    for one, uses in used:
        for two, others in used:
            pairs = [
                (a, b)
                for a in uses
                for b in others
                if memory_of(a.buffer) == memory_of(b.buffer)
                and (a.writes or b.writes)
                and not are_updates_of_one(one.leaf.stmt, two.leaf.stmt, program.buffers[a.buffer])
            ]
            if pairs:
                yield one, two, pairs


def _memory_uses(program: Projection, leaf: Leaf) -> list[Use]:
    """The accesses to memory that threads have in common, those of one kind to one element once."""
    found: list[Use] = []
    for use in leaf.uses:
        if program.buffers[use.buffer].space != "register":
            again = any((u.buffer, u.writes, u.index) == (use.buffer, use.writes, use.index) for u in found)
            found += () if again else (use,)
    return found


# How one comes before two: the loop that carries it, the loops both are in the same iteration of, rows.
Way = tuple[str | None, frozenset[str], tuple[Row, ...]]


def ways_later(one: Placed, two: Placed) -> Iterator[Way]:
    """The ways in which a thread's instance of `two`, primed, is later than another thread's of `one`."""
    depth = one.common_depth(two)
    names = one.leaf.names[:depth]
    steps = [n for n, k in zip(names, one.leaf.kinds, strict=False) if k not in THREAD_KINDS]
    if one.places < two.places:
        yield None, frozenset(steps), ()
    for n, name in enumerate(steps):
        kind = one.leaf.kinds[names.index(name)]
        if kind in BLOCK_KINDS:
            continue
        yield name, frozenset(steps[:n]), ((False, ((f"{name}'", 1), (name, -1)), -1),)


@dataclass(frozen=True, eq=False)
class Crossing:
    """An access of `first` and a later one of `second`, by different threads of one block, in one way."""

    program: Projection
    first: Placed
    second: Placed
    a: Use
    b: Use
    way: Way

    @property
    def plainly_none(self) -> bool:
        """True if the common index of both accesses shows that the same thread makes them; a fast path past isl."""
        return not self._different_thread_rows

    def is_possible(self, only: tuple[Row, ...] = ()) -> bool:
        """True if there are two such accesses of one element where `only` holds."""
        if not self._different_thread_rows:
            return False
        return self._question(only) is not None

    def describe(self, only: tuple[Row, ...] = ()) -> str:
        """The element and the threads, at concrete sizes, where it is possible."""
        question = self._question(only)
        assert question is not None
        one, two, names = self.first.leaf, self.second.leaf, self._second_names
        sizes = self.program.kernel.symbols
        found = example(question, [*sizes, *one.names, *(names.get(n, n) for n in two.names)])
        assert found is not None
        words = Words(self.program.original, found, self.way[1])
        who = {kind: threads for kind, threads in self._who.items() if threads[0].name or threads[1].name}
        return _sentence(words, one, two, self.a, self.b, who)

    def _question(self, only: tuple[Row, ...]) -> Rows | None:
        rows = self._pair_rows
        base = rows + self._named_rows(only)
        return next((question for row in self._different_thread_rows if solvable(question := base + row)), None)

    @cached_property
    def _second_names(self) -> Mapping[str, str]:
        return self.second.leaf.primed_names(self._common_loops)

    @cached_property
    def _pair_rows(self) -> Rows:
        return self.program.original.pair(self.first.leaf, self.second.leaf, self._common_loops) + self._crossing_rows

    @cached_property
    def _crossing_rows(self) -> tuple[Row, ...]:
        """Rows that say: in this way, at one element, in one block."""
        place = equal_rows(self.a.forms_with(self.b), [f.rename(self._second_names) for f in self.b.forms_with(self.a)])
        return (
            self._named_rows(self.way[2])
            + place
            + _same_block_rows(self.first.leaf, self.second.leaf, self._second_names)
        )

    def _named_rows(self, rows: tuple[Row, ...]) -> tuple[Row, ...]:
        """Rows of two iterations, with one name for loops in which they are the same one."""
        return identify(rows, {f"{n}'": n for n in self._common_loops})

    @cached_property
    def _who(self) -> Mapping[str, tuple[_Thread, _Thread]]:
        return {
            kind: (_thread(self.program, self.first, self.a, kind), _thread(self.program, self.second, self.b, kind))
            for kind in THREAD_KINDS
        }

    @cached_property
    def _different_thread_rows(self) -> tuple[tuple[Row, ...], ...]:
        """The ways in which the two are different threads: what each can be along an axis, and that one is further.

        Most are distinguished by what their places have in common: then there is none, and no rows are made.
        """
        found: list[tuple[Row, ...]] = []
        for one, other in self._who.values():
            if one.name and one.name == other.name and one.name in self._equal_loops:
                continue
            second = other.name if other.name in self._common_loops else f"{other.name}'"
            for sign in (1, -1):
                terms: tuple[tuple[str, int], ...] = ((one.name, sign),) if one.name else ()
                terms += ((second, -sign),) if other.name else ()
                if terms:
                    found.append((*one.rows, *rename(other.rows, {other.name: second}), (False, terms, -1)))
        return tuple(found)

    @cached_property
    def _common_loops(self) -> frozenset[str]:
        """The loops that both are in the same iteration of."""
        return self.way[1] | self._equal_loops

    @cached_property
    def _equal_loops(self) -> frozenset[str]:
        return equal_loops(self.first.leaf, self.second.leaf, common_index(self.a, self.b), self.way[1])


@dataclass(frozen=True)
class _Thread:
    """Where along an axis an access is made: a name, and the rows that say what it can be; no name is thread 0."""

    name: str
    rows: tuple[Row, ...] = ()


def _thread(program: Projection, placed: Placed, use: Use, kind: str) -> _Thread:
    leaf, launch = placed.leaf, placed.places[0]
    loop = next(iter(leaf.along(kind)), None)
    if loop is not None:
        # The lanes that combine leave the target to the first of them.
        alone = use.writes or any(use.index == w.index for w in leaf.uses if w.writes and w.buffer == use.buffer)
        return _Thread("" if alone and program.lanes.get(placed.number) == loop else loop)
    by_all = kind == "thread.x" and "matrix" in leaf.kinds  # an instruction is run by all lanes
    if not by_all and (leaf.stmt.target.buffer, kind) not in program.register_copies[launch]:
        return _Thread("")
    threads = program.threads(launch, kind)
    return _Thread(kind, ((False, ((kind, 1),), 0), (False, ((kind, -1),), threads - 1)))


def _same_block_rows(one: Leaf, two: Leaf, names: Mapping[str, str]) -> tuple[Row, ...]:
    """Both are in one block, also where each has block loops of its own."""
    rows: tuple[Row, ...] = ()
    pairs = [pair for kind in BLOCK_KINDS for pair in zip_longest(one.along(kind), two.along(kind))]
    for first, second in pairs:
        terms: tuple[tuple[str, int], ...] = ((first, 1),) if first else ()
        terms += ((names.get(second, second), -1),) if second else ()
        if terms and not (first == second and first not in names):
            rows += ((True, terms, 0),)
    return rows


def _sentence(words: Words, one: Leaf, two: Leaf, a: Use, b: Use, who: Mapping[str, tuple[_Thread, _Thread]]) -> str:
    doing = []
    for leaf, use, second in ((one, a, False), (two, b, True)):
        name = f"the copy {leaf.stmt.name}" if leaf.stmt.is_copy else words.instance(leaf, second)
        verb = "written" if use.writes else "read"
        doing += [f"{verb} by {name} on thread {_thread_words(words, {k: w[second] for k, w in who.items()}, second)}"]
    return f"{words.element(a)} is {doing[0]}, then {doing[1]}{words.sizes}"


def _thread_words(words: Words, who: Mapping[str, _Thread], second: bool) -> str:
    parts = []
    for kind, thread in who.items():
        parts += [f"{thread.name}={words.at(thread.name, second)}" if thread.name else f"{kind}=0"]
    return f"({', '.join(parts)})"
