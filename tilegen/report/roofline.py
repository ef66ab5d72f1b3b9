"""The roofline of a schedule as a chart."""

from __future__ import annotations

from collections.abc import Iterable

from tilegen.ir.printing.shown import size_words
from tilegen.lab.predict.explanation import Explanation, StepReport
from tilegen.report.charts import Axis, Chart, Series


def roofline(found: Explanation) -> Chart | None:
    """What the roofline allows each step of a schedule, beside the ceilings of the machine.

    None where nothing is computed in floating point.
    """
    points = [point for step in found.steps if (point := _point(step))]
    if not points:
        return None
    reached = [intensity for intensity, _, _ in points]
    steps = Series(
        "after each step, predicted",
        tuple(p[0] for p in points),
        tuple(p[1] for p in points),
        labels=tuple(p[2] for p in points),
    )
    sizes = size_words(found.sizes)
    return Chart(
        f"{found.kernel}, schedule {found.schedule}, {sizes}: roofline of one {found.machine.name}. A program above "
        "the line of global memory finds in L2 what other blocks have brought there.",
        Axis("operations for each byte that blocks ask of L2", log=True),
        Axis("TFLOP/s", log=True),
        (*_ceilings(found, min(reached) / 2, max(reached) * 2), steps),
    )


def _point(step: StepReport) -> tuple[float, float, str] | None:
    """(operations a byte, TFLOP/s, name) of a program."""
    operations = sum(launch.work.operations for launch in step.launches)
    moved = sum(access.distinct for launch in step.launches for access in launch.traffic)
    if not operations or not moved or not step.milliseconds:
        return None
    return operations / moved, operations / step.milliseconds / 1e9, step.name


def _ceilings(found: Explanation, low: float, high: float) -> Iterable[Series]:
    """What each level of memory allows, up to the fastest unit that computes; and what each of these units does."""
    machine, rates = found.machine, dict(_rates(found))
    most = max(rates.values())
    high = max(high, 2 * most / machine.copy)
    fastest = machine.second_level or machine.copy
    for name, speed in (("L2", machine.second_level), ("global memory", machine.copy)):
        if speed and low < (end := most / speed):
            yield Series(f"{name}, {speed:g} TB/s", (low, end), (speed * low, most), kind="line")
    for name, rate in rates.items():
        yield Series(f"{name}, {rate:.3g} TFLOP/s", (rate / fastest, high), (rate, rate), kind="line")


def _rates(found: Explanation) -> Iterable[tuple[str, float]]:
    """The units of the machine that the last program computes with, with their TFLOP/s."""
    launches = next((step.launches for step in reversed(found.steps) if step.launches), ())
    known = False
    for each in dict.fromkeys((each.format, each.unit) for launch in launches for each in launch.work.computing):
        if rate := found.machine.tensor.rate(*each):
            known = True
            yield f"tensor cores in {each[0]}", rate
    if not known:
        yield "multiply-adds", found.machine.multiply_adds
