"""What a check or a timing needs: an error before it begins where memory is short, a note where it takes long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from math import prod

from tilegen.backends.calls.engine import Engine
from tilegen.backends.calls.memory import ADDRESSABLE, bytes_text, check_free, free_bytes
from tilegen.backends.devices.devices import InterpreterEngine
from tilegen.backends.text.arrays import scratch_buffers, scratch_extents
from tilegen.errors import DeviceError, UsageError
from tilegen.ir.comparison.tolerance import tolerance_of
from tilegen.ir.nodes import DTYPE_BYTES, Equation, Kernel, Op, Tree
from tilegen.lab.checks.sizes import limits_of_check, points, sizes_to_check, total_bytes
from tilegen.lab.counts.metric import moved_bytes, terms
from tilegen.lab.predict.machine import Machine

# Bytes of the reference for each element: a value, its bound, a flag that it is defined, and the drawn inputs.
_REFERENCE = 8 + 8 + 1 + 16
# Bytes for each element of an output that a case keeps until all schedules have run: value, bound, flag.
_KEPT = 8 + 8 + 1
# Iterations a second: of the reference, for sums of products and for others; of programs, on each device.
_PRODUCTS, _OTHERS = 5e8, 1e7
_GPU, _CPU, _INTERPRETER = 1e11, 5e7, 2e5
_LONG = 20.0  # seconds
_CASES = 2  # of integers, of random numbers

Sizes = Mapping[str, int]


def require_check_memory(trees: Sequence[Tree], sizes: Sequence[Sizes], engine: Engine, repeated: bool = False) -> None:
    """Raises DeviceError where there is too little memory for a check of trees of one kernel at all of `sizes`.

    Args:
        repeated: whether each result is kept, too, to be held against others.
    """
    kernel = trees[0].kernel.written_kernel
    cases = _CASES * len(set(map(tolerance_of, trees)))
    kept = sum(
        cases * (total_bytes(kernel, each) + _KEPT * _count_tensor_elements(kernel, each, "output")) for each in sizes
    )
    for each in sizes:
        on_device = (4 if repeated else 2) * total_bytes(kernel, each) + max(
            scratch_bytes(tree, each) for tree in trees
        )
        here = 0 if engine.on_gpu else on_device
        check_free(
            kept + _REFERENCE * _count_tensor_elements(kernel, each) + here,
            f"the check at {format_sizes(each)}",
            free_bytes,
        )
        if engine.on_gpu:
            check_free(on_device, f"the check at {format_sizes(each)}", engine.free_bytes)


def require_timing_memory(trees: Iterable[Tree], sizes: Sizes, engine: Engine) -> None:
    """Raises DeviceError where there is too little memory for runs of the trees at `sizes`."""
    trees = list(trees)
    bytes_ = 2 * total_bytes(trees[0].kernel.written_kernel, sizes) + max(scratch_bytes(tree, sizes) for tree in trees)
    check_free(bytes_, f"a run at {format_sizes(sizes)}", engine.free_bytes)


def require_memory_of_machine(trees: Iterable[Tree], sizes: Sizes, machine: Machine) -> None:
    """Raises DeviceError where a machine, for which times are predicted, has memory for no tree of one kernel."""
    bytes_ = min(moved_bytes(tree.kernel.written_kernel, sizes) + scratch_bytes(tree, sizes) for tree in trees)
    most = machine.memory * 2**30 if machine.memory else ADDRESSABLE
    if bytes_ > most:
        message = f"a run at {format_sizes(sizes)} needs {bytes_text(bytes_)} of memory, and one {machine.name} has"
        raise DeviceError(f"{message} {bytes_text(int(most))}", notes=("smaller sizes need less",))


def check_outlook(trees: Sequence[Tree], sizes: Sequence[Sizes], engine: Engine, runs: int = 0) -> str | None:
    """A note on a check at `sizes`, with `runs` more on the random numbers, that takes long, and on sizes at which it
    does not; else None."""
    kernel = trees[0].kernel.written_kernel
    tolerances = len(set(map(tolerance_of, trees)))
    reference = sum(_reference_seconds(kernel, each) for each in sizes) * tolerances
    one = sum(_run_seconds(tree.kernel, each, engine) for tree in trees for each in sizes)
    seconds = _CASES * (reference + one) + runs * one
    most = max(points(tree.kernel, each) for tree in trees for each in sizes)
    return _outlook("the check", most, len(trees), seconds, _way_to_fewer(trees, most, engine))


def timing_outlook(trees: Sequence[Tree], sizes: Sizes, engine: Engine) -> str | None:
    """A note on runs at `sizes` that take long; None for short ones."""
    seconds = 2 * sum(_run_seconds(tree.kernel, sizes, engine) for tree in trees)
    most = max(points(tree.kernel, sizes) for tree in trees)
    return _outlook("the timing", most, len(trees), seconds, "--size chooses fewer")


def _way_to_fewer(trees: Sequence[Tree], most: int, engine: Engine) -> str:
    """Sizes at which a check reaches what it reaches with `most` points: all tiles, with and without a border."""
    kernel = trees[0].kernel
    if not kernel.sizes:
        return "its sizes are fixed: --fix, or --set, gives others"
    with suppress(UsageError):
        small = sizes_to_check(trees, {}, limits_of_check(engine))
        if max(points(tree.kernel, each) for tree in trees for each in small) < most:
            return "without --size it takes sizes that reach all tiles, whole and at borders, and takes less"
    return "--size chooses fewer"


def _outlook(what: str, most: int, schedules: int, seconds: float, way: str) -> str | None:
    if seconds < _LONG:
        return None
    count = f"up to {most:,} points for each of {schedules}" if schedules > 1 else f"{most:,} points for the"
    return f"{what} has {count} schedule{'s' * (schedules > 1)} and takes about {_format_duration(seconds)}; {way}"


def _run_seconds(kernel: Kernel, sizes: Sizes, engine: Engine) -> float:
    """Estimated seconds of one run of a slow schedule."""
    rate = _GPU if engine.on_gpu else _INTERPRETER if isinstance(engine, InterpreterEngine) else _CPU
    return points(kernel, sizes) / rate


def scratch_bytes(tree: Tree, sizes: Sizes) -> int:
    """Bytes of what a tree keeps in global memory beside the tensors of its kernel."""
    lengths = {b: [extent.evaluate(sizes) for extent in scratch_extents(b)] for b in scratch_buffers(tree)}
    return sum(DTYPE_BYTES[buffer.dtype] * prod(each) for buffer, each in lengths.items())


def format_sizes(sizes: Sizes) -> str:
    """The sizes as a message shows them."""
    return ", ".join(f"{name} = {value}" for name, value in sizes.items()) or "the kernel's sizes"


def _count_tensor_elements(kernel: Kernel, sizes: Sizes, role: str = "") -> int:
    return sum(prod(e.evaluate(sizes) for e in t.shape) for t in kernel.tensors if role in ("", t.role))


def _reference_seconds(kernel: Kernel, sizes: Sizes) -> float:
    """Estimated seconds of the reference for one case."""
    return sum(terms(e, sizes) / (_PRODUCTS if _is_product(e) else _OTHERS) for e in kernel.equations)


def _is_product(equation: Equation) -> bool:
    return equation.reduce == "sum" and isinstance(equation.value, Op) and equation.value.name == "*"


def _format_duration(seconds: float) -> str:
    for unit, length in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"
