"""The roofline of a launch: the least time that each part of a machine needs for its share of the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from tilegen.backends.compiler.sass import Hot
from tilegen.ir.hardware.lanes import WARP
from tilegen.lab.counts.addresses import LINE
from tilegen.lab.counts.tensor_cores import tensor_seconds
from tilegen.lab.counts.traffic import ArithmeticCount, Traffic
from tilegen.lab.predict.machine import Machine


@dataclass(frozen=True)
class Prediction:
    """No launch is faster than its slowest part: `milliseconds` is the largest of `bounds`, `limit` its name."""

    milliseconds: float
    limit: str
    bounds: Mapping[str, float]


@dataclass(frozen=True)
class Shape:
    """The shape of a launch: its blocks, their threads, and the warps that an SM holds at once."""

    blocks: int
    threads: int
    resident_warps: int


def predict(
    machine: Machine,
    shape: Shape,
    moved: Sequence[Traffic],
    work: ArithmeticCount,
    compulsory: int,
    hot: Hot | None = None,
) -> Prediction:
    """The least time of one launch.

    Args:
        compulsory: bytes of the elements that the launch has to read or write, each counted once.
        hot: the machine code of its innermost loop; without it, computing and memory instructions are counted, and
            tests of borders.
    """
    warps = ceil(shape.threads / WARP)
    lanes = warps * WARP / shape.threads  # the idle lanes of the last warp take part in everything
    cycle = machine.sms * machine.clock * 1e9
    busy = _busy_share(machine, shape)
    computing = (work.fused + work.plain) * lanes * machine.slower(work.dtype)
    described = {c.name for c in work.computing}  # they read by themselves
    requests = sum(t.requests for t in moved if t.site.by not in described)
    by_warps = sum(c.runs * c.warps for c in work.computing)
    slots = (work.fused + work.plain + work.special + work.tests) * lanes / WARP + requests + by_warps
    if hot and hot.what != "kernel" and hot.mix.get("tensor") and by_warps:
        slots = by_warps / hot.mix["tensor"] * hot.count
    elif hot and hot.what != "kernel" and hot.mix.get("multiply-add") and work.fused:
        # The compiler computes common subexpressions once: its instructions are counted, not those of the text.
        rounds = work.fused * lanes / WARP / hot.mix["multiply-add"]
        made = rounds * WARP * (hot.mix["multiply-add"] + hot.mix.get("arithmetic", 0)) - work.special * lanes
        slots = rounds * hot.count
        computing = min(computing, made * machine.slower(work.dtype))
    by_threads = sum(t.wavefronts + t.lines for t in moved if not t.in_bulk)
    in_bulk = sum(t.lines for t in moved if t.in_bulk)
    cycle_of_line = LINE / (machine.shared * 1e12)
    seconds = {
        "tensor cores": tensor_seconds(work.computing, machine.tensor) / busy,
        "multiply-adds": computing * 2 / (machine.multiply_adds * 1e12) / busy,
        "issue slots": slots / (machine.schedulers * cycle) / busy,
        "functions": work.special * lanes / (machine.special * cycle) / busy,
        "shared and L1": by_threads * cycle_of_line / min(1.0, busy * machine.schedulers),
        "bulk copies": in_bulk * cycle_of_line / min(1.0, busy * machine.schedulers),
        "L2": sum(t.distinct for t in moved) / (machine.second_level * 1e12) if machine.second_level else 0.0,
        "global memory": compulsory / (machine.copy * 1e12),
    }
    bounds = {name: 1e3 * value for name, value in seconds.items() if value}
    limit = max(bounds, key=lambda name: bounds[name], default="nothing")
    return Prediction(bounds.get(limit, 0.0), limit, bounds)


def _busy_share(machine: Machine, shape: Shape) -> float:
    """The share of the machine that is busy, without the SMs in the last wave and schedulers that have no warp."""
    each = max(1, shape.blocks) / machine.sms
    spread = each / ceil(each)
    return spread * min(1.0, shape.resident_warps / machine.schedulers)
