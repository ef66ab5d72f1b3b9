"""Times several programs of one kernel in turns, on more arrays than the cache holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import shorten
from time import perf_counter
from typing import Any

import numpy as np

from tilegen.backends.arrays import empty, shape_of
from tilegen.backends.device_program import Program
from tilegen.backends.devices import InterpreterEngine
from tilegen.backends.engine import Engine
from tilegen.errors import TilegenError, WrongResult
from tilegen.interpreter import reference
from tilegen.ir.nodes import Kernel
from tilegen.lab import inputs
from tilegen.lab.accuracy import Accuracy
from tilegen.lab.conditions import Watch
from tilegen.lab.libraries import Library
from tilegen.lab.metric import moved_bytes
from tilegen.lab.rivals import Rival
from tilegen.lab.sizes import points
from tilegen.lab.trust import is_known

Progress = Callable[[str, int, int], None]

CPU_NOTE = "times on the CPU say nothing of a GPU"

SEED = 0  # of the order of the samples, and of the first set of arrays

# (milliseconds of one sample, seconds for all samples, the least and the most samples of each program)
_GPU_PACE = (5.0, 10.0, 9, 60)
_CPU_PACE = (1.0, 12.0, 6, 9)
_LEAST_ROUNDS, _STEADY_ROUNDS = 3, 6  # where the seconds are over
_MOST_SETS, _FEW, _FEW_POINTS = 64, 16, 10**6


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

    The runs of a sample rotate over so many sets of random arrays that none is still in the cache when it is used
    again. On a GPU they are one CUDA graph, replayed once untimed, and once more timed. A library's calls and the
    programs take their samples in a random order, anew in each round, and each result is checked before. There are
    rounds until the median of each is known to within 1 %, or the time for them is over.

    A program that cannot run at these sizes, or whose result is not the library's, gets an error, not a time.

    Args:
        samples: gets the milliseconds of each as they come, for someone who cannot wait for the end.
        steady: seconds of a sample, without a pause and behind as much untimed: a GPU is then at its power limit.
        watch: reads the sensors of the GPU while the samples are taken.
        errors: whether to measure how far products are from exact ones.
    """
    if not programs or isinstance(engine, InterpreterEngine):
        return Timings()
    kernel = next(iter(programs.values())).kernel.meant_kernel
    sets = random_sets(engine, kernel, sizes)
    library = Library(kernel, engine, sizes, errors)
    runs: dict[str, Runs] = {}
    failed: dict[str, TilegenError] = {}
    for number, (name, program) in enumerate(programs.items()):
        progress(f"warm up {name}", number, len(programs))
        try:
            mine = Runs(engine, [program.bind(sizes, arrays) for arrays in sets])
            check_agreement(library, sizes, sets, mine, share_allowed(program.kernel, sizes))
            runs[name] = mine
        except TilegenError as error:
            failed[name] = error
    progress("library", 0, 1)
    beside, theirs, notes = fastest_rival(library, engine, sets)
    if beside and theirs:
        runs[beside] = theirs
    samples = {} if samples is None else samples
    with watch or Watch(engine):
        _time_in_rounds(runs, engine, progress, samples, steady)
    measured = {name: each.accuracy for name, each in runs.items() if each.accuracy}
    return Timings({name: summarise(values) for name, values in samples.items()}, beside, failed, notes, measured)


def random_sets(engine: Engine, kernel: Kernel, sizes: Mapping[str, int]) -> list[dict[str, Any]]:
    """Sets of random arrays, so many that none is still in the cache when it is used again."""
    needed = 1 + -(-2 * int(getattr(engine, "l2_bytes", 0)) // moved_bytes(kernel, sizes))
    return [random_arrays(engine, kernel, sizes, seed) for seed in range(SEED, SEED + min(_MOST_SETS, needed))]


def random_arrays(engine: Engine, kernel: Kernel, sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
    """Inputs with random values, and outputs."""
    arrays = inputs.random(engine.xp, kernel, sizes, seed)
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

    def sample(self, turn: int, steady: float = 0.0) -> float:
        """Milliseconds of a call, over one graph; with `steady`, over so many seconds without a pause.

        As much runs ahead of it untimed; on a CPU only with `steady`.
        """
        count = max(1, round(1e3 * steady / (self.milliseconds * self.length)))
        ahead = count if steady or self._engine.on_gpu else 0
        graphs = [self._graphs[(turn + n) % len(self._graphs)] for n in range(-ahead, count)]
        return self._engine.time(graphs[ahead:], graphs[:ahead]) / (count * self.length)


def fastest_rival(
    library: Library, engine: Engine, sets: Sequence[Mapping[str, Any]]
) -> tuple[str | None, Runs | None, tuple[str, ...]]:
    """(name, runs, what to say of it) of the fastest call of a library whose result is right; None if there is none.

    A call that stands in for others, as its sums are rounded to 16 bits, counts only where no other one works.
    """
    found: list[tuple[float, Rival, Runs]] = []
    refused: list[str] = []
    for rival in sorted(library.rivals, key=lambda each: each.stands_in):
        if rival.stands_in and any(not other.stands_in for _, other, _ in found):
            continue
        try:
            runs = _runs_of_rival(library, rival, engine, sets)
            found += [(sorted(runs.sample(turn) for turn in range(3))[1], rival, runs)]
        except Exception as error:  # a library, in each version, refuses a call in its own way
            refused += [f"not compared: {rival.call}: {shorten(str(error) or repr(error), 160)}"]
    if not found:
        missing = [f"nothing is set beside it: {library.missing}"] if library.missing else []
        return None, None, (*missing, *refused)
    found.sort(key=lambda each: each[0])
    (least, first, runs), *others = found
    version = f" ({library.version})" if library.version else ""
    slower = [f"slower: {other.call}: {time / least:.3g} times the time" for time, other, _ in others]
    return first.name, runs, (f"{first.name}: {first}{version}", *slower, *refused)


def _runs_of_rival(library: Library, rival: Rival, engine: Engine, sets: Sequence[Mapping[str, Any]]) -> Runs:
    """The rival's runs. Raises WrongResult where what they computed is not right, on any of the sets."""
    calls = [library.bind(rival, arrays) for arrays in sets]
    runs = Runs(engine, calls)
    runs.replay()
    for arrays, call in zip(sets, calls, strict=True):
        share = library.difference(arrays, call, rounded=rival.rounded)
        if share is not None and not share <= 1:
            raise WrongResult(f"its result is {share:.3g} times as far off as rounding can explain")
    runs.accuracy = library.accuracy(sets[0], calls[0])
    return runs


def share_allowed(kernel: Kernel, sizes: Mapping[str, int]) -> float:
    """How far a result may be from a library's, as a share of what rounding can explain: more where it claims less.

    How much the claims add to the bound is measured on few elements, and on fewer where other sizes are constants.
    """
    written = kernel.written_kernel
    if not written.meant or not written.slack:
        return 1.0
    least, few = ({name: min(size, most) for name, size in sizes.items()} for most in (1, _FEW))
    few = few if points(written, few) <= _FEW_POINTS else least
    arrays = inputs.random(np, written, few, SEED)
    bounds = [reference(each, few, arrays) for each in (written.meant, written)]
    shares = [bounds[1][name].bound / np.maximum(found.bound, 1e-300) for name, found in bounds[0].items()]
    return max(float(np.max(share[np.isfinite(share)], initial=1.0)) for share in shares)


def check_agreement(
    library: Library, sizes: Mapping[str, int], sets: Sequence[Mapping[str, Any]], runs: Runs, allowed: float = 1.0
) -> None:
    """Replays what is timed. Raises WrongResult where a library has an answer and a result differs from it.

    Args:
        allowed: that of `share_allowed`.
    """
    if not library.computes:
        return
    for arrays in sets:
        library.clear(arrays)
    runs.replay()
    for arrays in sets:
        share = library.difference(arrays)
        if share is not None and not share <= allowed:
            shown = ", ".join(f"{n} = {v}" for n, v in sizes.items())
            raise WrongResult(
                f"the result at {shown} is {share:.3g} times as far from the library's as rounding can explain"
            )
    runs.accuracy = library.accuracy(sets[0])


def _time_in_rounds(
    runs: Mapping[str, Runs], engine: Engine, progress: Progress, samples: dict[str, list[float]], steady: float
) -> None:
    """Fills `samples` in rounds, in which each takes a turn, in random order: a drift of the clock or the heat of the
    one before affects all alike."""
    _, seconds, least, most = _GPU_PACE if engine.on_gpu else _CPU_PACE
    samples |= {name: [] for name in runs}
    order = np.random.default_rng(SEED)
    start = perf_counter()
    for turn in range(most):
        progress("time", turn, most)
        for number in order.permutation(len(runs)):
            name = list(runs)[number]
            samples[name] += [runs[name].sample(turn, steady)]
        if turn + 1 >= least and all(is_known(each) for each in samples.values()):
            break
        if perf_counter() - start > seconds and turn + 1 >= (_STEADY_ROUNDS if steady else _LEAST_ROUNDS):
            break
    progress("time", most, most)


def summarise(values: Sequence[float]) -> Time:
    """The median and the spread of samples in milliseconds; at least one sample."""
    p20, median, p80 = (float(v) for v in np.percentile(values, [20, 50, 80]))
    return Time(median, p20, p80, len(values))
