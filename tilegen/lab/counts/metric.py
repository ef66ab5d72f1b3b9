"""What a kernel does at given sizes, counted from its text: operations, bytes, and the rate to show."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod

from tilegen.backends.calls.arrays import shape_of
from tilegen.ir.affine import var
from tilegen.ir.hardware.instructions import ROUNDINGS
from tilegen.ir.nodes import DTYPE_BYTES, FLOATS, ONLY, Equation, Kernel, Load, Op
from tilegen.ir.reductions.ragged import sides_of, without_tests
from tilegen.ir.reductions.running import running_of
from tilegen.ir.walk import loads, walk

Pair = tuple[str, str]  # a loop over rows, and one over elements of which each is in one row

# Above this number of operations a byte a kernel is limited by arithmetic, and its rate is shown in TFLOP/s.
_INTENSE = 10


def operations(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    """Floating-point operations: each operator and function of an equation counts one for each point of its
    ranges (an fma two), and each step of a reduction one; conversions and roundings to a format count nothing. A
    matrix product has 2*M*N*K; of a running reduction each term counts once, and of rows whose ends data give each
    element: in the row that has it."""
    pairs: dict[str, set[Pair]] = {}
    for equation in reversed(kernel.equations):  # those that read it stand after it
        pairs[equation.target] = _row_pairs(equation, kernel) | _read_in_rows(equation, kernel, pairs)
    every = ((e, frozenset(row for row, _ in pairs[e.target])) for e in kernel.equations)
    return sum(operations_per_point(e) * terms(e, sizes, rows) for e, rows in every)


def terms(equation: Equation, sizes: Mapping[str, int], rows: Collection[str] = ()) -> int:
    """Points of the equation's ranges, those of `rows` left out; of a running reduction those of its terms, each of
    which counts once."""
    running = running_of(equation)
    ranges = (r for r in (*equation.loops, *equation.reduced) if running is None or r != running.i)
    return prod(r.extent.evaluate(sizes) for r in ranges if r.name not in rows)


def _row_pairs(equation: Equation, kernel: Kernel) -> set[Pair]:
    """The loops over rows, each with one over elements: an element is in one row."""
    found: dict[bool, set[Pair]] = {False: set(), True: set()}
    for side in sides_of(equation.value):
        match side.value, side.place.terms:
            case Load(buffer, (index,)), ((str() as element, 1),) if buffer in dict(kernel.rising):
                found[side.upper] |= {(row, element) for row in index.names() if (index - var(row)).is_const}
    return found[False] & found[True]


def _read_in_rows(equation: Equation, kernel: Kernel, pairs: Mapping[str, set[Pair]]) -> set[Pair]:
    """The pairs of its loops that are pairs of all who read it."""
    found: list[set[Pair]] = []
    for reader in kernel.equations:
        for load in loads(reader.value):
            if load.buffer == equation.target:
                own = dict(zip(map(str, load.index), map(str, equation.index), strict=True))
                read = pairs.get(reader.target, set())
                found.append({(own[row], own[element]) for row, element in read if {row, element} <= own.keys()})
    return set.intersection(*found) if found else set()


def moved_bytes(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    """Bytes of the inputs and outputs: each read once or written once."""
    tensors = [t for t in kernel.tensors if t.role != "intermediate" and not t.windows]
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
    """Operations of an equation for each point of its ranges, those that choose the elements of a row left out."""
    value = without_tests(equation.value, frozenset(side.test for side in sides_of(equation.value)))
    found = [n for n in walk(value) if isinstance(n, Op) and n.dtype in (*FLOATS, "i32", "i64")]
    each = (2 if op.name == "fma" else 1 for op in found if op.name not in ROUNDINGS)
    return sum(each) + (equation.reduce not in (None, ONLY))
