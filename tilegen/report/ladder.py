"""A ladder as a waterfall, and as a table with what was predicted beside what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tilegen.ir.printing.shown import Table, size_words
from tilegen.lab.measure.ladder import Ladder, Rung, rungs_of
from tilegen.lab.measure.timing import CPU_NOTE, cells_of_time
from tilegen.lab.predict.explanation import Explanation
from tilegen.report.charts import Axis, Chart, Series
from tilegen.report.measured import MeasuredLadder, MeasuredRung, place_of_predictions


def measured_ladder(found: Ladder) -> MeasuredLadder:
    """What has just been measured or predicted, as a file would have it."""
    place = (found.device, found.on_gpu) if found.timed else place_of_predictions(found.machine.name)
    rungs = tuple(map(_measured, found.rungs))
    return MeasuredLadder(found.kernel, found.schedule, found.sizes, *place, rungs, found.rival, found.rival_time)


def predicted_ladder(found: Explanation) -> MeasuredLadder:
    """The ladder of what the roofline allows each step: nothing is measured of it."""
    place = place_of_predictions(found.machine.name)
    return MeasuredLadder(found.kernel, found.schedule, found.sizes, *place, tuple(map(_measured, rungs_of(found))))


def _measured(rung: Rung) -> MeasuredRung:
    said = "the same program" if rung.same else rung.error or rung.untimed or ""
    return MeasuredRung(rung.name, rung.predicted_time, rung.time, said)


def waterfall(ladder: MeasuredLadder) -> Chart | None:
    """How each step changes the time, from the top down; None where nothing is known of two programs."""
    rungs = [rung for rung in ladder.rungs if not rung.said and (rung.time or rung.predicted)]
    measured = [(place, rung.time) for place, rung in enumerate(rungs) if rung.time]
    predicted = [(place, rung.predicted) for place, rung in enumerate(rungs) if rung.predicted]
    falls = [(place, time.median) for place, time in measured] if measured else predicted
    if len(falls) < 2:
        return None
    series = list(_bars(falls))
    if measured:
        places, times = zip(*measured, strict=True)
        spread = tuple((time.p20, time.p80) for time in times)
        series.append(Series("measured, with p20..p80", places, tuple(t.median for t in times), spread=spread))
    if predicted and ladder.on_gpu:
        places, values = zip(*predicted, strict=True)
        series.append(Series("predicted", places, values))
    if ladder.rival and ladder.rival_time:
        ends = (-0.5, len(rungs) - 0.5)
        series.append(Series(ladder.rival, ends, (ladder.rival_time.median,) * 2, kind="line"))
    sizes = size_words(ladder.sizes)
    title = f"{ladder.kernel}, schedule {ladder.schedule}, {sizes}: what each step brings on {ladder.device}."
    title += "" if ladder.on_gpu else f" Measured {CPU_NOTE}."
    names = tuple(rung.step for rung in rungs)
    return Chart(title, Axis("", names=names), Axis("ms", log=True), tuple(series), sideways=True)


def _bars(falls: list[tuple[int, float]]) -> Iterator[Series]:
    """From the time before each step to that after it: those that make it shorter, and those that make it longer."""
    steps = [(place, old, new) for (_, old), (place, new) in pairwise(falls)]
    for name, chosen in (
        ("faster", [step for step in steps if step[2] <= step[1]]),
        ("slower", [step for step in steps if step[2] > step[1]]),
    ):
        if chosen:
            places, olds, news = zip(*chosen, strict=True)
            labels = tuple(f"x {old / new:.2f}" for _, old, new in chosen)
            yield Series(name, places, news, kind="bars", base=olds, labels=labels)


def ladder_table(ladder: MeasuredLadder) -> Table:
    """A row for each step."""
    heads = ("step", "predicted ms", "ms", "p20..p80", "of the prediction", "")
    rows = [_cells(rung, ladder.on_gpu) for rung in ladder.rungs]
    if ladder.rival:
        rows.append((ladder.rival, "", *cells_of_time(ladder.rival_time, None)[:2], "", ""))
    return Table("", heads, rows, () if ladder.on_gpu else (CPU_NOTE,))


def _cells(rung: MeasuredRung, on_gpu: bool) -> tuple[str, ...]:
    predicted = f"{rung.predicted:.4g}" if rung.predicted else ""
    share = f"{rung.time.median / rung.predicted:.2f}" if on_gpu and rung.time and rung.predicted else ""
    return (rung.step, predicted, *cells_of_time(rung.time, None)[:2], share, rung.said)
