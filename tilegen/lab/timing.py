"""Times several programs of one kernel in turns, on more arrays than the cache holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from tilegen.backends.arrays import empty, shape_of
from tilegen.backends.device_program import Program
from tilegen.backends.devices import InterpreterEngine
from tilegen.backends.engine import Engine
from tilegen.errors import TilegenError, WrongResult
from tilegen.ir.nodes import Kernel
from tilegen.lab import inputs
from tilegen.lab.metric import moved_bytes
from tilegen.lab.rivals import relative_difference, rival

Progress = Callable[[str, int, int], None]

# (milliseconds of one sample, seconds for all samples, samples of each program)
_GPU_PACE = (5.0, 10.0, 25)
_CPU_PACE = (1.0, 12.0, 9)
_MOST_SETS = 64


@dataclass(frozen=True)
class Time:
    """Milliseconds of one run: the median of the samples, and between which values the middle 60 % lie."""

    median: float
    p20: float
    p80: float
    samples: int


@dataclass(frozen=True)
class Timings:
    """The times by name, with the rival's; the rival's name; the errors of programs that have no time."""

    times: Mapping[str, Time] = field(default_factory=dict)
    rival: str | None = None
    errors: Mapping[str, TilegenError] = field(default_factory=dict)


def time_programs(
    programs: Mapping[str, Program],
    engine: Engine,
    sizes: Mapping[str, int],
    progress: Progress,
    samples: dict[str, list[float]] | None = None,
) -> Timings:
    """Times the programs, all of one kernel, and the rival that the device has for them.

    `samples` gets the milliseconds of each as they come, for someone who cannot wait for the end.

    A program that cannot run at these sizes, or whose result is not the rival's, gets an error, not a time.
    """
    if not programs or isinstance(engine, InterpreterEngine):
        return Timings()
    kernel = next(iter(programs.values())).kernel.written_kernel
    # Runs rotate over so many sets of arrays that none is still in the cache when it is used again.
    needed = 1 + -(-2 * int(getattr(engine, "l2_bytes", 0)) // moved_bytes(kernel, sizes))
    sets = [_arrays(engine, kernel, sizes, seed) for seed in range(min(_MOST_SETS, needed))]
    calls: dict[str, list[Callable[[], None]]] = {}
    errors: dict[str, TilegenError] = {}
    for number, (name, program) in enumerate(programs.items()):
        progress("warm up", number, len(programs))
        try:
            bound = [program.bind(sizes, arrays) for arrays in sets]
            engine.time(bound[:1])
            _check_agreement(kernel, engine, sizes, sets[0])
            calls[name] = bound
        except TilegenError as error:
            errors[name] = error
    others = [rival(kernel, engine, sizes, arrays) for arrays in sets]
    found = [other for other in others if other is not None]
    if found:
        calls[found[0][0]] = [call for _, call in found]
    samples = {} if samples is None else samples
    _time_in_rounds(calls, engine, progress, samples)
    return Timings(
        {name: summarise(values) for name, values in samples.items()}, found[0][0] if found else None, errors
    )


def _arrays(engine: Engine, kernel: Kernel, sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
    arrays = inputs.random(engine.xp, kernel, sizes, seed)
    for tensor in kernel.tensors:
        if tensor.role == "output" and tensor.name not in arrays:
            arrays[tensor.name] = empty(engine.xp, tensor, shape_of(tensor, sizes))
    return arrays


def _check_agreement(kernel: Kernel, engine: Engine, sizes: Mapping[str, int], arrays: Mapping[str, Any]) -> None:
    """Raises WrongResult where the device has a library for the kernel, and its result differs."""
    share = relative_difference(kernel, engine, sizes, arrays)
    if share is not None and not share <= 1:
        shown = ", ".join(f"{n} = {v}" for n, v in sizes.items())
        raise WrongResult(
            f"the result at {shown} is {share:.3g} times as far from the library's as rounding can explain"
        )


def _time_in_rounds(
    calls: Mapping[str, Sequence[Callable[[], None]]],
    engine: Engine,
    progress: Progress,
    samples: dict[str, list[float]],
) -> None:
    """Fills `samples` in rounds, in which each program takes its turn: a drift of the clock affects all alike."""
    wanted, seconds, rounds = _GPU_PACE if engine.on_gpu else _CPU_PACE
    repeats = {}
    for name, each in calls.items():
        engine.time(each[:1])
        once = engine.time([each[n % len(each)] for n in range(3)]) / 3
        repeats[name] = max(1, min(100, round(wanted / max(once, 1e-3))))
    samples |= {name: [] for name in calls}
    start = perf_counter()
    for turn in range(rounds):
        progress("time", turn, rounds)
        for name, each in calls.items():
            chosen = [each[(turn * repeats[name] + n) % len(each)] for n in range(repeats[name])]
            samples[name] += [engine.time(chosen) / repeats[name]]
        if perf_counter() - start > seconds and turn >= 2:
            break
    progress("time", rounds, rounds)


def summarise(values: Sequence[float]) -> Time:
    """The median and the spread of samples in milliseconds; at least one sample."""
    p20, median, p80 = (float(v) for v in np.percentile(values, [20, 50, 80]))
    return Time(median, p20, p80, len(values))
