"""Times several programs of one kernel in turns, on more arrays than the cache holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from textwrap import shorten
from time import perf_counter
from typing import Any

import numpy as np

from tilegen.backends.calls.arrays import empty, shape_of
from tilegen.backends.calls.device_program import Program
from tilegen.backends.calls.engine import Engine
from tilegen.backends.devices.devices import InterpreterEngine
from tilegen.errors import TilegenError, WrongResult
from tilegen.ir.comparison.tolerance import Tolerance, tolerance_of
from tilegen.ir.nodes import Kernel
from tilegen.ir.parts.beside import Beside
from tilegen.lab.checks import inputs
from tilegen.lab.checks.accuracy import Accuracy
from tilegen.lab.checks.agreement import Agreement
from tilegen.lab.counts.metric import moved_bytes
from tilegen.lab.measure.beside import COPY, Call, Library
from tilegen.lab.measure.conditions import Watch
from tilegen.lab.measure.trust import is_known

Progress = Callable[[str, int, int], None]

CPU_NOTE = "times on the CPU say nothing of a GPU"

SEED = 0  # of the order of the samples, and of the first set of arrays

# (milliseconds of one sample, seconds for all samples, the least and the most samples of each program)
_GPU_PACE = (5.0, 10.0, 9, 60)
_CPU_PACE = (1.0, 12.0, 6, 9)
_LEAST_ROUNDS, _STEADY_ROUNDS = 3, 6  # where the seconds are over
_MOST_SETS = 64


@dataclass(frozen=True)
class Time:
    """Milliseconds of one run: the median of the samples, and between which values the middle 60 % lie."""

    median: float
    p20: float
    p80: float
    samples: int


def cells_of_time(time: Time | None, rate: float | None) -> tuple[str, str, str]:
    """A time, its spread and the rate that it gives, for a table."""
    if time is None:
        return "", "", ""
    return f"{time.median:.4g}", f"{time.p20:.4g}..{time.p80:.4g}", "" if rate is None else f"{rate:.4g}"


@dataclass(frozen=True)
class Timings:
    """The times by name, with the rival's; the rival's name; the errors of programs that have no time.

    `beside` says, in lines, what the rival is and what else there was, or why there is none. `accuracy` has the errors
    of those that were measured.
    """

    times: Mapping[str, Time] = field(default_factory=dict)
    rival: str | None = None
    errors: Mapping[str, TilegenError] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    accuracy: Mapping[str, Accuracy] = field(default_factory=dict)


def time_programs(
    programs: Mapping[str, Program],
    engine: Engine,
    sizes: Mapping[str, int],
    progress: Progress,
    samples: dict[str, list[float]] | None = None,
    steady: float = 0.0,
    watch: Watch | None = None,
    *,
    errors: bool = False,
) -> Timings:
    """Times the programs, all of one kernel, and the fastest call of a library that the device has for them.

    The runs of a sample rotate over enough sets of random arrays that none is still in the cache when it is used
    again. On a GPU they are one CUDA graph, replayed once untimed, and once more timed. A library's calls and the
    programs take their samples in a random order, anew in each round, and each result is checked before. There are
    rounds until the median of each is known to within 1 %, or the time for them is over.

    A program that cannot run at these sizes, or whose result is not right there, gets an error, not a time.

    Args:
        samples: gets the milliseconds of each as they come, for someone who cannot wait for the end.
        steady: seconds of a sample, without a pause, after as long a time untimed: a GPU is then at its power limit.
        watch: reads the sensors of the GPU while the samples are taken.
        errors: whether to measure how far products are from exact ones.
    """
    if not programs or isinstance(engine, InterpreterEngine):
        return Timings()
    kernel = next(iter(programs.values())).kernel.written_kernel
    sets = random_sets(engine, kernel.meant_kernel, sizes)
    agreement, library = Agreement(kernel, engine.xp, sizes, sets, errors=errors), Library(kernel, engine, sizes)
    progress("library", 0, 1)
    beside, theirs, notes = fastest_rival(library, engine, agreement)
    if not engine.on_gpu:
        hold_library(library, agreement)
    runs, failed = _runs(programs, engine, sizes, sets, agreement, progress)
    if beside and theirs:
        runs[beside] = theirs
    samples = {} if samples is None else samples
    with watch or Watch(engine):
        _time_in_rounds(runs, engine, progress, samples, steady)
    measured = {name: each.accuracy for name, each in runs.items() if each.accuracy}
    return Timings({name: summarise(values) for name, values in samples.items()}, beside, failed, notes, measured)


def _runs(
    programs: Mapping[str, Program],
    engine: Engine,
    sizes: Mapping[str, int],
    sets: Sequence[Mapping[str, Any]],
    agreement: Agreement,
    progress: Progress,
) -> tuple[dict[str, Runs], dict[str, TilegenError]]:
    """(the runs of those whose results are right, the errors of the others)."""
    runs: dict[str, Runs] = {}
    failed: dict[str, TilegenError] = {}
    for number, (name, program) in enumerate(programs.items()):
        progress(f"warm up {name}", number, len(programs))
        try:
            made = Runs(engine, [program.bind(sizes, arrays) for arrays in sets])
            check_agreement(agreement, made, tolerance_of(program.tree))
            runs[name] = made
        except TilegenError as error:
            failed[name] = error
    return runs, failed


def random_sets(engine: Engine, kernel: Kernel, sizes: Mapping[str, int]) -> list[dict[str, Any]]:
    """Sets of random arrays, enough that none is still in the cache when it is used again."""
    needed = 1 + -(-2 * int(getattr(engine, "l2_bytes", 0)) // moved_bytes(kernel, sizes))
    return [random_arrays(engine, kernel, sizes, seed) for seed in range(SEED, SEED + min(_MOST_SETS, needed))]


def random_arrays(engine: Engine, kernel: Kernel, sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
    """Inputs with random values, and outputs."""
    arrays = inputs.random(engine.xp, kernel, sizes, seed, usual=True)
    for tensor in kernel.tensors:
        if tensor.role == "output" and tensor.name not in arrays:
            arrays[tensor.name] = empty(engine.xp, tensor, shape_of(tensor, sizes))
    return arrays


class Runs:
    """The samples of one program: graphs of several calls, which go on through the sets of arrays in turn.

    `milliseconds` is what one call takes, roughly; `accuracy` the errors of the first one, if they are measured.
    """

    def __init__(self, engine: Engine, calls: Sequence[Callable[[], None]]) -> None:
        """Runs each of the calls, one for each set of arrays, once or more often."""
        wanted = (_GPU_PACE if engine.on_gpu else _CPU_PACE)[0]
        self._engine = engine
        self.accuracy: Accuracy | None = None
        engine.time(calls)
        self.milliseconds = engine.time([calls[n % len(calls)] for n in range(3)]) / 3
        self.length = max(1, min(100, round(wanted / max(self.milliseconds, 1e-3))))
        chains = max(1, -(-len(calls) // self.length))
        self._graphs = [
            engine.capture([calls[(chain * self.length + n) % len(calls)] for n in range(self.length)])
            for chain in range(chains)
        ]
        if engine.on_gpu:  # without what a single launch costs the host
            self.milliseconds = engine.time(self._graphs[:1], self._graphs[:1]) / self.length

    def replay(self) -> None:
        """Runs on every set of arrays."""
        for graph in self._graphs:
            graph()

    def sample(self, round_: int, steady: float = 0.0) -> float:
        """Milliseconds of a call, over one graph; with `steady`, over this number of seconds without a pause.

        As much runs before it untimed; on a CPU only with `steady`.
        """
        count = max(1, round(1e3 * steady / (self.milliseconds * self.length)))
        ahead = count if steady or self._engine.on_gpu else 0
        graphs = [self._graphs[(round_ + n) % len(self._graphs)] for n in range(-ahead, count)]
        return self._engine.time(graphs[ahead:], graphs[:ahead]) / (count * self.length)


def fastest_rival(
    library: Library, engine: Engine, agreement: Agreement
) -> tuple[str | None, Runs | None, tuple[str, ...]]:
    """(name, runs, what to say of it) of the fastest call of a library whose result is right; None if there is none.

    `agreement`, whose arrays they run on, gets its results.
    """
    found: list[tuple[float, Beside, Runs, Sequence[Mapping[str, Any]]]] = []
    refused: list[str] = []
    for line in library.lines:
        try:
            runs, results = _runs_of_rival(library, line, engine, agreement)
            found += [(sorted(runs.sample(round_) for round_ in range(3))[1], line, runs, results)]
        except Exception as error:  # a library, in each version, refuses a call in its own way
            refused += [f"not compared: {line}: {shorten(str(error) or repr(error), 160)}"]
    if not found:
        missing = [f"nothing is set beside it: {library.missing}"] if library.missing else []
        return None, None, (*missing, *refused)
    found.sort(key=lambda each: each[0])
    (least, first, runs, results), *others = found
    agreement.hold(results)
    version = f" ({library.version})" if library.version else ""
    slower = [f"slower: {other}: {time / least:.3g} times the time" for time, other, _, _ in others]
    return first.library, runs, (f"{first}{version}", *slower, *refused)


def _runs_of_rival(
    library: Library, line: Beside, engine: Engine, agreement: Agreement
) -> tuple[Runs, Sequence[Mapping[str, Any]]]:
    """(the runs of a call, its results on each set). Raises WrongResult where these are not right."""
    calls = [library.bind(line, arrays) for arrays in agreement.sets]
    runs = Runs(engine, calls)
    runs.replay()
    if line == COPY:
        return runs, []
    results = _right_results(library, line, agreement, calls)
    runs.accuracy = agreement.accuracy(0, results[0])
    return runs, results


def _right_results(
    library: Library, line: Beside, agreement: Agreement, calls: Sequence[Call]
) -> Sequence[Mapping[str, Any]]:
    """The results of calls that have been made, one on each set. Raises WrongResult where these are not right."""
    results = [library.results(call) for call in calls]
    for number, result in enumerate(results):
        share = agreement.difference_of_library(number, result, library.epsilon(line))
        if not share <= 1:
            raise WrongResult(f"its result is {share:.3g} times as far off as rounding can explain")
    return results


def hold_library(library: Library, agreement: Agreement) -> None:
    """Gives `agreement` the results of the first call of a library that are right, if it has not all by itself."""
    for line in () if agreement.is_whole else library.checking:
        with suppress(Exception):  # a library, in each version, refuses a call in its own way
            calls = [library.bind(line, arrays) for arrays in agreement.sets]
            for call in calls:
                call()
            agreement.hold(_right_results(library, line, agreement, calls))
            return


def check_agreement(agreement: Agreement, runs: Runs, tolerance: Tolerance) -> None:
    """Replays what is timed. Raises WrongResult where a result is not right."""
    agreement.clear()
    runs.replay()
    for number, arrays in enumerate(agreement.sets):
        share = agreement.difference(number, arrays, tolerance)
        if not share <= 1:
            shown = ", ".join(f"{n} = {v}" for n, v in agreement.sizes.items())
            raise WrongResult(f"the result at {shown} is {share:.3g} times as far off as rounding can explain")
    runs.accuracy = agreement.accuracy(0, agreement.sets[0])


def _time_in_rounds(
    runs: Mapping[str, Runs], engine: Engine, progress: Progress, samples: dict[str, list[float]], steady: float
) -> None:
    """Fills `samples` in rounds, in which each takes a turn, in random order: a drift of the clock or the heat of the
    one before affects all alike."""
    _, seconds, least, most = _GPU_PACE if engine.on_gpu else _CPU_PACE
    samples |= {name: [] for name in runs}
    order = np.random.default_rng(SEED)
    start = perf_counter()
    for round_ in range(most):
        progress("time", round_, most)
        for number in order.permutation(len(runs)):
            name = list(runs)[number]
            samples[name] += [runs[name].sample(round_, steady)]
        if round_ + 1 >= least and all(is_known(each) for each in samples.values()):
            break
        if perf_counter() - start > seconds and round_ + 1 >= (_STEADY_ROUNDS if steady else _LEAST_ROUNDS):
            break
    progress("time", most, most)


def summarise(values: Sequence[float]) -> Time:
    """The median and the spread of samples in milliseconds; at least one sample."""
    p20, median, p80 = (float(v) for v in np.percentile(values, [20, 50, 80]))
    return Time(median, p20, p80, len(values))
