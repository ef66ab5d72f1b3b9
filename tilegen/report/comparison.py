"""Records of comparisons and tuning runs as a table and as charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from tilegen.ir.printing.shown import Table, size_words
from tilegen.ir.steps import Setting
from tilegen.lab.measure.replay import time_of
from tilegen.lab.measure.timing import CPU_NOTE, cells_of_time, summarise
from tilegen.lab.records.records import Device, RunRecord
from tilegen.report.charts import Axis, Chart, HeatMap, Picture, Series
from tilegen.report.measured import place_of_predictions

_FEW = 40  # rows that have a name each in a chart


def record_table(records: Sequence[RunRecord]) -> Table:
    """A row for each record, with a column for each size and parameter that is not the same in all of them.

    Columns that would be empty are left out.
    """
    sizes, parameters = _varied(records, _sizes), _varied(records, _parameters)
    unit = next((record.unit for record in records if record.unit), None) or "rate"
    figures = ("predicted ms", "ms", "p20..p80", unit, "registers", "shared B", "spills B", "")
    heads = ("name", *sizes, *parameters, "outcome", "proof", *figures)
    rows = [
        (
            record.name,
            *(_number_text(record.sizes.get(name)) for name in sizes),
            *(_number_text(record.parameters.get(name)) for name in parameters),
            record.outcome,
            record.proof or "",
            f"{predicted:.4g}" if (predicted := _predicted(record)) else "",
            *cells_of_time(time_of(record), record.rate),
            *map(_number_text, (record.registers, record.shared, record.spills)),
            "; ".join(_remarks(record)),
        )
        for record in records
    ]
    filled = [n for n in range(len(heads)) if any(row[n] for row in rows)]
    notes = [CPU_NOTE] if any(record.device and not record.device.on_gpu for record in records) else []
    return Table("", tuple(heads[n] for n in filled), [tuple(row[n] for n in filled) for row in rows], tuple(notes))


def _predicted(record: RunRecord) -> float | None:
    """Milliseconds that a tuning run has predicted."""
    value = record.notes.get("predicted")
    return float(value) if isinstance(value, int | float) else None


def _remarks(record: RunRecord) -> Iterator[str]:
    yield from record.doubts
    if record.notes.get("together"):
        yield "timed in turns with others, at the end"
    if record.error:
        yield record.error


def _number_text(value: Setting | None) -> str:
    return "" if value is None else str(value)


# -- charts


def record_pictures(records: Sequence[RunRecord]) -> Iterator[Picture]:
    """A sweep where sizes vary, a map of each pair of parameters that vary, else the rows side by side.

    They are of measured times; of predicted ones, and say so, where there are no two measured ones.
    """
    timed = [record for record in records if record.samples]
    if len(timed) < 2:
        timed = list(filter(None, map(_as_predicted, records)))
    if len(timed) < 2:
        return
    if _varied(timed, _sizes):
        yield from sweeps(timed)
        return
    if len(timed) <= _FEW:
        yield _side_by_side(timed)
    else:
        yield _in_order(timed)
    for name in dict.fromkeys(record.schedule for record in timed if record.schedule):
        yield from heat_maps([record for record in timed if record.schedule == name])


def _as_predicted(record: RunRecord) -> RunRecord | None:
    """The record with its predicted time as the one that it has, on the machine that it was predicted for."""
    predicted, machine = _predicted(record), record.notes.get("machine")
    if predicted is None or not isinstance(machine, str):
        return None
    device = Device(*place_of_predictions(machine))
    return replace(record, samples=(predicted,), rate=None, device=device, notes={})


def sweeps(records: Sequence[RunRecord]) -> Iterator[Chart]:
    """The rate, or the time, of each row over the size that varies, or over all that do together."""
    varied = _varied(records, _sizes)
    if all(len({record.sizes.get(name) for name in varied}) == 1 for record in records):
        yield _sweep(records, varied[0], " = ".join(varied))
    else:
        yield _sweep(records, None, "sizes")


def _sweep(records: Sequence[RunRecord], size: str | None, label: str) -> Chart:
    """Each row over a size, or over all sizes in their order where there is no single one."""
    value, unit = _value_of(records)
    orders = list(dict.fromkeys(tuple(record.sizes.items()) for record in records))
    places = {sizes: float(n if size is None else dict(sizes)[size]) for n, sizes in enumerate(orders)}
    series = []
    for name in dict.fromkeys(record.name for record in records):
        own = sorted(((places[tuple(r.sizes.items())], r) for r in records if r.name == name), key=lambda each: each[0])
        series.append(
            Series(
                name,
                tuple(place for place, _ in own),
                tuple(value(record) for _, record in own),
                kind="line",
                spread=tuple(_spread(record, value) for _, record in own),
                labels=tuple(size_words(record.sizes) for _, record in own),
            )
        )
    names = tuple(size_words(dict(sizes)) for sizes in orders) if size is None else ()
    return Chart(
        _title(records, "over the sizes"), Axis(label, log=size is not None, names=names), Axis(unit), tuple(series)
    )


def _side_by_side(records: Sequence[RunRecord]) -> Chart:
    value, unit = _value_of(records)
    places = tuple(map(float, range(len(records))))
    values = tuple(map(value, records))
    series = [
        Series("median", places, values, kind="bars", base=(0.0,) * len(records)),
        Series("p20..p80", places, values, spread=tuple(_spread(record, value) for record in records)),
    ]
    names = tuple(record.name for record in records)
    return Chart(_title(records, "side by side"), Axis("", names=names), Axis(unit), tuple(series), sideways=True)


def _in_order(records: Sequence[RunRecord]) -> Chart:
    """Each candidate in the order in which they were timed, and the best so far."""
    times = [summarise(record.samples).median for record in records]
    best = [min(times[: n + 1]) for n in range(len(times))]
    places = tuple(float(n) for n in range(1, len(times) + 1))
    labels = tuple(f"{r.name} {size_words(r.parameters)}" for r in records)
    series = [
        Series("candidates", places, tuple(times), labels=labels),
        Series("best so far", places, tuple(best), kind="line"),
    ]
    if predicted := [(n, value) for n, record in zip(places, records, strict=True) if (value := _predicted(record))]:
        series.append(Series("predicted", tuple(n for n, _ in predicted), tuple(value for _, value in predicted)))
    title = _title(records, "in the order of their timing")
    return Chart(title, Axis("candidate"), Axis("ms", log=True), tuple(series))


def heat_maps(records: Sequence[RunRecord]) -> Iterator[HeatMap]:
    """The best time of each pair of values, for each pair of parameters that vary, of records of one schedule."""
    for down, along in combinations(_varied(records, _parameters), 2):
        yield _heat_map(records, down, along)


def _heat_map(records: Sequence[RunRecord], down: str, along: str) -> HeatMap:
    value, unit = _value_of(records)
    best = max if records[0].rate is not None else min
    found: dict[tuple[Setting, Setting], list[float]] = {}
    for record in records:
        found.setdefault((record.parameters[down], record.parameters[along]), []).append(value(record))
    rows, columns = (
        sorted({key[n] for key in found}, key=str if any(isinstance(key[n], str) for key in found) else int)
        for n in (0, 1)
    )
    cells = tuple(tuple(best(found[r, c]) if (r, c) in found else None for c in columns) for r in rows)
    return HeatMap(
        _title(records, f"the best of each {down} and {along}"),
        Axis(along, names=tuple(map(str, columns))),
        Axis(down, names=tuple(map(str, rows))),
        unit,
        cells,
    )


# -- what records have in common


def _sizes(record: RunRecord) -> Mapping[str, Setting]:
    return record.sizes


def _parameters(record: RunRecord) -> Mapping[str, Setting]:
    return record.parameters


def _varied(records: Sequence[RunRecord], of: Callable[[RunRecord], Mapping[str, Setting]]) -> list[str]:
    """The names that have several values among the records that have them."""
    names = dict.fromkeys(name for record in records for name in of(record))
    return [name for name in names if len({of(record)[name] for record in records if name in of(record)}) > 1]


def _value_of(records: Sequence[RunRecord]) -> tuple[Callable[[RunRecord], float], str]:
    """What is drawn of a record, and its unit: the rate where all have one, else the time."""
    if all(record.rate is not None for record in records):
        return lambda record: record.rate or 0.0, records[0].unit or ""
    return lambda record: summarise(record.samples).median, "ms"


def _spread(record: RunRecord, value: Callable[[RunRecord], float]) -> tuple[float, float]:
    """The spread of the samples, of a rate the other way round."""
    time = summarise(record.samples)
    middle = value(record)
    if middle == time.median:
        return time.p20, time.p80
    return middle * time.median / time.p80, middle * time.median / time.p20


def _title(records: Sequence[RunRecord], what: str) -> str:
    first = records[0]
    alike = {n: v for n, v in first.sizes.items() if all(r.sizes.get(n) == v for r in records)}
    devices = ", ".join(dict.fromkeys(record.device.name for record in records if record.device))
    shown = " ".join(part for part in (first.kernel, size_words(alike), f"on {devices}" if devices else "") if part)
    return f"{shown}: {what}"
