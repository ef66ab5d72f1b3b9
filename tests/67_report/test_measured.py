"""What commands have measured, on the page: ladders as waterfalls, records as tables and charts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.support.records_of import H200, ladder, record, rung
from tests.support.stock import schedule_stock
from tilegen.cli import run
from tilegen.errors import UsageError
from tilegen.lab.records.records import line_of
from tilegen.report import read_measured, report, study_of
from tilegen.report.charts import Chart, HeatMap
from tilegen.report.comparison import record_pictures, record_table
from tilegen.report.drawing import svg
from tilegen.report.interactive import figure_of
from tilegen.report.ladder import ladder_table, predicted_ladder, waterfall

RUNGS = (
    rung(None, 100.0, untimed="not timed: 0.1 s or more"),
    rung("bind(i, block.x)", 10.0, 20.0),
    rung("tile(k, 8) -> ko, ki", 10.0, same=True),
    rung("cache_shared(A, at=ko)", 2.0, 4.0),
    rung("unroll(ki)", 2.0, 5.0),
)


def read(value) -> object:
    return read_measured(json.dumps(value), "run.json")


def series_of(chart: Chart) -> dict[str, tuple]:
    return {series.name: (series.base, series.y) for series in chart.series}


# -- ladders


def test_a_waterfall_falls_from_step_to_step_and_shows_spreads() -> None:
    found = read(
        ladder(*RUNGS, rival="cuBLAS", rival_time={"median": 2.5, "p20": 2.4, "p80": 2.6, "samples": 9})
    ).ladder
    chart = waterfall(found)
    assert chart.x.names == ("bind(i, block.x)", "cache_shared(A, at=ko)", "unroll(ki)")
    told = series_of(chart)
    assert told["faster"] == ((20.0,), (4.0,))
    assert told["slower"] == ((4.0,), (5.0,))
    assert told["predicted"] == ((), (10.0, 2.0, 2.0))
    assert told["cuBLAS"] == ((), (2.5, 2.5))
    measured = next(series for series in chart.series if series.name.startswith("measured"))
    assert measured.spread[1] == pytest.approx((3.6, 4.4))


def test_a_table_has_what_was_measured_as_a_multiple_of_what_was_predicted() -> None:
    rows = ladder_table(read(ladder(*RUNGS)).ladder).rows
    assert rows[0] == ("as written", "100", "", "", "", "not timed: 0.1 s or more")
    assert rows[1] == ("bind(i, block.x)", "10", "20", "18..22", "2.00", "")
    assert rows[2][-1] == "the same program"


def test_times_on_a_cpu_are_not_set_beside_a_prediction_for_a_gpu() -> None:
    found = read(ladder(*RUNGS, on_gpu=False, device="PoCL")).ladder
    assert "predicted" not in series_of(waterfall(found))
    assert "say nothing of a GPU" in waterfall(found).title
    assert ladder_table(found).rows[1][4] == ""


def test_predictions_are_not_called_times_of_what_checked_them(tmp_path) -> None:
    written, picture = tmp_path / "l.json", tmp_path / "l.svg"
    words = ["ladder", "transpose", "--schedule", "padded", "--machine", "t4", "--device", "interpreter"]
    assert run([*words, "--json", str(written), "--plot", str(picture)]) == 0
    found = read(json.loads(written.read_text())).ladder
    assert waterfall(found).title.endswith("what each step brings on one T4, predicted.")
    assert "predicted" in picture.read_text()
    assert "say nothing of a GPU" not in picture.read_text()
    assert not ladder_table(found).notes


def test_a_name_that_is_no_text_is_drawn() -> None:
    found = waterfall(read(ladder(*RUNGS)).ladder)
    assert "transpose" in svg(replace(found, title="transpose \ud800"))


def test_without_times_a_waterfall_is_of_the_prediction() -> None:
    study = study_of(schedule_stock("gemm", "tiled"), {"M": 512, "N": 512, "K": 512}, compiled=False)
    predicted = predicted_ladder(study.explanation)
    chart = waterfall(predicted)
    assert "predicted" in chart.title
    ends = series_of(chart)["faster"][1]
    assert ends[-1] == pytest.approx(min(step.milliseconds for step in study.explanation.steps), rel=0.1)


# -- records


def test_rows_have_the_sizes_and_parameters_that_differ_and_nothing_is_left_out() -> None:
    records = [
        record("tiled TS=16", 3.0, parameters={"TS": 16, "T": 1}, notes={"predicted": 1.5}),
        record("tiled TS=32", 2.0, parameters={"TS": 32, "T": 1}, doubts=("the clock was held down",)),
        record(
            "tiled TS=64", 0, parameters={"TS": 64, "T": 1}, samples=(), rate=None, outcome="limits", error="too many"
        ),
    ]
    table = record_table(records)
    assert table.heads == ("name", "TS", "outcome", "proof", "predicted ms", "ms", "p20..p80", "TFLOP/s", "")
    assert [row[1:3] for row in table.rows] == [("16", "measured"), ("32", "measured"), ("64", "limits")]
    assert [row[4] for row in table.rows] == ["1.5", "", ""]
    assert table.rows[2][5:8] == ("", "", "")
    assert [row[-1] for row in table.rows] == ["", "the clock was held down", "too many"]


def test_sizes_that_grow_together_are_one_axis() -> None:
    records = [record(name, size / 100, size) for size in (512, 1024, 2048) for name in ("tiled", "cuBLAS")]
    (chart,) = record_pictures(records)
    assert chart.x.label == "M = N = K"
    assert {series.name for series in chart.series} == {"tiled", "cuBLAS"}
    assert chart.series[0].x == (512, 1024, 2048)
    low, high = chart.series[0].spread[0]
    assert low < chart.series[0].y[0] < high


def test_one_size_that_varies_is_the_axis_and_others_stand_in_the_title() -> None:
    records = [record("tiled", 1.0, {"M": m, "N": 64, "K": 64}) for m in (64, 128)]
    (chart,) = record_pictures(records)
    assert chart.x.label == "M"
    assert "N=64 K=64" in chart.title


def test_a_pair_of_parameters_is_a_map_of_the_best_and_shows_what_is_missing() -> None:
    values = [(16, 1, 4.0), (16, 2, 2.0), (32, 1, 1.0)]
    records = [record(f"tiled {n}", ms, parameters={"TS": ts, "W": w}) for n, (ts, w, ms) in enumerate(values)]
    records += [record("tiled again", 8.0, parameters={"TS": 16, "W": 1})]
    found = [each for each in record_pictures(records) if isinstance(each, HeatMap)]
    (heat,) = found
    assert heat.y.names == ("16", "32")
    assert heat.rows == ((records[0].rate, records[1].rate), (records[2].rate, None))


def test_many_candidates_are_shown_in_order_with_the_best_so_far() -> None:
    records = [record(f"tiled {n}", 100.0 - n, parameters={"TS": n}, notes={"predicted": n}) for n in range(50)]
    (chart,) = record_pictures(records)
    assert chart.series[2].y == tuple(range(1, 50))  # of the first one nothing was predicted
    best = chart.series[1]
    assert best.name == "best so far"
    assert best.y == pytest.approx([100.0 - n for n in range(50)])


@pytest.mark.parametrize("count", [2, 50])
def test_every_picture_can_be_drawn_in_both_ways(count: int) -> None:
    records = [record(f"tiled $a_{n}$", n + 1.0, parameters={"TS": n % 5, "W": n // 5}) for n in range(count)]
    sweep = [record("tiled", size / 100, size) for size in (512, 1024)]
    mixed = [record("tiled", 1.0, {"M": m, "N": n, "K": 64}) for m, n in ((64, 128), (128, 64))]
    found = [*record_pictures(records), *record_pictures(sweep), *record_pictures(mixed)]
    found += [waterfall(read(ladder(*RUNGS)).ladder)]
    for picture in found:
        drawn = svg(picture)
        assert "</svg>" in drawn
        assert picture.title[:20] in drawn
        json.dumps(figure_of(picture), allow_nan=False)


def test_a_picture_is_the_same_each_time() -> None:
    chart = waterfall(read(ladder(*RUNGS)).ladder)
    assert svg(chart) == svg(chart)
    assert "currentColor" in svg(chart, inline=True)


# -- the page


def test_a_page_shows_ladders_beside_their_schedule_and_records(tmp_path) -> None:
    study = study_of(schedule_stock("gemm", "tiled"), {"M": 512, "N": 512, "K": 512}, compiled=False)
    lines = "".join(line_of(record(name, 2.0)) + "\n" for name in ("tiled", "cuBLAS"))
    measured = [read(ladder(*RUNGS)), read(ladder(*RUNGS, schedule="other")), read_measured(lines, "run.jsonl")]
    page = report([study], measured)
    assert page.count("not timed: 0.1 s or more") == 2
    assert "What each step of other brings" in page
    assert "Records of run.jsonl" in page
    assert len(page.encode()) < 6_000_000


def test_what_is_of_another_kernel_is_refused() -> None:
    study = study_of(schedule_stock("gemm", "tiled"), {"M": 512, "N": 512, "K": 512}, compiled=False)
    with pytest.raises(UsageError, match=r"run.json is of kernel conv, and the page is of 'gemm'"):
        report([study], [read(ladder(*RUNGS, kernel="conv"))])


@pytest.mark.parametrize("text", ['{"rungs": [{}]}', '{"rungs": 3}', "[]", "", '{"rungs": [3]}'])
def test_what_is_neither_a_ladder_nor_records_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"run\.json"):
        read_measured(text, "run.json")


def test_devices_are_named(tmp_path) -> None:
    (chart,) = record_pictures([record("a", 1.0), record("b", 2.0)])
    assert H200.name in chart.title
