"""Several schedules of one kernel side by side: each checked first, then all timed in turns."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from tilegen.backends import nvrtc
from tilegen.backends.devices import program
from tilegen.backends.engine import Engine
from tilegen.backends.program import Program
from tilegen.backends.text import emit
from tilegen.errors import TilegenError
from tilegen.ir.nodes import Tree
from tilegen.lab.check import Trial, cases_of, check
from tilegen.lab.metric import rate, unit
from tilegen.lab.sizes import CPU_LIMITS, GPU_LIMITS, check_limits, check_sizes, power_sizes
from tilegen.lab.timing import Progress, Time, timed
from tilegen.lowering import Launch


@dataclass(frozen=True)
class Row:
    """One schedule, or what it is compared with. A row with an error has no time.

    `proof` is what the proof of its launches came to: `proved`, or `unproved: what`.
    `registers` of a thread, `shared` bytes of a block and `spills` in bytes are those of the launch that
    has most, as NVRTC reports them; None where there is no compiler or nothing to compile.
    """

    name: str
    trials: tuple[Trial, ...] = ()
    error: str | None = None
    exit_code: int = 0
    proof: str | None = None
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
    progress: Progress = lambda what, done, total: None,
    *,
    unproved: bool = False,
) -> Comparison:
    """Checks and times the trees, all of one kernel, by name.

    Args:
        given: sizes to time at; the others are chosen. The checks are at small sizes of their own.
        progress: is told what is going on, and how many of how many parts of it are done.
        unproved: True lets run what the proof leaves open.

    Raises:
        DeviceError: the device fails. A schedule that is wrong does not raise: its row says so.
    """
    kernel = next(iter(trees.values())).kernel.written
    sizes = power_sizes(kernel, given, GPU_LIMITS if engine.on_gpu else CPU_LIMITS)
    arch = str(getattr(engine, "arch", nvrtc.DEFAULT_ARCH))
    programs = {name: program(tree, engine, unproved=unproved) for name, tree in trees.items()}
    # The assembler takes seconds for a large kernel, beside the checks; nothing runs beside the timing.
    with ThreadPoolExecutor(max_workers=1) as compiler:
        texts = {name: emit(each.launches_at(sizes), "cuda") for name, each in programs.items()}
        compiled = {name: compiler.submit(nvrtc.compile_text, text, arch) for name, text in texts.items()}
        rows = _checked(programs, engine, progress)
        for number, (name, row) in enumerate(rows.items()):
            progress("compile", number, len(rows))
            rows[name] = _with_resources(row, programs[name].launches_at(sizes), compiled[name])
    done = timed({n: p for n, p in programs.items() if rows[n].error is None}, engine, sizes, progress)
    shown = unit(kernel, sizes, engine.on_gpu)
    for name, time in done.times.items():
        row = rows.get(name, Row(name))
        rows[name] = replace(row, time=time, rate=rate(kernel, sizes, time.median, shown))
    for name, error in done.errors.items():
        rows[name] = replace(rows[name], error=error.render(), exit_code=error.exit_code)
    found = tuple(rows.values())
    return Comparison(kernel.name, sizes, engine.name, engine.on_gpu, arch, shown, done.rival, found)


def _with_resources(row: Row, launches: tuple[Launch, ...], compiled: Future[nvrtc.Compiled]) -> Row:
    """`row` with what its launches take, if there is a compiler."""
    row = replace(row, launches=len(launches), shared=max(launch.shared_bytes for launch in launches))
    try:
        found = compiled.result().resources.values()
    except TilegenError as error:
        refused = nvrtc.missing() is None and not row.error
        return replace(row, error=error.render(), exit_code=error.exit_code) if refused else row
    registers = max((r.registers for r in found), default=None)
    return replace(row, registers=registers, spills=max((r.spills for r in found), default=None))


def _verdict(each: Program) -> str | None:
    """What the proof came to, if the program can be lowered at all."""
    try:
        return each.verdict
    except TilegenError:
        return None


def _checked(programs: Mapping[str, Program], engine: Engine, progress: Progress) -> dict[str, Row]:
    kernel = next(iter(programs.values())).kernel.written
    progress("reference", 0, 1)
    trees = [p.tree for p in programs.values()]
    tried = cases_of(kernel, trees, check_sizes(trees, {}, check_limits(engine)))
    rows: dict[str, Row] = {}
    for number, (name, each) in enumerate(programs.items()):
        progress("check", number, len(programs))
        try:
            rows[name] = Row(name, trials=check(each, tried[each.tree.approximate]), proof=each.verdict)
        except TilegenError as error:
            rows[name] = Row(name, error=error.render(), exit_code=error.exit_code, proof=_verdict(each))
    progress("check", len(programs), len(programs))
    return rows
