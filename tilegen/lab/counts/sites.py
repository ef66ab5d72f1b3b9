"""The accesses of memory and the statements of a thread's program, with the loops and tests around them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.facts.choices import tests_behind_else, tests_of
from tilegen.ir.hardware.instructions import ROW_BYTES, Instruction, SharedRows
from tilegen.ir.nodes import DTYPE_BYTES, Access, Condition, Expr, Index, Load, Op, Stmt
from tilegen.ir.printing.show import show_expr
from tilegen.ir.walk import gathers, loads, substitute, walk
from tilegen.lab.counts.described import matrix_rows
from tilegen.lab.counts.gathers import names_in
from tilegen.lab.counts.hits import stored_hits
from tilegen.lab.counts.repeated import relevant_loops
from tilegen.lab.counts.written_out import write_out_choices
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.product_nodes import Described
from tilegen.lowering.launch.program import (
    Combine,
    Declare,
    Flag,
    For,
    If,
    Let,
    Perform,
    Spmd,
    Start,
    VectorCopy,
    VectorDeclare,
    VectorLoad,
    VectorStore,
    rings,
)
from tilegen.lowering.launch.timelines import STORES, Barrier, Box, OtherNode
from tilegen.lowering.threads.scatters import scattered
from tilegen.proof.reading.inlining import without_calls

_EXPANDED = 256  # elements of an unrolled loop's accesses that are compared one by one


@dataclass(frozen=True)
class Site:
    """One access of a thread to memory.

    Attributes:
        buffer: what is touched, a buffer of the launch.
        index: the first of its `width` neighbouring elements.
        store: False for a load.
        loops: the loops around it, outermost first, those that change what it touches.
        around: the names of all loops around it.
        tests: the conditions around it that distinguish threads, borders left out.
        of_blocks: those that say which blocks run it, one role of several.
        computed: (dimension, name, place) where the place of a gather is not affine; the name stands for it in `index`.
        tested: the dimensions of a gather outside of which nothing is read.
        by: the name of the instruction of a warp that touches a row for each lane; "" for a thread's own access.
    """

    buffer: str
    index: tuple[Affine, ...]
    store: bool
    width: int
    bytes: int
    loops: tuple[For, ...]
    around: tuple[str, ...]
    tests: tuple[Condition, ...]
    computed: tuple[tuple[int, str, Expr], ...] = ()
    tested: tuple[int, ...] = ()
    of_blocks: tuple[Condition, ...] = ()
    by: str = ""

    def names(self) -> set[str]:
        """The loops, threads and sizes that decide which element is touched."""
        affine = {name for i in self.index for name in i.names()}
        return affine | {name for _, _, place in self.computed for name in names_in(place)}


@dataclass(frozen=True)
class Work:
    """One value that a statement computes, with all loops around it.

    `held` are the names in the index of what it is stored to; `reduce` is the word of the reduction it is part of.
    """

    value: Expr
    reduce: str | None
    held: frozenset[str]
    copies: bool
    loops: tuple[For, ...]
    tests: tuple[Condition, ...]
    of_blocks: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class WarpWork:
    """An instruction that the lanes of a warp run together, with all loops around it; `held` as in `Work`."""

    instruction: Instruction
    held: frozenset[str]
    loops: tuple[For, ...]
    tests: tuple[Condition, ...]
    of_blocks: tuple[Condition, ...]


@dataclass(frozen=True)
class ThreadProgram:
    """The accesses and statements of a thread in a block that no border cuts.

    `borders` are the loops around each test of a border that all threads make anew in every iteration of the innermost
    one, where sizes tell how many there are, and none waits for others in it.
    """

    launch: Launch
    sites: tuple[Site, ...]
    work: tuple[Work, ...]
    warp_work: tuple[WarpWork, ...]
    borders: tuple[tuple[For, ...], ...]


def program_of(launch: Launch) -> ThreadProgram:
    """The accesses and statements of a launch, as a block that no border cuts executes them.

    A load that no iteration of a loop changes is made once, as a compiler makes it: its loop is left out
    where neither the index nor the tests speak of it, and nothing in it writes the buffer. Equal loads of
    one list of statements are one load. Of numbers in a ring the first one counts.
    """
    found = _Collector(launch, frozenset(launch.kernel.sizes), _thread_names(launch))
    body = write_out_choices(without_calls(launch.body))
    found.statements(substitute(body, {ring.number: const(0) for ring, _ in rings(body)}), (), ())
    kept: dict[tuple[object, ...], Site] = {}
    for number, site in enumerate(found.sites):
        # Loads that agree in all of this are one load; each store is one of its own, and so is what a warp loads.
        key = (
            (number,)
            if site.store or site.by
            else (site.buffer, site.index, site.width, _ids(site.loops), site.tests, site.of_blocks)
        )
        kept.setdefault(key, site)
    sites = _drop_covered_loads(tuple(kept.values()))
    waiting = {loop for around in found.barriers for loop in _ids(around)}
    borders = tuple(around for around in found.borders if id(around[-1]) not in waiting)
    return ThreadProgram(launch, sites, tuple(found.work), tuple(found.warp_work), borders)


def _drop_covered_loads(sites: tuple[Site, ...]) -> tuple[Site, ...]:
    """`sites` without the loads in unrolled loops all of whose elements other loads in the same context load."""
    kept = []
    for site in sites:
        rivals = [
            other
            for other in sites
            if other is not site
            and not other.store
            and other.buffer == site.buffer
            and _context(other) == _context(site)
        ]
        unrolled = any(loop.kind != "serial" for loop in site.loops)
        if (
            site.store
            or site.by
            or not unrolled
            or not rivals
            or not _unrolled_indices(site) <= set().union(*map(_unrolled_indices, rivals))
        ):
            kept.append(site)
    return tuple(kept)


def _context(site: Site) -> object:
    return tuple(id(loop) for loop in site.loops if loop.kind == "serial"), site.tests, site.of_blocks, site.width


def _unrolled_indices(site: Site) -> set[tuple[Affine, ...]]:
    """The indices of `site` with its unrolled loops written out, up to a limit."""
    found = {site.index}
    if site.computed:
        return found
    for loop in site.loops:
        if loop.kind != "serial" and loop.extent.is_const and len(found) * loop.extent.const <= _EXPANDED:
            numbers = [{loop.name: const(n)} for n in range(loop.extent.const)]
            found = {tuple(i.substitute(n) for i in index) for index in found for n in numbers}
    return found


def iterations(loops: Iterable[For], sizes: Mapping[str, int]) -> int:
    """Iterations of the innermost of the nested loops, in all iterations of the others; 0 where one has none."""
    return prod(max(0, loop.extent.evaluate(sizes)) for loop in loops)


def _ids(loops: tuple[For, ...]) -> tuple[int, ...]:
    return tuple(id(loop) for loop in loops)


def _thread_names(launch: Launch) -> frozenset[str]:
    return frozenset({launch.tid} | {name for name, kind, _ in launch.coordinates if kind.startswith("thread")})


class _Collector:
    """Collects the accesses, statements and barriers of a body, in order."""

    def __init__(self, launch: Launch, sizes: frozenset[str], threads: frozenset[str]) -> None:
        self.launch = launch
        self.sizes = sizes
        self.threads = threads
        self.sites: list[Site] = []
        self.work: list[Work] = []
        self.warp_work: list[WarpWork] = []
        self.barriers: list[tuple[For, ...]] = []
        self.borders: list[tuple[For, ...]] = []
        self.of_blocks: tuple[Condition, ...] = ()
        self.picked: dict[str, Expr] = {}  # the iteration that data pick of each loop around

    def statements(self, body: tuple[Spmd, ...], loops: tuple[For, ...], tests: tuple[Condition, ...]) -> None:
        """One list of statements. A name of a value stands for that value."""
        for place, node in enumerate(body):
            if isinstance(node, Let):
                self.statements(substitute(body[place + 1 :], {node.name: node.value}), loops, tests)
                return
            self.node(node, loops, tests)

    def node(self, node: Spmd, loops: tuple[For, ...], tests: tuple[Condition, ...]) -> None:
        match node:
            case For(kind="scatter"):
                self.scatter(node, loops, tests)
            case For(kind="handed"):  # a block has one of its iterations
                self.statements(node.body, (*loops, replace(node, extent=const(1))), tests)
            case For():
                self.statements(node.body, (*loops, node), tests)
            case If(roles=roles) if roles:
                self.role(node.test, node.body, loops, tests)
                self.role(tests_behind_else(node.test), node.orelse, loops, tests)
            case If(test=test, body=body, orelse=orelse):
                telling = tuple(c for c in test if self.tells_threads_apart(c))
                self.border((c.value for c in test), loops, tests)
                self.statements(body, loops, tests + telling)
                if telling and len(telling) == len(test):
                    self.statements(orelse, loops, tests + tests_behind_else(test))
            case Stmt():
                self.statement(node, loops, tests)
            case VectorLoad(dtype=dtype, width=width, source=source):
                self.site(Site(source.buffer, source.index, False, width, 0, (), (), tests), dtype, loops)
            case VectorStore(dtype=dtype, width=width, target=target):
                self.site(Site(target.buffer, target.index, True, width, 0, (), (), tests), dtype, loops)
            case VectorCopy(dtype=dtype, width=width, target=target, source=source):
                self.site(Site(source.buffer, source.index, False, width, 0, (), (), tests), dtype, loops)
                self.site(Site(target.buffer, target.index, True, width, 0, (), (), tests), dtype, loops)
            case Perform():
                self.perform(node, loops, tests)
            case Start(body=started):
                self.statements(started, loops, tests)
            case Box():
                self.box(node, loops, tests)
            case Barrier(claims=claims) if claims:
                self.barriers.append(loops)
            case Declare(start=start):
                if start:
                    self.reads(start, loops, tests)
                    self.work.append(
                        Work(start, None, frozenset(), isinstance(start, Load), loops, tests, self.of_blocks)
                    )
            case Combine(value=value, reduce=reduce, test=test):
                telling = tests + tuple(c for c in test if self.tells_threads_apart(c))
                self.reads(node, loops, telling)
                self.work.append(Work(value, reduce, frozenset(), False, loops, telling, self.of_blocks))
            case Flag() | VectorDeclare() | Let():
                pass
            case _ if isinstance(node, OtherNode):
                pass
            case _:
                raise TypeError(node)

    def border(self, values: Iterable[Affine], loops: tuple[For, ...], tests: tuple[Condition, ...]) -> None:
        """Tests of these values, if all threads of all blocks make them."""
        if loops and not tests and not self.of_blocks and loops[-1].kind == "serial" and not loops[-1].extent.is_const:
            self.borders += [loops for value in values if loops[-1].name in value.names()]

    def scatter(self, loop: For, loops: tuple[For, ...], tests: tuple[Condition, ...]) -> None:
        """The one iteration that runs, if the loop has it."""
        place, body = scattered(loop)
        self.reads(place, loops, tests)
        self.work.append(Work(place, None, frozenset(), False, loops, tests, self.of_blocks))
        self.picked[loop.name] = place
        self.statements(body, loops, tests)

    def role(
        self, test: tuple[Condition, ...], body: tuple[Spmd, ...], loops: tuple[For, ...], tests: tuple[Condition, ...]
    ) -> None:
        """What some of the threads do, or some of the blocks."""
        outside = self.of_blocks
        self.of_blocks += tuple(c for c in test if c.value.names() & self._block_loops())
        self.statements(body, loops, tests + tuple(c for c in test if self.tells_threads_apart(c)))
        self.of_blocks = outside

    def statement(self, stmt: Stmt, loops: tuple[For, ...], tests: tuple[Condition, ...]) -> None:
        self.reads(stmt, loops, tests)
        targets = [each for each in (stmt.target, stmt.best) if each and (stmt.reduce or not stmt.hits)]
        for target in targets:
            if stmt.reduce and not stmt.atomic:  # an atomic update is one access
                self.access(target, False, loops, tests)
            self.access(target, True, loops, tests)
        for store in stored_hits(stmt, self.launch):
            self.access(store, True, loops, tests)
        held = frozenset(name for i in stmt.target.index for name in i.names())
        self.work.append(Work(stmt.value, stmt.reduce, held, stmt.is_copy, loops, tests, self.of_blocks))

    def perform(self, node: Perform, loops: tuple[For, ...], tests: tuple[Condition, ...]) -> None:
        """An instruction of a unit, the rows in shared memory whose addresses its first lanes give, and those of what
        a descriptor tells of."""
        target = node.instruction.equation.target
        lane = next(name for name, kind, _ in self.launch.coordinates if kind == "thread.x")
        held: frozenset[str] = frozenset()
        for layout, operand in zip(node.instruction.operands, node.operands, strict=True):
            is_target = layout.operand.name == target
            if isinstance(operand, Described):
                each, index, test = matrix_rows(node.origin, layout, operand, lane)
                width = ROW_BYTES // DTYPE_BYTES[layout.operand.dtype]
                row = Site(operand.buffer, index, False, width, 0, (), (), (*tests, test), by=node.instruction.name)
                self.site(row, layout.operand.dtype, (*loops, each))
                continue
            if is_target:
                held = frozenset(name for i in operand.index for name in i.names())
            if isinstance(layout, SharedRows):
                giving = (*tests, Condition(const(layout.rows - 1) - var(lane)))
                width = layout.elements_of_a_row
                row = Site(operand.buffer, operand.index, is_target, width, 0, (), (), giving, by=node.instruction.name)
                self.site(row, layout.operand.dtype, loops)
        self.warp_work.append(WarpWork(node.instruction, held, loops, tests, self.of_blocks))

    def box(self, node: Box, loops: tuple[For, ...], tests: tuple[Condition, ...]) -> None:
        """The rows of a box: what the hardware reads or writes of global memory, and no thread of the block does."""
        each = next(m for m in self.launch.maps if m.name == node.map)
        tensor = self.launch.buffers[each.buffer]
        index = dict(zip(reversed(tensor.order), node.coordinates, strict=True))
        for number, dim in enumerate(reversed(tensor.order)):
            if number:
                row = For(f"{each.name}.row{number}", const(each.box[number]), ())
                step = 1 if each.windows else each.steps[number]
                index[dim], loops = index[dim] + var(row.name) * step, (*loops, row)
        place = tuple(index[d] for d in sorted(index))
        self.site(
            Site(tensor.name, place, node.line == STORES, each.box[0], 0, (), (), tests, by=each.name),
            each.dtype,
            loops,
        )

    def reads(self, value: object, loops: tuple[For, ...], tests: tuple[Condition, ...]) -> None:
        """What is read for a value: loads, and gathers with the loads of their indices; and the choices among it."""
        choices = [each.args[0] for each in walk(value) if isinstance(each, Op) and each.name == "select"]
        self.border(dict.fromkeys(c.value for choice in choices for c in tests_of(choice) or ()), loops, tests)
        for load in loads(value):
            self.access(load, False, loops, tests)
        for gather in gathers(value):
            affine = {d: place.index for d, place in enumerate(gather.index) if isinstance(place, Index)}
            others = [(d, place) for d, place in enumerate(gather.index) if d not in affine]
            computed = tuple((d, show_expr(place) + "'" * number, place) for number, (d, place) in enumerate(others))
            index = affine | {d: var(name) for d, name, _ in computed}
            own = Site(gather.buffer, tuple(index[d] for d in sorted(index)), False, 1, 0, (), (), tests)
            self.site(replace(own, computed=computed, tested=gather.tested), gather.dtype, loops)

    def access(self, access: Load | Access, store: bool, loops: tuple[For, ...], tests: tuple[Condition, ...]) -> None:
        dtype = self.launch.buffers[access.buffer].dtype if access.buffer in self.launch.buffers else ""
        self.site(Site(access.buffer, access.index, store, 1, 0, (), (), tests), dtype, loops)

    def site(self, site: Site, dtype: str, loops: tuple[For, ...]) -> None:
        """Notes an access of memory, with the loops that are around it."""
        memory = self.launch.buffers.get(site.buffer)
        if memory is None or memory.space not in ("global", "shared"):
            return
        picked = [(d, n) for d, i in enumerate(site.index) for n in self.picked if n in i.names()]
        site = replace(
            site,
            computed=(*site.computed, *((d, n, self.picked[n]) for d, n in picked)),
            tested=(*site.tested, *(d for d, _ in picked)),
        )
        spoken = site.names() | {n for c in site.tests for n in c.value.names()}
        kept = loops if site.store or site.by else relevant_loops(loops, frozenset(spoken), site.buffer)
        around = tuple(loop.name for loop in loops)
        own = replace(site, bytes=site.width * DTYPE_BYTES[dtype], loops=kept, around=around)
        self.sites.append(replace(own, of_blocks=self.of_blocks))

    def tells_threads_apart(self, condition: Condition) -> bool:
        """True for a test of threads and constant loops alone; a test with sizes or blocks is one of the border."""
        names = condition.value.names()
        return bool(names & self.threads) and not names & self.sizes and not names & self._block_loops()

    def _block_loops(self) -> frozenset[str]:
        return frozenset(name for name, kind, _ in self.launch.coordinates if kind.startswith("block"))
