"""Several schedules of one kernel side by side: each checked first, then all timed in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from tilegen.backends import nvrtc
from tilegen.backends.arrays import empty, shape_of
from tilegen.backends.devices import InterpreterEngine, program
from tilegen.backends.engine import Engine
from tilegen.backends.program import Program
from tilegen.backends.text import emit
from tilegen.errors import TilegenError
from tilegen.ir.nodes import Tree
from tilegen.lab import inputs
from tilegen.lab.check import Trial, cases, check
from tilegen.lab.metric import moved_bytes, rate, unit
from tilegen.lab.rivals import rival
from tilegen.lab.sizes import CPU_LIMITS, GPU_LIMITS, check_limits, check_sizes, power_sizes

# (milliseconds of one sample, seconds for all samples, samples of each schedule)
_GPU_PACE = (5.0, 10.0, 25)
_CPU_PACE = (1.0, 12.0, 9)


@dataclass(frozen=True)
class Time:
    """Milliseconds of one run: the median of the samples, and between which values the middle 60 % lie."""

    median: float
    p20: float
    p80: float
    samples: int


@dataclass(frozen=True)
class Row:
    """One schedule, or what it is compared with. A row with an error has no time.

    `registers` of a thread, `shared` bytes of a block and `spills` in bytes are those of the launch that
    has most, as NVRTC reports them; None where there is no compiler or nothing to compile.
    """

    name: str
    trials: tuple[Trial, ...] = ()
    error: str | None = None
    exit_code: int = 0
    launches: int | None = None
    registers: int | None = None
    shared: int | None = None
    spills: int | None = None
    time: Time | None = None
    rate: float | None = None


@dataclass(frozen=True)
class Comparison:
    """A table: its rows in the order of the schedules, then the rival's, if there is one."""

    kernel: str
    sizes: Mapping[str, int]
    device: str
    on_gpu: bool
    arch: str
    unit: str
    rival: str | None
    rows: tuple[Row, ...]


def compare(
    trees: Mapping[str, Tree],
    engine: Engine,
    given: Mapping[str, int],
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Comparison:
    """Checks and times the trees, all of one kernel, by name.

    Args:
        given: sizes to time at; the others are chosen. The checks are at small sizes of their own.
        progress: is told what is going on, and how many of how many parts of it are done.

    Raises:
        DeviceError: the device fails. A schedule that is wrong does not raise: its row says so.
    """
    kernel = next(iter(trees.values())).kernel
    sizes = power_sizes(kernel, given, GPU_LIMITS if engine.on_gpu else CPU_LIMITS)
    arch = str(getattr(engine, "arch", nvrtc.DEFAULT_ARCH))
    programs = {name: program(tree, engine) for name, tree in trees.items()}
    rows = _checked(programs, engine, progress)
    for number, (name, row) in enumerate(rows.items()):
        progress("compile", number, len(rows))
        rows[name] = with_resources(row, programs[name], arch)
    timed = {name: p for name, p in programs.items() if rows[name].error is None}
    times, rival_name = _timed(timed, engine, sizes, progress)
    shown = unit(kernel, sizes, engine.on_gpu)
    for name, time in times.items():
        row = rows.get(name, Row(name))
        rows[name] = replace(row, time=time, rate=rate(kernel, sizes, time.median, shown))
    found = tuple(rows.values())
    return Comparison(kernel.name, sizes, engine.name, engine.on_gpu, arch, shown, rival_name, found)


def with_resources(row: Row, compiled: Program, arch: str) -> Row:
    """`row` with what its launches take on `arch`, if there is a compiler."""
    launches = compiled.launches()
    row = replace(row, launches=len(launches))
    if nvrtc.missing():
        return row
    try:
        found = nvrtc.compile_text(emit(launches, "cuda"), arch).resources.values()
    except TilegenError as error:
        return row if row.error else replace(row, error=error.render(), exit_code=error.exit_code)
    return replace(
        row,
        registers=max(r.registers for r in found),
        shared=max(launch.shared_bytes for launch in launches),
        spills=max(r.spills for r in found),
    )


def _checked(
    programs: Mapping[str, Program], engine: Engine, progress: Callable[[str, int, int], None]
) -> dict[str, Row]:
    kernel = next(iter(programs.values())).kernel
    progress("reference", 0, 1)
    tried = cases(kernel, check_sizes([p.tree for p in programs.values()], {}, check_limits(engine)))
    rows: dict[str, Row] = {}
    total = len(tried) * len(programs)
    for number, (name, each) in enumerate(programs.items()):
        progress("check", number * len(tried), total)
        try:
            rows[name] = Row(name, trials=check(each, tried))
        except TilegenError as error:
            rows[name] = Row(name, error=error.render(), exit_code=error.exit_code)
    progress("check", total, total)
    return rows


# -- time


def _timed(
    programs: Mapping[str, Program],
    engine: Engine,
    sizes: Mapping[str, int],
    progress: Callable[[str, int, int], None],
) -> tuple[dict[str, Time], str | None]:
    """The times by name, the rival's among them, and its name."""
    if not programs or isinstance(engine, InterpreterEngine):
        return {}, None
    kernel = next(iter(programs.values())).kernel
    moved = moved_bytes(kernel, sizes)
    # Runs go round over so many sets of arrays that none is still in the cache when its turn comes again.
    cache = int(getattr(engine, "l2_bytes", 0))
    sets = [_arrays(engine, programs, sizes, seed) for seed in range(min(64, 1 + -(-2 * cache // moved)))]
    calls = {name: [p.bind(sizes, arrays) for arrays in sets] for name, p in programs.items()}
    other = rival(kernel, engine, sizes, sets[0])
    if other is not None:
        calls[other[0]] = [_rival_call(programs, engine, sizes, arrays) for arrays in sets]
    return _rounds(calls, engine, progress), other[0] if other else None


def _rival_call(
    programs: Mapping[str, Program], engine: Engine, sizes: Mapping[str, int], arrays: Mapping[str, Any]
) -> Callable[[], None]:
    found = rival(next(iter(programs.values())).kernel, engine, sizes, arrays)
    assert found is not None
    return found[1]


def _arrays(engine: Engine, programs: Mapping[str, Program], sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
    kernel = next(iter(programs.values())).kernel
    arrays = inputs.random(engine.xp, kernel, sizes, seed)
    for tensor in kernel.tensors:
        if tensor.role == "output":
            arrays[tensor.name] = empty(engine.xp, tensor, shape_of(tensor, sizes))
    return arrays


def _rounds(
    calls: Mapping[str, Sequence[Callable[[], None]]],
    engine: Engine,
    progress: Callable[[str, int, int], None],
) -> dict[str, Time]:
    """Rounds in which each takes its turn, so that a drift of the clock meets all of them alike."""
    wanted, seconds, rounds = _GPU_PACE if engine.on_gpu else _CPU_PACE
    repeats = {}
    for number, (name, each) in enumerate(calls.items()):
        progress("warm up", number, len(calls))
        engine.time(each[:1])
        once = engine.time([each[n % len(each)] for n in range(3)]) / 3
        repeats[name] = max(1, min(100, round(wanted / max(once, 1e-3))))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    start = perf_counter()
    for turn in range(rounds):
        progress("time", turn, rounds)
        for name, each in calls.items():
            chosen = [each[(turn * repeats[name] + n) % len(each)] for n in range(repeats[name])]
            samples[name] += [engine.time(chosen) / repeats[name]]
        if perf_counter() - start > seconds and turn >= 2:
            break
    progress("time", rounds, rounds)
    return {name: _time(values) for name, values in samples.items()}


def _time(values: list[float]) -> Time:
    p20, median, p80 = (float(v) for v in np.percentile(values, [20, 50, 80]))
    return Time(median, p20, p80, len(values))
