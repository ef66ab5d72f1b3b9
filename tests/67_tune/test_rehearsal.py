"""Searches on a recording: what each would have found within the same time."""

import json
from pathlib import Path

import pytest

from tilegen.cli import run
from tilegen.errors import UsageError
from tilegen.lab.records import Device, RunRecord, line_of
from tilegen.tune.rehearsal import SHARES, compare_searches, cost, read_recording, rehearse

TEXT = """\
kernel scale(A: f32[N]) -> B: f32[N]:
    B[i] = 2 * A[i]

schedule s for scale(T=1 in {1, 2, 4, 8, 16, 32, 64, 128}, U=1 in {1, 2, 3, 4, 5, 6, 7, 8}, V=1 in {0, 1}):
    tile(i, T) -> b, t
"""
SIZES = {"N": 64}


@pytest.fixture
def file(tmp_path, monkeypatch) -> str:
    """A valley with its floor at T=16, U=5, V=1; a slow candidate takes long, and U=8 is illegal."""
    monkeypatch.chdir(tmp_path)
    head = {"schema": "tilegen.tune/1", "kernel": "scale", "texts": {"s": TEXT}, "given": {}, "constants": {}}
    lines = [json.dumps({**head, "sizes": SIZES, "device": "a device", "on_gpu": False})]
    for t in range(8):
        for u in range(1, 9):
            for v in (0, 1):
                took = 1 + abs(t - 4) + 0.5 * abs(u - 5) + (1 - v)
                told = {"outcome": "illegal", "seconds": {"judge": 0.1}}
                if u < 8:
                    told = {"outcome": "measured", "samples": (took,), "seconds": {"time": took, "waiting": 50.0}}
                same = {"text": TEXT, "schedule": "s", "device": Device("a device", False)}
                made = RunRecord(
                    "s", "scale", sizes=SIZES, parameters={"T": 2**t, "U": u, "V": v}, notes={}, **same, **told
                )
                lines.append(line_of(made))
    Path("run.jsonl").write_text("\n".join(lines) + '\n{"torn')
    return "run.jsonl"


def test_a_recording_knows_what_it_has(file) -> None:
    recording = read_recording(file)
    assert len(recording.space.outcomes) == recording.whole == 128
    assert recording.least == 1.0
    assert recording.seconds == pytest.approx(sum(map(cost, recording.space.outcomes.values())))
    assert cost(next(iter(recording.space.outcomes.values()))) == 1 + 4 + 2 + 1  # it does not count who waited
    assert Path(file).read_text().endswith('{"torn')  # and is not written to


@pytest.mark.parametrize("kind", ["random", "tpe", "evolution", "quasi-random", "grid"])
def test_a_course_gets_better_and_keeps_its_budget(kind: str, file) -> None:
    if kind not in ("random", "grid"):
        pytest.importorskip("optuna")
    recording = read_recording(file)
    course = rehearse(recording, kind, seed=3)
    spent, times = zip(*course.steps, strict=True)
    assert times[0] == 1 + 4 + 0.5 * 4  # as written
    assert list(times) == sorted(times, reverse=True)
    assert list(spent) == sorted(spent)
    longest = max(map(cost, recording.space.outcomes.values()))
    assert spent[-1] <= max(SHARES) * recording.seconds + longest
    assert course.best_within(0.0) is None
    assert course.best_within(1e9) == min(times)
    assert course == rehearse(recording, kind, seed=3)


def test_searches_are_compared_at_equal_budgets(file) -> None:
    pytest.importorskip("optuna")
    tpe, random = compare_searches(read_recording(file), ["tpe"], seeds=4)
    assert (tpe.search, random.search) == ("tpe", "random")
    assert random.beats == (1.0,) * len(SHARES)
    for each in (tpe, random):
        known = [ratio for ratio in each.ratios if ratio is not None]
        assert all(ratio >= 1 for ratio in known)
        assert known == sorted(known, reverse=True)


def test_the_command_has_a_row_for_each_search(file, capsys) -> None:
    assert run(["searches", file, "--search", "random", "--seeds", "3", "--json", "result.json"]) == 0
    assert "128 of 128 candidates are recorded" in capsys.readouterr().out
    (row,) = json.loads(Path("result.json").read_text())["searches"]
    assert row["search"] == "random"
    assert len(row["ratios"]) == len(SHARES)


def test_what_is_no_recording_is_told(file) -> None:
    Path("other.jsonl").write_text('{"schema": "tilegen.record/1"}\n')
    for name, said in (("none.jsonl", "cannot read"), ("other.jsonl", "no record of a run")):
        with pytest.raises(UsageError, match=said):
            read_recording(name)
    Path("empty.jsonl").write_text(Path(file).read_text().split("\n")[0] + "\n")
    with pytest.raises(UsageError, match="no time of a candidate"):
        read_recording("empty.jsonl")
