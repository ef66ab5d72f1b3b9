"""What a kernel does at given sizes, counted from its text: operations, bytes, and the rate to show."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tilegen.backends.calls.arrays import shape_of
from tilegen.ir.hardware.instructions import ROUNDINGS
from tilegen.ir.nodes import DTYPE_BYTES, FLOATS, Equation, Kernel, Op
from tilegen.ir.reductions.running import running_of
from tilegen.ir.walk import walk

# Above this number of operations a byte a kernel is limited by arithmetic, and its rate is shown in TFLOP/s.
_INTENSE = 10


def operations(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    """Floating-point operations: each operator and function of an equation counts one for each point of its
    ranges (an fma two), and each step of a reduction one; conversions and roundings to a format count nothing. A
    matrix product has 2*M*N*K; of a running reduction each term counts once."""
    return sum(operations_per_point(e) * terms(e, sizes) for e in kernel.equations)


def terms(equation: Equation, sizes: Mapping[str, int]) -> int:
    """Points of the equation's ranges; of a running reduction those of its terms, each of which counts once."""
    running = running_of(equation)
    ranges = (r for r in (*equation.loops, *equation.reduced) if running is None or r != running.i)
    return prod(r.extent.evaluate(sizes) for r in ranges)


def moved_bytes(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    """Bytes of the inputs and outputs: each read once or written once."""
    tensors = [t for t in kernel.tensors if t.role != "intermediate"]
    return sum(DTYPE_BYTES[t.dtype] * prod(shape_of(t, sizes)) for t in tensors)


def is_compute_bound(kernel: Kernel, sizes: Mapping[str, int]) -> bool:
    """True if arithmetic limits the kernel, False if it mainly moves data."""
    return operations(kernel, sizes) > _INTENSE * moved_bytes(kernel, sizes)


def unit(kernel: Kernel, sizes: Mapping[str, int], on_gpu: bool = True) -> str:
    """The unit of the kernel's rate: "TFLOP/s" ("GFLOP/s" on a CPU) or "GB/s"."""
    if not is_compute_bound(kernel, sizes):
        return "GB/s"
    return "TFLOP/s" if on_gpu else "GFLOP/s"


def rate(kernel: Kernel, sizes: Mapping[str, int], milliseconds: float, shown: str) -> float:
    """The kernel's rate in the unit `shown`."""
    done = moved_bytes(kernel, sizes) if shown == "GB/s" else operations(kernel, sizes)
    return done / milliseconds / (1e9 if shown == "TFLOP/s" else 1e6)


def operations_per_point(equation: Equation) -> int:
    """Operations of an equation for each point of its ranges."""
    found = [n for n in walk(equation.value) if isinstance(n, Op) and n.dtype in (*FLOATS, "i32", "i64")]
    each = (2 if op.name == "fma" else 1 for op in found if op.name not in ROUNDINGS)
    return sum(each) + (1 if equation.reduce else 0)
