"""A file without schedules is tuned by what suggest writes."""

import json

from tilegen.cli import run


def test_a_kernel_without_a_schedule_is_tuned(tmp_path, capsys):
    (tmp_path / "own.tg").write_text("kernel halves(X: f32[M]) -> Y: f32[M]:\n    Y[i] = 0.5 * X[i]\n")
    record = tmp_path / "record.jsonl"
    words = ["tune", f"{tmp_path}/own.tg", "--device", "cpu", "--size", "M=4096", "--budget", "2h"]
    assert run([*words, "--set", "T=64,128", "--resume", str(record)]) == 0
    assert "what tilegen suggest writes" in capsys.readouterr().err
    assert any(json.loads(line).get("schedule") == "suggested" for line in record.read_text().splitlines())
