"""The record of a run is whole, wherever it was cut, and is gone on with."""

import json
import os
from pathlib import Path

import pytest

from tilegen.errors import DeviceError, UsageError
from tilegen.tune.journal import Journal

HEAD = "tilegen.tune/1"
LINES = [{"schema": HEAD, "kernel": "gemm"}, {"record": "candidate", "n": 1}, {"record": "candidate", "n": "\n2"}]


def written(path: Path) -> bytes:
    journal = Journal(path, HEAD)
    for line in LINES:
        journal.add(line)
    journal.close()
    return path.read_bytes()


def test_cut_anywhere_it_has_all_whole_lines_and_takes_more(tmp_path) -> None:
    path = tmp_path / "run.jsonl"
    data = written(path)
    ends = [n for n in range(len(data) + 1) if data[:n].endswith(b"}") or data[n - 1 : n] == b"\n"]
    for cut in range(len(f'{{"schema": "{HEAD}", '), len(data) + 1):
        path.write_bytes(data[:cut])
        journal = Journal(path, HEAD)
        whole = data[:cut].count(b"\n") + data[:cut].endswith(b"}")
        assert journal.lines == LINES[:whole]
        assert bool(journal.torn) == (cut not in ends)
        assert path.read_bytes() == data[:cut], "opened, and not written to"
        journal.add({"more": True})
        journal.add({"again": True})
        journal.close()
        found = [json.loads(line) for line in path.read_text().splitlines()]
        assert found == [*LINES[:whole], {"more": True}, {"again": True}]


def test_opened_and_closed_a_file_is_as_it_was(tmp_path) -> None:
    path = tmp_path / "run.jsonl"
    for data in (written(path)[:-9], written(path)[:-1], b""):
        path.write_bytes(data)
        Journal(path, HEAD).close()
        assert path.read_bytes() == data


def test_a_damaged_line_is_named_and_costs_no_other(tmp_path) -> None:
    path = tmp_path / "run.jsonl"
    data = written(path).splitlines(keepends=True)
    path.write_bytes(data[0] + b'{"record": "cand\x00\xff\n' + data[2])
    journal = Journal(path, HEAD)
    assert journal.damaged == [2]
    assert journal.lines == [LINES[0], LINES[2]]
    journal.close()


COMPARED = {"schema": "tilegen.compare/1", "rows": [{"schema": "tilegen.record/1", "name": "a"}]}


@pytest.mark.parametrize(
    "text",
    [
        "my text, without an end of its line",
        "{",
        '{"mine": 1}',
        json.dumps({"mine": [1, 2]}, indent=2),
        json.dumps(COMPARED, indent=2) + "\n",
        json.dumps(COMPARED) + "\n",
        json.dumps([{"schema": HEAD}]) + "\n",
        '"tilegen.tune/1"\n' + json.dumps(LINES[0]) + "\n",
        "\n",
        "{" * 100_000 + "\n",
        json.dumps(LINES[0]).replace("gemm", "\\u00") + "\n" + json.dumps(LINES[1]),
    ],
)
def test_what_is_no_record_is_not_touched(text, tmp_path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="no record"):
        Journal(path, HEAD)
    assert path.read_text() == text


def test_a_line_that_no_record_has_is_damaged(tmp_path) -> None:
    path = tmp_path / "run.jsonl"
    record = {"schema": "tilegen.record/1", "notes": 1}
    path.write_text("".join(json.dumps(line) + "\n" for line in (LINES[0], record, {"n": float("nan")})))
    journal = Journal(path, HEAD)
    assert (journal.lines, journal.damaged) == (LINES[:1], [2, 3])
    journal.close()


def test_two_runs_do_not_write_to_one_record(tmp_path) -> None:
    first = Journal(tmp_path / "run.jsonl", HEAD)
    with pytest.raises(UsageError, match="another run writes"):
        Journal(tmp_path / "run.jsonl", HEAD)
    first.close()


def test_one_without_a_line_leaves_no_file(tmp_path) -> None:
    Journal(tmp_path / "run.jsonl", HEAD).close()
    assert not list(tmp_path.iterdir())


def test_a_full_disk_costs_the_line_alone(tmp_path, monkeypatch) -> None:
    path = tmp_path / "run.jsonl"
    data = written(path)
    journal = Journal(path, HEAD)
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(DeviceError, match="No space left") as caught:
        journal.add({"record": "candidate", "n": 3})
    assert any("--resume" in note for note in caught.value.notes)
    assert path.read_bytes() == data


def test_what_is_no_file_is_refused() -> None:
    with pytest.raises(UsageError, match="it is no file"):
        Journal("/dev/null", HEAD)
