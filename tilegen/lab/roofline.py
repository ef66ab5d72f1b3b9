"""The roofline of a launch: the least time that each part of a machine needs for its share of the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from tilegen.backends.sass import Hot
from tilegen.ir.lanes import WARP
from tilegen.lab.addresses import LINE
from tilegen.lab.tensor_cores import TENSOR_CORES, TensorCores, tensor_seconds
from tilegen.lab.traffic import ArithmeticCount, Traffic


@dataclass(frozen=True)
class Machine:
    """Ceilings of a GPU, measured where the name says so.

    Attributes:
        clock: GHz.
        multiply_adds: TFLOP/s of fp32 multiply-adds from registers, two operations each.
        copy: TB/s of a kernel that copies, its reads and writes together.
        shared: TB/s of shared memory; at 128 bytes a turn this tells the turns a second.
        second_level: TB/s that the L2 cache delivers to the SMs.
        schedulers: instructions of warps that an SM issues a cycle.
        special: results a cycle of the special function units of an SM.
        tensor: its tensor cores.
    """

    name: str
    arch: str
    sms: int
    clock: float
    multiply_adds: float
    copy: float
    shared: float
    second_level: float
    schedulers: int = 4
    special: int = 16
    tensor: TensorCores = TENSOR_CORES["sm_90"]


# Each measured by a kernel that does nothing else, on one H200 at 1980 MHz; L2 by reading 48 MB repeatedly.
H200 = Machine("H200", "sm_90", 132, 1.98, 65.2, 4.07, 32.5, 8.6)
# How many times longer an instruction takes than the same one in f32.
_SLOWER = {"f64": 2.0}


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
        compulsory: bytes of the tensors that the launch reads and writes, each counted once.
        hot: the machine code of its innermost loop; without it, only computing and memory instructions are counted.
    """
    warps = ceil(shape.threads / WARP)
    lanes = warps * WARP / shape.threads  # the idle lanes of the last warp take part in everything
    cycle = machine.sms * machine.clock * 1e9
    busy = _busy_share(machine, shape)
    computing = (work.fused + work.plain) * lanes * _SLOWER.get(work.dtype, 1.0)
    described = {c.name for c in work.computing}  # they read by themselves
    requests = sum(t.requests for t in moved if t.site.by not in described)
    by_warps = sum(c.runs * c.warps for c in work.computing)
    slots = (work.fused + work.plain + work.special) * lanes / WARP + requests + by_warps
    if hot and hot.what != "kernel" and hot.mix.get("tensor") and by_warps:
        slots = by_warps / hot.mix["tensor"] * hot.count
    elif hot and hot.what != "kernel" and hot.mix.get("multiply-add") and work.fused:
        # The compiler computes common subexpressions once: its instructions are counted, not those of the text.
        rounds = work.fused * lanes / WARP / hot.mix["multiply-add"]
        made = rounds * WARP * (hot.mix["multiply-add"] + hot.mix.get("arithmetic", 0)) - work.special * lanes
        slots = rounds * hot.count
        computing = min(computing, made * _SLOWER.get(work.dtype, 1.0))
    by_threads = sum(t.turns + t.lines for t in moved if not t.in_bulk)
    in_bulk = sum(t.lines for t in moved if t.in_bulk)
    turn = LINE / (machine.shared * 1e12)
    seconds = {
        "tensor cores": tensor_seconds(work.computing, machine.tensor) / busy,
        "multiply-adds": computing * 2 / (machine.multiply_adds * 1e12) / busy,
        "issue slots": slots / (machine.schedulers * cycle) / busy,
        "functions": work.special * lanes / (machine.special * cycle) / busy,
        "shared and L1": by_threads * turn / min(1.0, busy * machine.schedulers),
        "bulk copies": in_bulk * turn / min(1.0, busy * machine.schedulers),
        "L2": sum(t.distinct for t in moved) / (machine.second_level * 1e12),
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
