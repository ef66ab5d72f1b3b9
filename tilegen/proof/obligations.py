"""The obligations of a lowered program, given as a tree again: each asked, counted and timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import cache, partial
from time import perf_counter
from types import MappingProxyType

from tilegen.ir.facts.choices import negations
from tilegen.ir.nodes import Condition, Loop, Node, Stmt, Tree
from tilegen.ir.walk import leaves, rewrite_nodes
from tilegen.judge.copies import check_values
from tilegen.judge.coverage import check_coverage
from tilegen.judge.only import check_only
from tilegen.judge.order import check_order
from tilegen.judge.places.bounds import check_bounds, is_within
from tilegen.judge.places.ragged import check_ragged
from tilegen.judge.places.scatters import check_scatters
from tilegen.judge.statements import check_shape
from tilegen.judge.threads.atomics import check_atomics
from tilegen.judge.threads.races import check_races, check_structure
from tilegen.judge.threads.running import check_running
from tilegen.judge.updates import check_updates
from tilegen.lowering.launch.timelines import Timeline
from tilegen.poly.instances import Leaf, Placed, Projection, common_index, equal_loops, project
from tilegen.poly.rows import rename
from tilegen.poly.system import Undecided, equal_rows, example, negation_rows, question_count, rows_of, solvable
from tilegen.poly.verdict import Refused, Unproved, Violation, Words
from tilegen.proof.reading.bulk import without_events
from tilegen.proof.reading.on_timelines import OnTimeline
from tilegen.proof.reading.roles import Ring
from tilegen.proof.waiting.barriers import (
    CertainBarriers,
    FoundBarrier,
    Gap,
    check_fenced,
    check_minimal,
    check_synchronised,
)
from tilegen.proof.waiting.happens_before import check_alone, check_work
from tilegen.proof.waiting.moments import RANK
from tilegen.proof.waiting.numbers import Numbers
from tilegen.proof.waiting.phases import check_phases, meetings_of_waits
from tilegen.proof.waiting.ragged import check_shared


@dataclass(frozen=True)
class Obligation:
    """What has to hold of every admitted size, and what became of it.

    Attributes:
        name: "coverage", "order", "values", "bounds", "races", "barriers", ...
        cases: how many questions it took.
        milliseconds: how long they took together.
        violation: why it does not hold, with the concrete case; None if it does.
        unproved: what kept it from being decided; None if it was.
    """

    name: str
    cases: int
    milliseconds: float
    violation: Violation | None = None
    unproved: str | None = None

    @property
    def is_proved(self) -> bool:
        return self.violation is None and self.unproved is None


@dataclass(frozen=True)
class Extra:
    """Leaf number `leaf` of the tree runs outside its guard too, where the kernel has no such instance.

    It writes registers there, or copies what is no element to shared memory. `missing` are the conditions of its guard
    that the text does not test.
    """

    leaf: int
    missing: tuple[Condition, ...]


def discharge(name: str, check: Callable[[], int | None]) -> Obligation:
    """What `check` finds out: it raises Refused or Unproved, or returns a number of cases besides its questions."""
    first, start = question_count(), perf_counter()
    more: int | None = 0
    violation, unproved = None, None
    try:
        more = check()
    except Refused as refused:
        violation = refused.violation
    except Unproved as reason:
        unproved = str(reason)
    except Undecided as undecided:
        unproved = undecided.why
    return Obligation(
        name, question_count() - first - 1 + (more or 0), (perf_counter() - start) * 1e3, violation, unproved
    )


# A name, what is asked of the values that a program computes, and of what a block waits for.
Parts = tuple[Callable[[], None], ...]
Question = tuple[str, Parts, Parts]


def questions(
    tree: Tree,
    barriers: Mapping[Gap, FoundBarrier],
    extras: Iterable[Extra] = (),
    described: Set[str] = frozenset(),
    rings: Mapping[int, Ring] = MappingProxyType({}),
) -> tuple[Question, ...]:
    """What a lowered program has to satisfy, to be asked of the tree that says the same.

    Args:
        tree: block loops outermost; inside, what the threads of a block do from barrier to barrier is one
            nest of thread loops. Every name of a register buffer has dimensions over the threads.
        barriers: the barriers, by their place in `tree.body`.
        extras: what the text runs beyond the tree.
        described: the buffers that instructions read by descriptor, or bulk stores.
        rings: those of roles, by the number of their launch.
    """
    program = project(plain := replace(tree, body=without_events(tree.body)))
    certain = CertainBarriers(program, barriers, rings)
    copied = [extra for extra in extras if program.leaves[extra.leaf].leaf.stmt.is_copy]
    computed = [extra for extra in extras if extra not in copied]
    # Where copies are concerned, what runs: without the tests that are missing.
    printed = project(_without_tests(plain, program, copied)) if copied else program
    touched = CertainBarriers(printed, barriers, rings) if copied else certain
    scatters = any("scatter" in placed.leaf.kinds for placed in program.leaves)
    ragged = any("ragged" in placed.leaf.kinds for placed in program.leaves)
    fenced = any(barrier.fence for barrier in barriers.values())
    lines = {stmt.line for _, stmt in leaves(tree.body) if isinstance(stmt, OnTimeline)}
    arrives, stored = [v for v in lines if v.has_phases], [v for v in lines if v.writes_tensors]
    events = cache(lambda: Numbers(CertainBarriers(project(_with_ranks(tree, rings)), barriers, rings)))

    def work(on: list[Timeline]) -> Parts:
        return (lambda: check_work(events(), *on),) if on else ()

    return (
        ("coverage", (lambda: check_coverage(program), lambda: _check_extras(program, computed)), ()),
        ("order", (lambda: check_order(program), lambda: check_updates(program), lambda: check_only(program)), ()),
        ("bounds", (lambda: check_bounds(printed),), ()),
        ("races", (lambda: _check_threads(printed),), (lambda: check_synchronised(touched),)),
        ("barriers", (), (lambda: check_minimal(certain, meetings_of_waits(events()) if arrives else ()),)),
        ("values", (lambda: check_shape(program), lambda: check_values(program, _copies_beside(program, copied))), ()),
        ("scatters", (lambda: check_scatters(program),) if scatters else (), ()),
        ("ragged", (), (lambda: check_ragged(program), lambda: check_shared(program)) if ragged else ()),
        ("waits", (), work([v for v in lines if v.counts_groups])),
        ("fences", (), (lambda: check_fenced(certain, described),) if described or arrives or fenced else ()),
        ("arrivals", (), (lambda: check_phases(events()), *work(arrives)) if arrives else ()),
        ("products", (), work([v for v in lines if v.in_registers])),
        ("stores", (lambda: check_alone(events().program),) if stored else (), work(stored)),
    )


def _with_ranks(tree: Tree, rings: Mapping[int, Ring]) -> Tree:
    """`tree` where loops over blocks of clusters are of a kind of their own: events are those of one cluster."""

    def change(launch: Node, ring: Ring | None) -> Node:
        ranks = {name for rank in ring.ranks for name in rank.names()} if ring else set()
        return rewrite_nodes(
            (launch,), lambda v: replace(v, kind=RANK) if isinstance(v, Loop) and v.name in ranks else v
        )[0]

    return replace(tree, body=tuple(change(launch, rings.get(n)) for n, launch in enumerate(tree.body)))


def ask(every: Iterable[tuple[str, Parts]]) -> tuple[Obligation, ...]:
    """What became of questions. After a violation the later ones are not asked, since they rely on the earlier ones."""
    found: list[Obligation] = []
    for name, parts in ((name, parts) for name, parts in every if parts):
        found.append(discharge(name, partial(_run_all, parts)))
        if found[-1].violation is not None:
            break
    return tuple(found)


def _run_all(parts: Parts) -> None:
    for part in parts:
        part()


def _without_tests(tree: Tree, program: Projection, extras: Iterable[Extra]) -> Tree:
    """`tree` where the statements of `extras` run without the tests that the text does not make."""
    printed = {id(s): _run_where(s, e.missing) for e in extras for s in (program.leaves[e.leaf].leaf.stmt,)}
    return replace(tree, body=rewrite_nodes(tree.body, lambda value: printed.get(id(value), value)))


def _copies_beside(program: Projection, extras: Iterable[Extra]) -> Iterator[Placed]:
    """The leaves of `extras`, for each test that the text does not make in the iterations in which it fails."""
    for extra in extras:
        placed = program.leaves[extra.leaf]
        for test in extra.missing:
            for contrary in negations(test):
                stmt = _run_where(placed.leaf.stmt, extra.missing, contrary)
                yield replace(placed, leaf=replace(placed.leaf, stmt=stmt))


def _run_where(stmt: Stmt, missing: tuple[Condition, ...], *more: Condition) -> Stmt:
    """`stmt` without the tests that are missing, and with others."""
    return replace(stmt, guard=(*(c for c in stmt.guard if c not in missing), *more))


def _check_threads(program: Projection) -> None:
    check_structure(program)
    check_running(program)
    check_atomics(program)
    try:
        check_races(program)
    except Refused as refused:
        found = refused.violation
        if found.code != "thread race":
            raise
        sentence = "no barrier stands between two accesses to an element by different threads"
        raise Refused(sentence, found.witness, code="thread race") from None


def _check_extra_bounds(program: Projection, leaf: Leaf, missing: tuple[Condition, ...]) -> None:
    """Also where it runs without the `missing` conditions, each access of the statement is inside its buffer."""
    tested = tuple(row for c in leaf.stmt.guard if c not in missing for row in rows_of(c))
    runs = (*program.original.context, *leaf.ranges, *tested)
    counts = {n: e.const for n, e in leaf.loops.items() if e.is_const}
    for use in {(u.buffer, u.index): u for u in leaf.uses}.values():
        for place, extent in zip(use.index, program.buffers[use.buffer].shape, strict=True):
            if is_within(place, extent, counts):
                continue
            for room in (place, extent - 1 - place):
                question = runs + rows_of(Condition(-1 - room))
                if not solvable(question):
                    continue
                found = example(question, [*program.kernel.symbols, *leaf.names])
                assert found is not None
                words = Words(program.original, found)
                raise Refused(
                    f"'{leaf.stmt.name}' runs where the kernel has no instance, and outside '{use.buffer}'",
                    f"{words.instance(leaf)} uses {words.element(use)}{words.sizes}",
                )


def _check_extras(program: Projection, extras: Iterable[Extra]) -> None:
    """What runs where the kernel has no instance touches no register that anything else uses."""
    sizes = frozenset(program.kernel.sizes)
    for extra in extras:
        one = program.leaves[extra.leaf]
        _check_extra_bounds(program, one.leaf, extra.missing)
        (write,) = [u for u in one.leaf.uses if u.writes]
        scope = program.buffers[write.buffer].scope
        depth = one.leaf.names.index(scope) + 1 if scope in one.leaf.names else 0
        for two in program.leaves:
            if one.common_depth(two) < depth:
                continue
            uses = {u.index: u for u in two.leaf.uses if u.buffer == write.buffer}
            if not uses:
                continue
            shared = frozenset(one.leaf.names[:depth])
            for use in uses.values():
                # What is alike where both use one element has one name there.
                met = equal_loops(one.leaf, two.leaf, common_index(write, use), shared) | shared
                # What a user of the same element tests itself is not missing there.
                open_ = [c for c in extra.missing if c not in two.leaf.stmt.guard or not c.value.names() <= met | sizes]
                if not open_:
                    continue
                names, rows = one.leaf.primed_names(met), program.original.rows(two.leaf)
                here = [row for row in rename(one.leaf.ranges, names) if row not in rows]
                both = rows + (*here, *equal_rows([f.rename(names) for f in write.forms], use.forms))
                for contrary in (rename(r, names) for c in open_ for r in negation_rows(c)):
                    if not solvable(both + contrary):
                        continue
                    first = [*program.kernel.symbols, *(names.get(n, n) for n in one.leaf.names)]
                    found = example(both + contrary, first)
                    assert found is not None
                    words = Words(program.original, found, shared)
                    raise Refused(
                        f"'{one.leaf.stmt.name}' runs where the kernel has no instance, and writes a register in use",
                        f"{words.element(write, True)}, which {words.instance(two.leaf)} uses{words.sizes}",
                    )
