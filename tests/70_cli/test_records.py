"""Every --json record says which tilegen wrote it, for which command, and with which parameters of which schedule."""

import json
import shlex
from datetime import UTC, datetime, timedelta

import pytest

import tilegen
from tilegen import __version__
from tilegen.cli import run
from tilegen.lab.records.schemas import find_complaint

SMALL = "--device interpreter --size M=4 N=4 K=4"
COMMANDS = [
    "show gemm:tiled",
    "emit gemm:tiled",
    "prove gemm:tiled",
    "explain gemm:tiled --no-compile",
    f"check gemm:tiled {SMALL}",
    f"compare gemm:tiled {SMALL}",
    f"ladder gemm:tiled {SMALL}",
    pytest.param("asm gemm:tiled --ptx", marks=pytest.mark.nvrtc),
]


@pytest.mark.parametrize("words", COMMANDS)
def test_a_record_says_where_it_comes_from(words, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    words = f"{words} --set TS=16 --json 'a file.json'"
    assert run(shlex.split(words)) == 0
    record = json.loads((tmp_path / "a file.json").read_text())
    record = record[0] if isinstance(record, list) else record
    assert find_complaint("document", record) is None
    assert record["schema"] == f"tilegen.{words.split()[0]}/1"
    assert (record["tilegen"], record["command"]) == (__version__, f"tilegen {words}")
    assert datetime.now(UTC) - datetime.fromisoformat(record["date"]) < timedelta(minutes=1)
    (of,) = record.get("rows", [record])
    if words.startswith("check"):
        assert of["parameters"] == {"tiled": {"TS": 16}}
        of = {**of, "written": of["written"]["tiled"]}
    else:
        assert (of["schedule"], of["parameters"]) == ("tiled", {"TS": 16})
    parameters = {"TS": 16} if "rows" in record else {}  # elsewhere steps have their numbers
    again = tilegen.load(of["text" if "rows" in record else "written"]).schedule("tiled", **parameters)
    assert again.tree == tilegen.load("gemm").schedule("tiled", TS=16).tree


@pytest.mark.parametrize(
    "words", [f"check gemm:tiled {SMALL}", "ladder vector_add:plain --device interpreter --size N=8"]
)
def test_what_ran_says_on_what(words, cli) -> None:
    record = json.loads(cli(f"{words} --json -").out)
    assert find_complaint("document", record) is None
    assert (record["environment"]["name"], record["environment"]["on_gpu"]) == ("the interpreter", False)
    assert "python" in record["environment"]["facts"]
    assert record["seed"] == 0


@pytest.mark.pocl
def test_a_ladder_has_its_samples(cli) -> None:
    record = json.loads(cli("ladder vector_add:plain --device cpu --size N=4096 --json -").out)
    timed = [rung for rung in record["rungs"] if rung["time"]]
    assert timed
    assert all(len(rung["samples"]) == rung["time"]["samples"] for rung in timed)
    assert record["conditions"] is None


def test_each_of_several_records_has_its_own_parameters(cli) -> None:
    one, two = json.loads(cli(["show", "gemm:naive,wider", "--set", "TS=16", "--json", "-"]).out)
    assert (one["parameters"], two["parameters"]) == ({"TS": 16}, {"TS": 16, "W": 4})
    assert one["command"] == two["command"] == "tilegen show gemm:naive,wider --set TS=16 --json -"


def test_a_list_says_so_too(cli) -> None:
    assert json.loads(cli(["list", "gemm", "--json", "-"]).out)[0]["tilegen"] == __version__
