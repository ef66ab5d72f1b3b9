"""The figures of an explanation as one table, for Python and notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilegen.ir.shown import Table

if TYPE_CHECKING:
    from tilegen.lab.explain import Explanation, LaunchReport, StepReport


def table_of(found: Explanation) -> Table:
    """A row for each launch after each step; the `notes` of the explanation stand below."""
    sizes = " ".join(f"{name}={value}" for name, value in found.sizes.items())
    heads = ("step", "grid x block", "registers", "global MB", "conflicts", "occupancy", "limit", "predicted ms", "")
    rows = [_cells(step, launch) for step in found.steps for launch in step.launches or (None,)]
    title = f"{found.kernel}, schedule {found.schedule}  {sizes}  on one {found.machine.name}"
    return Table(title, heads, rows, found.notes)


def _cells(step: StepReport, launch: LaunchReport | None) -> tuple[str, ...]:
    name = step.step or "as written"
    if launch is None:
        return (name, *[""] * 7, f"cannot be launched: {step.error}")
    return (
        name if launch is step.launches[0] else "",
        f"{launch.blocks} x {launch.threads}",
        str(launch.resources.registers) if launch.resources else "",
        f"{launch.global_bytes / 1e6:.4g}",
        f"{launch.conflicts:.3g}",
        f"{launch.occupancy.share:.0%}",
        launch.prediction.limit,
        f"{launch.prediction.milliseconds:.3g}",
        "",
    )
