"""The row of a comparison for what tuning found fastest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tilegen.cli.rows import Entry, entry_of
from tilegen.errors import UsageError

if TYPE_CHECKING:
    from tilegen.backends.engine import Engine


def tuned_row(path: str, beside: Entry, given: Mapping[str, int], runs_on: Engine) -> dict[str, Entry]:
    """The fastest schedule in a record of tuning for the kernel of another row, on this device, at the sizes timed at.

    Raises:
        UsageError: it has none.
    """
    from tilegen.lab.sizes import CPU_LIMITS, GPU_LIMITS, power_sizes
    from tilegen.lab.tuned import find_fastest

    kernel = beside.attempt.kernel
    sizes = power_sizes(kernel.ir.meant_kernel, given, GPU_LIMITS if runs_on.on_gpu else CPU_LIMITS)
    records = kernel.records_of(path)
    sizes |= {name: int(value) for name, value in kernel.values.items() if name in records[0].sizes}
    found = find_fastest(records, runs_on.name, sizes)
    if found is None:
        there = dict.fromkeys(f"{_sizes_text(r.sizes)} on {r.device.name}" for r in records if r.device)
        notes = (f"it has {'; '.join(there)}",)
        raise UsageError(f"{path} has no time at {_sizes_text(sizes)} on {runs_on.name}", notes=notes)
    return {f"tuned: {found.name}": entry_of(found, path)}


def _sizes_text(sizes: Mapping[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in sizes.items())
