"""The figures of an explanation as one table, for terminals, Python, notebooks and pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilegen.ir.shown import Table, size_words

if TYPE_CHECKING:
    from tilegen.lab.predict.explain import Explanation, LaunchReport, StepReport

_FIGURES = ("GB", "coal.", "loads:FMA", "conflict", "shared B", "regs", "spills", "occup.", "ms", "limit")
_HEADS = ("step", "grid x block", "global loads", *_FIGURES)


def table_of(found: Explanation) -> Table:
    """A row for each launch after each step; the `notes` of the explanation stand below."""
    pairs = zip(found.steps, (None, *found.steps), strict=False)
    rows = [(*cells, *[""] * (len(_HEADS) - len(cells))) for step, before in pairs for cells in _rows(step, before)]
    title = f"{found.kernel}, schedule {found.schedule}  {size_words(found.sizes)}  for {found.machine.name}"
    return Table(title, _HEADS, rows, found.notes)


def _rows(step: StepReport, before: StepReport | None) -> Iterator[tuple[str, ...]]:
    """One row for each launch of a step; a step that changes nothing that is counted says so."""
    if step.error:
        same = before is not None and before.error == step.error
        yield step.name, "", "cannot be launched, as before" if same else f"cannot be launched: {step.error}"
    elif step.same:
        yield step.name, "", "the same program"
    else:
        for number, launch in enumerate(step.launches):
            lead = step.name if not number else ""
            yield lead if len(step.launches) == 1 else f"{lead} [{launch.name}]".strip(), *_cells(launch)


def _cells(launch: LaunchReport) -> tuple[str, ...]:
    taken = launch.resources
    return (
        f"{launch.blocks} x {launch.threads}",
        str(launch.loads("global")),
        f"{launch.global_bytes / 1e9:.3g}",
        f"{100 * launch.coalesced_share:.0f}%",
        _ratio(launch),
        f"{launch.conflicts:.3g}",
        str(launch.shared_bytes),
        str(taken.registers) if taken else "",
        str(taken.spills) if taken else "",
        f"{100 * launch.occupancy.share:.0f}%" if launch.threads > 1 else "",
        f"{launch.prediction.milliseconds:.3g}",
        launch.prediction.limit,
    )


def _ratio(launch: LaunchReport) -> str:
    """Loads of one inner iteration against multiply-adds, or against instructions of a warp where such compute."""
    found = launch.inner
    if found is None:
        return ""
    loads = found.shared + found.global_
    return f"{loads:.3g}:{found.by_warps or found.fused or found.plain:.3g}"
