"""The record of a run is whole, wherever it was cut, and is gone on with."""

import json
import os
from pathlib import Path

import pytest

from tilegen.errors import DeviceError, UsageError
from tilegen.tune.journal import Journal

LINES = [{"record": "tuning", "kernel": "gemm"}, {"record": "candidate", "n": 1}, {"record": "candidate", "n": "\n2"}]


def written(path: Path) -> bytes:
    journal = Journal(path)
    for line in LINES:
        journal.add(line)
    journal.close()
    return path.read_bytes()


def test_cut_anywhere_it_has_all_whole_lines_and_takes_more(tmp_path) -> None:
    path = tmp_path / "run.jsonl"
    data = written(path)
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        journal = Journal(path)
        whole = data[:cut].count(b"\n")
        assert journal.lines == LINES[:whole]
        assert bool(journal.torn) == (data[:cut] != b"".join(data.splitlines(keepends=True)[:whole]))
        journal.add({"more": True})
        journal.add({"again": True})
        journal.close()
        found = [json.loads(line) for line in path.read_text().splitlines()]
        assert found == [*LINES[:whole], {"more": True}, {"again": True}]


def test_a_damaged_line_is_named_and_costs_no_other(tmp_path) -> None:
    path = tmp_path / "run.jsonl"
    data = written(path).splitlines(keepends=True)
    path.write_bytes(data[0] + b'{"record": "cand\x00\xff\n' + data[2])
    journal = Journal(path)
    assert journal.damaged == [2]
    assert journal.lines == [LINES[0], LINES[2]]
    journal.close()


def test_what_is_no_record_is_not_touched(tmp_path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("my text, without an end of its line")
    with pytest.raises(UsageError, match="no record"):
        Journal(path)
    assert path.read_text() == "my text, without an end of its line"


def test_two_runs_do_not_write_to_one_record(tmp_path) -> None:
    first = Journal(tmp_path / "run.jsonl")
    with pytest.raises(UsageError, match="another run writes"):
        Journal(tmp_path / "run.jsonl")
    first.close()


def test_one_without_a_line_leaves_no_file(tmp_path) -> None:
    Journal(tmp_path / "run.jsonl").close()
    assert not list(tmp_path.iterdir())


def test_a_full_disk_costs_the_line_alone(tmp_path, monkeypatch) -> None:
    path = tmp_path / "run.jsonl"
    data = written(path)
    journal = Journal(path)
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(DeviceError, match="No space left") as caught:
        journal.add({"record": "candidate", "n": 3})
    assert any("--resume" in note for note in caught.value.notes)
    assert path.read_bytes() == data


def test_what_is_no_file_is_refused() -> None:
    with pytest.raises(UsageError, match="it is no file"):
        Journal("/dev/null")
