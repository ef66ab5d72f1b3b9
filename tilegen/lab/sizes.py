"""Sizes to try a kernel at, where the user gives none: odd ones, even ones, and ones worth timing."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tilegen.backends.devices import InterpreterEngine
from tilegen.backends.engine import Engine
from tilegen.errors import UsageError
from tilegen.ir.nodes import DTYPE_BYTES, Condition, Kernel

# What a trial may cost: points of all loops together, and bytes of all tensors together.
CHECK_LIMITS = (2**24, 2**26)
INTERPRETER_LIMITS = (2**15, 2**20)
CPU_LIMITS = (2**24, 2**26)
GPU_LIMITS = (2**36, 2**32)
_LARGEST = 2**28


def check_limits(engine: Engine) -> tuple[int, int]:
    """What a check may cost on the engine."""
    return INTERPRETER_LIMITS if isinstance(engine, InterpreterEngine) else CHECK_LIMITS


def check_sizes(
    kernel: Kernel, given: Mapping[str, int], limits: tuple[int, int] = CHECK_LIMITS
) -> list[dict[str, int]]:
    """Two sets for a check: powers of two, and odd numbers that are all different."""
    even = power_sizes(kernel, given, limits)
    level = max([1, *(v for n, v in even.items() if n not in given)])
    odd = {n: (level * 5 // 8 | 1) + 2 * i for i, n in enumerate(kernel.sizes)} | dict(given)
    sets = [even, _satisfied(kernel, odd, given)]
    return sets if sets[0] != sets[1] else sets[:1]


def power_sizes(kernel: Kernel, given: Mapping[str, int], limits: tuple[int, int]) -> dict[str, int]:
    """The largest power of two for every size that is not given, such that the limits hold.

    Raises:
        UsageError: no sizes were found that satisfy the kernel's `where`.
    """
    level = _LARGEST
    while level > 1:
        sizes = _satisfied(kernel, {n: level for n in kernel.sizes} | dict(given), given)
        if points(kernel, sizes) <= limits[0] and total_bytes(kernel, sizes) <= limits[1]:
            return sizes
        level //= 2
    return _satisfied(kernel, {n: 1 for n in kernel.sizes} | dict(given), given)


def points(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    """Points of all equations' ranges together; a restriction (`k <= i`) is not counted."""
    return sum(
        prod(r.extent.evaluate(sizes) for r in (*equation.loops, *equation.reduced)) for equation in kernel.equations
    )


def total_bytes(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    """Bytes of all tensors, intermediate ones too."""
    return sum(DTYPE_BYTES[t.dtype] * prod(e.evaluate(sizes) for e in t.shape) for t in kernel.tensors)


def _satisfied(kernel: Kernel, wanted: Mapping[str, int], given: Mapping[str, int]) -> dict[str, int]:
    """`wanted`, sizes that are not given raised until every `where` holds and no tensor is empty."""
    sizes = dict(wanted)
    positive = tuple(Condition(extent - 1) for t in kernel.tensors for extent in t.shape)
    for _ in range(64):
        broken = [c for c in (*kernel.assumptions, *positive) if not _holds(c, sizes)]
        if not broken:
            return sizes
        if not _repair(broken[0], sizes, given):
            break
    raise UsageError(
        f"no sizes were found that kernel '{kernel.name}' admits",
        notes=(f"give some: --size {' '.join(f'{n}=...' for n in kernel.sizes)}",),
    )


def _repair(condition: Condition, sizes: dict[str, int], given: Mapping[str, int]) -> bool:
    """Raises one size until `condition` holds."""
    for name in sorted(condition.value.names() - set(given)):
        start = sizes[name]
        steps = [*range(1, 129), *(2**n for n in range(8, 24))]
        for step in steps:
            if _holds(condition, sizes | {name: start + step}):
                sizes[name] = start + step
                return True
    return False


def _holds(condition: Condition, sizes: Mapping[str, int]) -> bool:
    value = condition.value.evaluate(sizes)
    return value == 0 if condition.equal else value >= 0
