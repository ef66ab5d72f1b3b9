"""What a launch moves and computes: counted at given sizes, and as formulas in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from tilegen.ir.nodes import FLOATS, Cast, Condition, Const, Expr, Gather, Index, Load, Op, Scalar
from tilegen.lab.counts import formula
from tilegen.lab.counts.addresses import (
    LINE,
    Pattern,
    count_active_threads,
    count_distinct,
    mean_active_threads,
    patterns,
)
from tilegen.lab.counts.banks import BankConflict, conflict
from tilegen.lab.counts.borders import share_inside
from tilegen.lab.counts.formula import Formula
from tilegen.lab.counts.roles import blocks_along
from tilegen.lab.counts.sites import Site, ThreadProgram, WarpWork, Work, iterations
from tilegen.lab.counts.tensor_cores import InstructionCount, count_of, operations_of
from tilegen.lab.counts.widen import widen
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import For

SECTOR = 32  # bytes of a transaction with global memory
# Functions that the special function unit computes, 16 a cycle and SM; the others are several instructions.
_SPECIAL = {"rsqrt", "sqrt", "exp", "exp2", "expm1", "log", "log1p", "log2", "sin", "cos", "tanh", "/"}


@dataclass(frozen=True)
class Traffic:
    """One access of the program, all blocks of the launch together.

    Attributes:
        site: the access as the program makes it; `compiled` as a compiler does, which joins neighbours.
        index: the element as the program writes it.
        elements: a formula: elements that threads ask for, each thread's own counted.
        requests: instructions of warps.
        bytes: that the threads ask for.
        sectors: transactions of 32 bytes, of global memory.
        least_sectors: those that would do if the different bytes of a request lay in one piece.
        distinct: bytes that the blocks get, what the threads of a block ask for together counted once, and nothing
            beyond the borders.
        lines: different lines of 128 bytes, summed over requests; each keeps the cache busy for a cycle.
        in_bulk: no thread moves it, but the hardware that copies boxes.
        conflict: how a shared access fares, of one block.
        wavefronts: of shared memory, one a cycle, of all blocks.
    """

    site: Site
    compiled: Site
    space: str
    index: str
    elements: Formula
    requests: float
    bytes: float
    sectors: float
    least_sectors: float
    distinct: float
    lines: float
    in_bulk: bool
    conflict: BankConflict | None
    wavefronts: float

    @property
    def store(self) -> bool:
        return self.site.store

    @property
    def coalesced_share(self) -> float:
        """The least transactions as a share of those made: 1 is best."""
        return self.least_sectors / self.sectors if self.sectors else 1.0


@dataclass(frozen=True)
class ArithmeticCount:
    """Instructions of threads that compute with floating point, all threads of the launch together.

    `fused` are multiply-adds; `plain` other additions, products, comparisons; `special` functions; `by_warps` the
    instructions that warps or warpgroups run; `tests` those of borders, made again in each iteration of a loop.
    Operations count a multiply-add twice, and no tests.
    """

    fused: float
    plain: float
    special: float
    dtype: str
    by_warps: tuple[InstructionCount, ...] = ()
    tests: float = 0.0

    @property
    def operations(self) -> float:
        return 2 * self.fused + self.plain + self.special + sum(c.runs * c.operations for c in self.by_warps)

    @property
    def computing(self) -> tuple[InstructionCount, ...]:
        """Those instructions of warps that compute, and do not only move bits."""
        return tuple(c for c in self.by_warps if c.operations)


@dataclass(frozen=True)
class Inner:
    """One iteration of the innermost loop of the main statement, for one thread.

    `shared` and `global_` are loads of memory, a vector one load; fractions are loads that not every iteration makes.
    `by_warps` are the instructions of its `unit`, a warp or a warpgroup, that compute; what these read of shared memory
    by themselves is no load of the thread's.
    """

    loop: str
    shared: float
    global_: float
    fused: float
    plain: float
    by_warps: float = 0.0
    unit: str = "warp"


def traffic(program: ThreadProgram, sizes: Mapping[str, int], hits: float = 0.0) -> list[Traffic]:
    """Every access of the program at the given sizes, where that share of the points of lists are `hits`."""
    kept = {equation.hits.access.buffer for equation in program.launch.kernel.equations if equation.hits}
    found = (_site_traffic(program.launch, site, sizes) for site in program.sites)
    return [_share_of(each, hits) if each.site.buffer in kept else each for each in found]


def _share_of(every: Traffic, share: float) -> Traffic:
    """The stores of hits, each of which is somewhere else."""
    stored, sectors, lines = share * every.bytes, share * every.sectors, share * every.lines
    least = share * every.least_sectors
    return replace(every, bytes=stored, sectors=sectors, least_sectors=least, distinct=stored, lines=lines)


def _block_count(launch: Launch, tests: tuple[Condition, ...], sizes: Mapping[str, int]) -> int:
    return prod(max(0, factor.evaluate(sizes)) for factor in blocks_along(launch, tests))


def _site_traffic(launch: Launch, site: Site, sizes: Mapping[str, int]) -> Traffic:
    blocks = _block_count(launch, site.of_blocks, sizes)
    memory = launch.buffers[site.buffer]
    wide = widen(site, memory)
    found = patterns(launch, wide, sizes)
    lanes = sum(p.share * sum(a >= 0 for a in p.lanes) for p in found)
    shared = memory.space == "shared"
    met = conflict(found, wide.bytes, site.store or bool(site.by)) if shared else None
    return Traffic(
        site=site,
        compiled=wide,
        space=memory.space,
        index=f"{site.buffer}[{', '.join(str(i) for i in site.index)}]",
        elements=_elements_formula(launch, site, sizes, lanes * wide.width),
        requests=blocks * sum(p.share for p in found),
        bytes=blocks * lanes * wide.bytes,
        sectors=0.0 if shared else blocks * sum(p.share * len(_pieces(p, site.bytes, SECTOR)) for p in found),
        least_sectors=0.0 if shared else blocks * sum(p.share * _least_sectors(p, site.bytes) for p in found),
        distinct=0.0 if shared else blocks * _distinct_bytes(launch, site, sizes),
        lines=0.0 if shared else blocks * sum(p.share * len(_pieces(p, site.bytes, LINE)) for p in found),
        in_bulk=site.by in {each.name for each in launch.maps},
        conflict=met,
        wavefronts=blocks * met.wavefronts if met else 0.0,
    )


def _distinct_bytes(launch: Launch, site: Site, sizes: Mapping[str, int]) -> float:
    """Bytes that a block gets at `site` in the mean of all blocks, each once."""
    return count_distinct(launch, site, sizes) * site.bytes * share_inside(launch, site, sizes)


def _pieces(pattern: Pattern, width: int, size: int) -> set[int]:
    """The pieces of memory of `size` bytes that a request touches."""
    return {
        piece
        for address in set(pattern.lanes)
        if address >= 0
        for piece in range(address // size, (address + width - 1) // size + 1)
    }


def _least_sectors(pattern: Pattern, width: int) -> int:
    return -(-len({a for a in pattern.lanes if a >= 0}) * width // SECTOR)


def _elements_formula(launch: Launch, site: Site, sizes: Mapping[str, int], of_block: float) -> Formula:
    """Elements of all threads as a formula: those of one iteration, times loops, times blocks."""
    once = of_block / max(1, iterations(site.loops, sizes))
    result = formula.number(Fraction(once).limit_denominator(10**6))
    for extent in (*(loop.extent for loop in site.loops), *blocks_along(launch, site.of_blocks)):
        result = result * formula.of(extent)
    return result


# -- arithmetic


def arithmetic(program: ThreadProgram, sizes: Mapping[str, int]) -> ArithmeticCount:
    """What the statements compute at the given sizes."""
    totals = [0.0, 0.0, 0.0]
    for work in program.work:
        runs = _block_count(program.launch, work.of_blocks, sizes) * mean_active_threads(
            program.launch, work.loops, work.tests, sizes
        )
        runs *= iterations(work.loops, sizes)
        totals = [total + runs * count for total, count in zip(totals, instructions(work), strict=True)]
    tests = sum(iterations(loops, sizes) for loops in program.borders) * _block_count(program.launch, (), sizes)
    tests *= program.launch.threads
    by_warps = _count_by_warps(program, sizes)
    return ArithmeticCount(totals[0], totals[1], totals[2], _main_dtype(program), by_warps, tests)


def _count_by_warps(program: ThreadProgram, sizes: Mapping[str, int]) -> tuple[InstructionCount, ...]:
    """How often each instruction of warps or warpgroups runs, by name."""
    launch = program.launch
    found: dict[str, InstructionCount] = {}
    for work in program.warp_work:
        threads = mean_active_threads(launch, work.loops, work.tests, sizes)
        lanes, blocks = work.instruction.lanes, _block_count(launch, work.of_blocks, sizes)
        units = blocks * count_active_threads(launch, work.loops, work.tests, sizes) / lanes
        runs = blocks * threads / lanes * iterations(work.loops, sizes)
        runs += found[work.instruction.name].runs if work.instruction.name in found else 0.0
        found[work.instruction.name] = count_of(work.instruction, runs, runs / max(1.0, units))
    return tuple(found.values())


def _main_dtype(program: ThreadProgram) -> str:
    """The type of most computed values; f32 if there are none."""
    kinds = [work.value.dtype for work in program.work if work.value.dtype in FLOATS and not work.copies]
    return max(kinds, key=kinds.count) if kinds else "f32"


def instructions(work: Work) -> tuple[int, int, int]:
    """(multiply-adds, other plain ones, functions) of one execution, products fused into sums, equal parts once."""
    counts = [0, 0, 0]
    seen: set[Expr] = set()
    value = work.value
    fuses = work.reduce == "sum" and isinstance(value, Op) and value.name == "*" and value.dtype in FLOATS
    if work.reduce:
        counts[0 if fuses else 1] += 1
    _count_instructions(value, counts, fuses, seen)
    return counts[0], counts[1], counts[2]


def _count_instructions(expr: Expr, counts: list[int], fused: bool, seen: set[Expr]) -> None:
    """Adds the instructions of `expr`; `fused` says that its own product is part of an addition outside."""
    if expr in seen:
        return
    seen.add(expr)
    match expr:
        case Op(name, args, dtype):
            product = next((a for a in args if isinstance(a, Op) and a.name == "*" and a not in seen), None)
            joins = name in ("+", "-") and product is not None and dtype in FLOATS
            if name in _SPECIAL:
                counts[2] += 1
            elif dtype in FLOATS and not fused and name not in ("neg", "select"):
                counts[0 if joins or name == "fma" else 1] += 1
            for arg in args:
                _count_instructions(arg, counts, joins and arg is product, seen)
        case Cast(arg, _):
            _count_instructions(arg, counts, False, seen)
        case Const() | Index() | Load() | Gather() | Scalar():
            pass
        case _:
            raise TypeError(expr)


# -- the innermost loop


def inner(program: ThreadProgram, sizes: Mapping[str, int]) -> Inner | None:
    """The innermost reduction loop of the statement with most work; None where nothing is reduced."""
    reducing: list[Work | WarpWork] = [w for w in program.warp_work if operations_of(w.instruction) and w.loops]
    reducing = reducing or [w for w in program.work if w.reduce and w.loops]
    if not reducing:
        return None
    main = max(reducing, key=lambda w: iterations(w.loops, sizes))
    unheld = [n for n, loop in enumerate(main.loops) if loop.name not in main.held]
    if not unheld:
        return None
    place = unheld[-1]
    outside = main.loops[: place + 1]
    name = main.loops[place].name
    computing = [w for w in program.warp_work if operations_of(w.instruction)]
    reading = {w.instruction.name for w in computing}
    sites = [s for s in program.sites if name in s.around and not s.store and s.by not in reading]
    works = [w for w in program.work if any(loop is main.loops[place] for loop in w.loops)]
    counts = [instructions(w) for w in works]
    runs = [_trip_count(w.loops, outside, sizes) for w in works]
    by_warps = [w for w in computing if any(loop is main.loops[place] for loop in w.loops)]
    spaces = {s.buffer: program.launch.buffers[s.buffer].space for s in sites}
    return Inner(
        name,
        sum(_trip_count(s.loops, outside, sizes) for s in sites if spaces[s.buffer] == "shared"),
        sum(_trip_count(s.loops, outside, sizes) for s in sites if spaces[s.buffer] == "global"),
        sum(c[0] * r for c, r in zip(counts, runs, strict=True)),
        sum((c[1] + c[2]) * r for c, r in zip(counts, runs, strict=True)),
        sum(_trip_count(w.loops, outside, sizes) for w in by_warps),
        next((w.instruction.unit for w in by_warps), "warp"),
    )


def _trip_count(loops: tuple[For, ...], outside: tuple[For, ...], sizes: Mapping[str, int]) -> float:
    """Executions inside `loops` for each iteration of `outside`."""
    return iterations(loops, sizes) / max(1, iterations(outside, sizes))
