"""The command cache, and that the other commands do not believe what is stored."""

import json

import pytest

import tilegen
from tilegen import schedule
from tilegen.backends.system.store import store
from tilegen.cli import run


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEGEN_CACHE_BYTES", "2000000")
    return tmp_path / "cache"


def test_it_says_where_and_how_much_and_clears(folder, cli):
    tilegen.load("gemm").schedule("naive")
    lines = cli(["cache", "info"]).out.splitlines()
    assert lines[0] == str(folder)
    assert lines[1] == f"1 entries, {store().contents().bytes} bytes of at most 2.0 MB"
    found = json.loads(cli(["cache", "info", "--json", "-"]).out)
    assert found.items() >= {"folder": str(folder), "bound": 2000000, "not_used": None, "entries": 1}.items()
    assert found["bytes"] == store().contents().bytes
    assert cli(["cache", "clear"]).out.startswith("1 entries, ")
    assert store().contents().entries == 0


def test_it_says_why_it_is_not_used(monkeypatch, cli):
    monkeypatch.setenv("TILEGEN_CACHE_BYTES", "0")
    assert "nothing is stored or read: TILEGEN_CACHE_BYTES is 0" in cli(["cache", "info"]).out
    monkeypatch.setenv("TILEGEN_CACHE_BYTES", "much")
    assert "a number of bytes is wanted" in cli(["cache", "info"], 2).err


@pytest.mark.parametrize("command", ["show", "emit", "prove"])
def test_commands_judge_anew_and_keep_nothing(command, monkeypatch, capsys):
    judged = []
    real = schedule.judge_tree
    tilegen.load("gemm").schedule("naive")
    monkeypatch.setattr(schedule, "judge_tree", lambda tree: judged.append(tree) or real(tree))
    tilegen.load("gemm").schedule("naive")
    assert not judged
    entries = store().contents().entries
    assert run([command, "gemm", "--schedule", "naive"]) == 0
    assert judged
    assert store().contents().entries == entries
