"""The counters of a GPU beside the figures of `explain`: what Nsight Compute is asked for, and its answer.

The metrics are those that `ncu --query-metrics --chips gh100` lists; sm_70 and later have them too.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilegen.errors import DeviceError
from tilegen.lab.counts.traffic import SECTOR, Traffic
from tilegen.lab.predict.explanation import LaunchReport
from tilegen.lab.predict.machine import Machine

APART = 0.1  # figures that differ by a larger share are marked


@dataclass(frozen=True)
class Counter:
    """A figure that can be counted and measured.

    Attributes:
        metrics: of Nsight Compute, in base units; their sum, divided by `by`, is the figure.
        expected: what `explain` says of a launch; None where it says nothing.
    """

    name: str
    metrics: tuple[str, ...]
    expected: Callable[[LaunchReport, Machine], float | None]
    by: float = 1.0


@dataclass(frozen=True)
class Figure:
    """One counter of one launch."""

    name: str
    expected: float | None
    measured: float | None

    @property
    def difference(self) -> float | None:
        """What is measured more, as a share of what was expected."""
        if self.expected is None or self.measured is None or not self.expected:
            return None
        return self.measured / self.expected - 1

    @property
    def is_apart(self) -> bool:
        """True if the two differ by more than APART, or if something is measured where nothing was expected."""
        if self.expected == 0 and self.measured is not None:
            return self.measured > 0
        return self.difference is not None and abs(self.difference) > APART


@dataclass(frozen=True)
class Counted:
    """A launch as Nsight Compute saw it: its kernel, and the metrics that it gave, in base units."""

    kernel: str
    metrics: Mapping[str, float]


def figures_of(launch: LaunchReport, counted: Counted, machine: Machine) -> tuple[Figure, ...]:
    """What was expected of a launch beside what was measured; without what neither knows."""
    found = [Figure(c.name, c.expected(launch, machine), _measured(c, counted)) for c in COUNTERS]
    return tuple(each for each in found if each.expected is not None)


def _measured(counter: Counter, counted: Counted) -> float | None:
    values = [counted.metrics.get(name) for name in counter.metrics]
    return None if None in values else sum(value or 0.0 for value in values) / counter.by


# -- what explain says


def _by_threads(launch: LaunchReport, space: str) -> list[Traffic]:
    """The accesses that pass the load and store units; boxes are copied by other hardware."""
    return [access for access in launch.traffic if access.space == space and not access.in_bulk]


def _global_sectors(store: bool) -> Callable[[LaunchReport, Machine], float]:
    return lambda launch, _: sum(t.sectors for t in _by_threads(launch, "global") if t.store == store)


def _registers(launch: LaunchReport, _: Machine) -> float | None:
    return float(launch.resources.registers) if launch.resources else None


def _multiply_adds(launch: LaunchReport, _: Machine) -> float | None:
    return launch.work.fused if launch.work.dtype == "f32" else None


def _memory_bytes(launch: LaunchReport, machine: Machine) -> float | None:
    milliseconds = launch.prediction.bounds.get("global memory")
    return milliseconds * 1e9 * machine.copy if milliseconds else None


_LOADS, _STORES = "pipe_lsu_mem_global_op_ld.sum", "pipe_lsu_mem_global_op_st.sum"
COUNTERS = (
    Counter("ms", ("gpu__time_duration.sum",), lambda launch, _: launch.prediction.milliseconds, by=1e6),
    Counter("registers", ("launch__registers_per_thread",), _registers),
    Counter("% of warps", ("sm__maximum_warps_per_active_cycle_pct",), lambda launch, _: 100 * launch.occupancy.share),
    Counter("multiply-adds", ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",), _multiply_adds),
    Counter("sectors loaded", (f"l1tex__t_sectors_{_LOADS}",), _global_sectors(store=False)),
    Counter("sectors stored", (f"l1tex__t_sectors_{_STORES}",), _global_sectors(store=True)),
    Counter(
        "global requests",
        (f"l1tex__t_requests_{_LOADS}", f"l1tex__t_requests_{_STORES}"),
        lambda launch, _: sum(t.requests for t in _by_threads(launch, "global")),
    ),
    Counter(
        "wavefronts of shared memory",
        ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",),
        lambda launch, _: sum(t.wavefronts for t in _by_threads(launch, "shared")),
    ),
    Counter(
        "bytes of L2",
        ("lts__t_sectors_srcunit_tex.sum",),
        lambda launch, _: sum(t.distinct for t in launch.traffic),
        by=1 / SECTOR,
    ),
    Counter("bytes of memory", ("dram__bytes.sum",), _memory_bytes),
)
METRICS = tuple(dict.fromkeys(metric for counter in COUNTERS for metric in counter.metrics))


# -- what Nsight Compute says

# What a unit is of the base unit, by the names that versions of it have.
_UNITS = {"second": 1e9, "msecond": 1e6, "usecond": 1e3, "s": 1e9, "ms": 1e6, "us": 1e3}
_UNITS |= {"Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12}


def read_counters(output: str) -> list[Counted]:
    """The launches in the output of `ncu --csv --page raw`, in their order.

    Raises DeviceError where it has no table.
    """
    lines = output.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        raise DeviceError(f"Nsight Compute has counted nothing{_complaint(lines)}", notes=_way_out(output))
    table = list(csv.DictReader(line for line in lines[start:] if line.startswith('"')))
    units = table[0] if table and not table[0]["ID"] else {}
    return [_counters_of(row, units) for row in table if row["ID"]]


def _counters_of(row: Mapping[str, str], units: Mapping[str, str]) -> Counted:
    metrics = {}
    for name in METRICS:
        try:
            metrics[name] = float(row[name].replace(",", "")) * _UNITS.get(units.get(name, ""), 1.0)
        except (KeyError, ValueError):  # a metric that this GPU lacks: n/a
            continue
    return Counted(row["Kernel Name"].partition("(")[0], metrics)


def _complaint(lines: list[str]) -> str:
    """What it says itself, or what the program that it ran says last, after a colon."""
    errors = [line.removeprefix("==ERROR==").strip() for line in lines if line.startswith("==ERROR==")]
    own = [each for each in errors if not each.startswith("The application returned an error code")]
    others = [line.strip() for line in lines if line.strip() and not line.startswith("==")]
    said = [*own[:1], *others[-1:], *errors]
    return f": {said[0].removesuffix('.')}" if said else ""


def _way_out(output: str) -> tuple[str, ...]:
    if "ERR_NVGPUCTRPERM" not in output:
        return ()
    return (
        "counters are for administrators here: run it as root, or allow them with the driver's option "
        "NVreg_RestrictProfilingToAdminUsers=0",
    )
