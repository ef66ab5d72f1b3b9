"""What a kernel does at given sizes, counted from its text: operations, bytes, and the rate to show."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tilegen.backends.arrays import shape_of
from tilegen.ir.nodes import DTYPE_BYTES, FLOATS, Equation, Kernel, Op
from tilegen.ir.walk import walk

# With more operations a byte than this, the arithmetic is the limit and TFLOP/s say more than GB/s.
_INTENSE = 10


def operations(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    """Floating-point operations: each operator and function of an equation counts one for each point of its
    ranges (an fma two), and each step of a reduction one. A matrix product has 2*M*N*K."""
    return sum(
        _of_a_point(e) * prod(r.extent.evaluate(sizes) for r in (*e.loops, *e.reduced)) for e in kernel.equations
    )


def moved_bytes(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    """Bytes of the inputs and outputs: each read once or written once."""
    tensors = [t for t in kernel.tensors if t.role != "intermediate"]
    return sum(DTYPE_BYTES[t.dtype] * prod(shape_of(t, sizes)) for t in tensors)


def unit(kernel: Kernel, sizes: Mapping[str, int]) -> str:
    """ "TFLOP/s" for a kernel that computes, "GB/s" for one that moves."""
    return "TFLOP/s" if operations(kernel, sizes) > _INTENSE * moved_bytes(kernel, sizes) else "GB/s"


def rate(kernel: Kernel, sizes: Mapping[str, int], milliseconds: float) -> float:
    """The kernel's rate in its unit."""
    if unit(kernel, sizes) == "TFLOP/s":
        return operations(kernel, sizes) / milliseconds / 1e9
    return moved_bytes(kernel, sizes) / milliseconds / 1e6


def _of_a_point(equation: Equation) -> int:
    found = [n for n in walk(equation.value) if isinstance(n, Op) and n.dtype in (*FLOATS, "i32", "i64")]
    return sum(2 if op.name == "fma" else 1 for op in found) + (1 if equation.reduce else 0)
