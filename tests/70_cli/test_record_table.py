"""The command records: a file of records as a table, and in the format that tuners exchange."""

import json
import re
from dataclasses import replace
from typing import get_args

import pytest

from tilegen.lab.records.records import Conditions, Device, Outcome, Readings, RunRecord, line_of
from tilegen.lab.records.t4 import t4_metadata, t4_results
from tilegen.version import __version__

DATE = "2026-01-02T03:04:05+00:00"


def record(name: str, outcome: str, *samples: float, text: str | None = "kernel ...", **changes) -> RunRecord:
    return RunRecord(name, "gemm", outcome, {"M": 4}, text=text, samples=samples, date=DATE, **changes)


FAST = record(
    "tiled",
    "measured",
    1.0,
    3.0,
    2.0,
    schedule="tiled",
    parameters={"TS": 16},
    seconds={"judge": 0.5, "predict": 0.25, "compile": 2.0, "check": 1.0},
    registers=40,
    rate=7.5,
    unit="TFLOP/s",
    conditions=Conditions(3, power_w=Readings(400.0, 500.0, 600.0)),
    device=Device("H200", True, "sm_90", {"platform": "Linux", "cupy-cuda13x": "14.2", "driver": "580"}),
)
SLOW = record("[bold]slow", "measured", 9.0, schedule="slow")
WRONG = record("wrong", "wrong", schedule="wrong", error="C is wrong", exit_code=4)
LIBRARY = record("cuBLAS", "measured", 0.5, text=None)


@pytest.fixture
def file(tmp_path, monkeypatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.json").write_text("".join(f"{line_of(each)}\n" for each in (FAST, WRONG, SLOW, LIBRARY)))
    return "run.json"


@pytest.mark.plugin("report")
def test_a_file_of_records_is_a_table(file, cli) -> None:
    out = cli(["records", file]).out
    assert f"gemm  M=4  on H200, {DATE}" in out
    assert re.findall(r"^│ (\S+)", out, re.MULTILINE) == ["tiled", "wrong", "[bold]slow", "cuBLAS"]
    assert "3 measured, 1 wrong" in out
    assert "wrong: C is wrong" in out
    assert re.findall(r"^│ (\S+)", cli(["records", file, "--best", "2"]).out, re.MULTILINE) == ["cuBLAS", "tiled"]


@pytest.mark.plugin("report")
def test_remarks_name_the_sizes_where_these_differ(tmp_path, cli) -> None:
    doubted = [replace(FAST, sizes={"M": n}, doubts=("known to within 26 %",)) for n in (4, 8)]
    (tmp_path / "several.json").write_text("".join(f"{line_of(each)}\n" for each in doubted))
    out = cli(["records", str(tmp_path / "several.json")]).out
    assert re.search(r"^tiled at M=4: .*known to within 26 %", out, re.MULTILINE)
    assert re.search(r"^tiled at M=8: .*known to within 26 %", out, re.MULTILINE)


def test_what_has_no_record_says_so(file, tmp_path, cli) -> None:
    (tmp_path / "empty.json").write_text("")
    assert "empty.json has no record" in cli(["records", "empty.json"], 2).err
    assert "standard output takes one of" in cli("records run.json --t4 - --t4-metadata -", 2).err
    assert "cannot write none/f.json" in cli("records run.json --t4 none/f.json", 2).err


# -- T4


def test_records_are_written_as_kernel_tuner_reads_them(file, tmp_path, cli) -> None:
    assert cli("records run.json --t4 t4.json --t4-metadata meta.json").out == ""
    found = json.loads((tmp_path / "t4.json").read_text())
    assert found["schema_version"] == "1.0.0"
    fast, wrong, slow = found["results"]  # a library's call has no configuration
    assert fast == {
        "timestamp": DATE,
        "configuration": {"schedule": "tiled", "M": 4, "TS": 16},
        "objectives": ["time"],
        "times": {
            "compilation_time": 2000.0,
            "framework": 750.0,
            "search_algorithm": 0.0,
            "validation": 1000.0,
            "runtimes": [1.0, 3.0, 2.0],
        },
        "invalidity": "correct",
        "correctness": 1,
        "measurements": [
            {"name": "time", "value": 2.0, "unit": "ms"},
            {"name": "rate", "value": 7.5, "unit": "TFLOP/s"},
            {"name": "registers", "value": 40, "unit": ""},
            {"name": "power", "value": 500.0, "unit": "W"},
        ],
    }
    assert (wrong["invalidity"], wrong["correctness"], wrong["measurements"]) == ("correctness", 0, [])
    assert slow["configuration"] == {"schedule": "slow", "M": 4}
    metadata = json.loads((tmp_path / "meta.json").read_text())["metadata"]
    assert metadata["hardware"]["operating_system"] == "Linux"
    assert metadata["environment"]["device_query"]["driver"] == "580"
    assert metadata["environment"]["requirements"] == [f"tilegen=={__version__}", "cupy-cuda13x==14.2"]


@pytest.mark.parametrize("outcome", get_args(Outcome))
def test_each_outcome_has_a_word_of_the_format(outcome) -> None:
    found = t4_results([record("one", outcome)])["results"]
    if outcome == "unmeasured":  # it was not tried to the end
        assert found == []
        return
    (one,) = found
    assert one["invalidity"] in ("timeout", "compile", "runtime", "correctness", "constraints", "correct")
    assert one["correctness"] == (one["invalidity"] == "correct")


def test_a_record_without_a_device_has_metadata() -> None:
    assert t4_metadata([SLOW])["metadata"]["hardware"] == {"hardware_description": [], "operating_system": ""}
