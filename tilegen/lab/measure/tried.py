"""What comparisons and ladders have in common: programs of one kernel, checked, then timed or predicted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

from tilegen.backends.calls.device_program import Program
from tilegen.backends.calls.engine import Engine
from tilegen.errors import TilegenError
from tilegen.ir.comparison.tolerance import tolerance_of
from tilegen.ir.nodes import Kernel, Tree
from tilegen.lab.checks.check import Trial, cases_by_tolerance, check
from tilegen.lab.checks.sizes import CPU_LIMITS, GPU_LIMITS, limits_of_check, power_sizes, sizes_to_check
from tilegen.lab.counts.metric import rate, unit
from tilegen.lab.measure.conditions import Watch
from tilegen.lab.measure.timing import Progress, Time, summarise
from tilegen.lab.measure.trust import doubts_of_samples
from tilegen.lab.predict.cost import require_memory_of_machine, require_timing_memory
from tilegen.lab.predict.machine import Machine

K = TypeVar("K")

# exit code of an error -> the word for a program that has it
_FAILURES = {3: "refused", 4: "wrong", 6: "no bound"}


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A program that was checked and timed; one with an error has no time.

    Attributes:
        exit_code: that of the error.
        time: one run; `rate` in the unit of the table, of the predicted time where nothing is timed.
        samples: milliseconds in their order; `doubts` say why their median is not to be trusted.
    """

    trials: tuple[Trial, ...] = ()
    error: str | None = None
    exit_code: int = 0
    time: Time | None = None
    rate: float | None = None
    samples: tuple[float, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The check in a word; empty where there was none, as of a library's call."""
        if self.error:
            return _FAILURES.get(self.exit_code, "failed")
        return "ok" if self.trials else ""

    def with_error(self, error: TilegenError) -> Self:
        return replace(self, error=error.render(), exit_code=error.exit_code)


class Run:
    """Programs of one kernel on a device, for which sizes are chosen; or for a machine, whose times are predicted."""

    def __init__(
        self,
        kernel: Kernel,
        trees: Sequence[Tree],
        engine: Engine,
        given: Mapping[str, int],
        progress: Progress,
        machine: Machine | None,
    ) -> None:
        """Raises UsageError for sizes that the kernel does not admit, DeviceError where memory is short for them."""
        self._kernel, self._engine, self._progress, self._machine = kernel, engine, progress, machine
        self._sizes = power_sizes(kernel, given, GPU_LIMITS if engine.on_gpu or machine else CPU_LIMITS)
        if machine:
            require_memory_of_machine(trees, self._sizes, machine)
        else:
            require_timing_memory(trees, self._sizes, engine)
        self._unit = unit(kernel, self._sizes, engine.on_gpu or machine is not None)
        self._samples: dict[str, list[float]] = {}
        self._watch = Watch(engine)

    def _rate(self, milliseconds: float) -> float:
        return rate(self._kernel, self._sizes, milliseconds, self._unit)

    def _check(
        self, programs: Mapping[K, Program], name_of: Callable[[K], str]
    ) -> Iterator[tuple[K, tuple[Trial, ...] | TilegenError]]:
        """The trials of each program, at small sizes, or what is wrong with it."""
        if not programs:
            return
        self._progress("reference", 0, 1)
        trees = [each.tree for each in programs.values()]
        tried = cases_by_tolerance(self._kernel, trees, sizes_to_check(trees, {}, limits_of_check(self._engine)))
        for number, (key, each) in enumerate(programs.items()):
            self._progress(f"check {name_of(key)}", number, len(programs))
            try:
                yield key, check(each, tried[tolerance_of(each.tree)])
            except TilegenError as error:
                yield key, error
        self._progress("check", len(programs), len(programs))

    def _figures(self, samples: Sequence[float]) -> dict[str, Any]:
        """The fields of a row with these samples."""
        time = summarise(samples)
        doubts = doubts_of_samples(samples)
        return {"time": time, "rate": self._rate(time.median), "samples": tuple(samples), "doubts": doubts}
