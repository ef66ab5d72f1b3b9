"""Where nothing is timed, compare and ladder predict, at sizes of a GPU's, and check all the same."""

import json
import re
import shlex

import pytest

import tilegen
from tilegen.cli import run
from tilegen.errors import UsageError
from tilegen.lab.predict.explain import explain_tree
from tilegen.lab.predict.machine import H200, machine_instead, stock_machine
from tilegen.lab.records.records import read_records

SIZES = {"M": 4096, "K": 4096, "N": 4096}
ON_T4 = "--machine t4 --device interpreter"


def test_what_is_predicted_and_what_is_timed() -> None:
    assert machine_instead(None, "auto", on_gpu=False) is H200
    assert machine_instead(None, "auto", on_gpu=True) is machine_instead(None, "cpu", on_gpu=False) is None
    assert machine_instead("t4", "cuda", on_gpu=True) == machine_instead("t4", "cpu", on_gpu=False)
    assert (machine_instead("t4", "auto", on_gpu=True) or H200).name == "T4"


def test_compare_predicts_for_a_machine(tmp_path, monkeypatch, cli) -> None:
    monkeypatch.chdir(tmp_path)
    out = cli(f"compare gemm:naive,tiled {ON_T4} --json f.json").out
    assert "gemm  M=4096 K=4096 N=4096  for one T4, checked on the interpreter" in out
    assert "predicted: by the roofline of one T4 (by NVIDIA's data sheet" in out
    records = read_records((tmp_path / "f.json").read_text(), "f.json")
    for record in records:
        tree = tilegen.load("gemm").schedule(record.schedule).tree
        (launch,) = explain_tree(tree, SIZES, stock_machine("t4"), compiled=False)
        least, limit = launch.prediction.milliseconds, launch.prediction.limit
        assert record.notes == {"predicted": least, "limit": limit, "machine": "T4"}
        assert (record.outcome, record.samples, record.rate, record.sizes) == ("unmeasured", (), None, SIZES)
        assert record.trials
        assert re.search(rf"{record.name} +│ ok .*│ +{least:.4g} │ {limit} +│ +{2 * 4096**3 / least / 1e9:.4g} │", out)
    naive, tiled = (record.notes["predicted"] for record in records)
    assert f" {naive / tiled:.2f} │" in out


@pytest.mark.plugin("report")
def test_predictions_are_drawn_as_predictions(tmp_path, monkeypatch, capsys, cli) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(shlex.split(f"compare gemm:naive,tiled {ON_T4} --json f.json --plot f.svg")) == 0
    told = "f.svg: gemm M=4096 K=4096 N=4096 on one T4, predicted: side by side"
    assert told in capsys.readouterr().err
    assert told in cli("plot f.json -o f.svg").err


@pytest.mark.plugin("report")
def test_ladder_predicts_what_each_step_brings(tmp_path, monkeypatch, cli) -> None:
    monkeypatch.chdir(tmp_path)
    out = cli(f"ladder gemm:naive {ON_T4} --size M=512 N=512 K=512 --json f.json --plot f.svg").out
    assert "gemm, schedule naive  M=512 K=512 N=512  for one T4, checked on the interpreter" in out
    assert re.search(r"predicted ms  limit +TFLOP/s at most +gain", out)
    assert "say nothing of a GPU" not in out
    found = json.loads((tmp_path / "f.json").read_text())
    times = [sum(launch["prediction"]["milliseconds"] for launch in rung["launches"]) for rung in found["rungs"]]
    gains = [rung["gain"] for rung in found["rungs"]]
    assert gains[1:] == pytest.approx([one / two for one, two in zip(times, times[1:], strict=False)])
    assert all(rung["time"] is None and rung["trials"] for rung in found["rungs"])
    assert f"x {gains[-1]:.2f}" in out


def test_what_a_machine_lacks_has_a_row_that_says_so(cli) -> None:
    out = cli(f"compare hgemm:swizzled --kernel hgemm {ON_T4}", 5).out
    assert "needs sm_80 or later, and T4 is sm_75" in " ".join(out.split())
    assert "predicted: by" not in out  # nothing is


@pytest.mark.parametrize("limit", [float("nan"), -1])
def test_a_limit_is_a_time(limit) -> None:
    with pytest.raises(UsageError, match="it is milliseconds"):
        tilegen.load("gemm").schedule("naive").ladder(device="interpreter", limit=limit)


def test_python_predicts_too() -> None:
    plain = tilegen.load("gemm").schedule("naive")
    found = plain.compare(device="interpreter", machine="a100", M=512, N=512, K=512)
    assert found.table().title == "gemm  M=512 K=512 N=512  for one A100, checked on the interpreter"
    (row,) = found.table().rows
    assert row[7] == f"{found.rows[0].predicted:.4g}"
    ladder = plain.ladder(device="interpreter", machine="a100", M=512, N=512, K=512)
    assert (ladder.timed, ladder.rungs[-1].time, ladder.machine.name) == (False, None, "A100")
    assert "checked on the interpreter" in ladder.table().title
