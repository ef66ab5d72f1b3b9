"""The command compare where something is in its way: schedules that cannot be taken, and a user who does not wait."""

import json
import signal
import subprocess
import sys
import time

import pytest

from tilegen.cli import run
from tilegen.cli.interrupt import run_interruptibly

SEVERAL = """\
kernel sums(A: f32[M, N]) -> S: f32[M]:
    S[i] = sum[j](A[i, j])

schedule good for sums(T=8):
    tile(i, T) -> b, t
    bind(b, block.x)
    bind(t, thread.x)

schedule racy for sums():
    tile(j, 32) -> b, t
    bind(t, thread.x)

schedule mistaken for sums():
    tile(q, 32) -> b, t

schedule large for sums():
    tile(j, 64) -> o, r
    bind(i, block.x)
    cache_register(S, at=i)
    cache_shared(A, at=o)
    pad(A.shared, 99999)
"""


@pytest.fixture
def several(tmp_path):
    (tmp_path / "several.tg").write_text(SEVERAL)
    return str(tmp_path / "several.tg")


def test_other_schedules_run_where_one_is_refused(several, tmp_path, capsys) -> None:
    words = ["compare", several, "--device", "cpu", "--size", "M=16", "N=70", "--json", str(tmp_path / "f.json")]
    assert run(words) == 3
    rows = {row["name"]: row for row in json.loads((tmp_path / "f.json").read_text())["rows"]}
    assert list(rows) == ["good", "racy", "mistaken", "large"]
    assert {name: row["exit_code"] for name, row in rows.items()} == {"good": 0, "racy": 3, "mistaken": 1, "large": 3}
    assert rows["good"]["trials"]
    assert "witness" in rows["racy"]["error"]
    assert "shared memory" in rows["large"]["error"]
    assert "there is no loop 'q'" in capsys.readouterr().out


def test_check_has_a_line_for_each_schedule_that_fails(several, capsys) -> None:
    assert run(["check", several, "--device", "cpu"]) == 3
    captured = capsys.readouterr()
    assert "good" in captured.out
    assert all(f"{name}: " in captured.err for name in ("racy", "mistaken", "large"))


def test_where_every_schedule_fails_the_first_error_is_shown(several, capsys) -> None:
    assert run(["compare", several, "--device", "cpu", "--schedule", "mistaken,racy"]) == 1
    assert "there is no loop 'q'" in capsys.readouterr().err


@pytest.mark.pocl
def test_ctrl_c_keeps_the_rows_so_far(tmp_path) -> None:
    """However long a kernel runs: the one here takes minutes."""
    words = ["compare", "gemm", "--device", "cpu", "--schedule", "naive,tiled", "--size", "M=1500", "N=1500", "K=1500"]
    out = tmp_path / "out"
    with out.open("w") as file:
        command = [sys.executable, "-m", "tilegen", *words]
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.PIPE, text=True)
        time.sleep(12)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        sent = time.perf_counter()
        _, said = process.communicate(timeout=60)
    assert time.perf_counter() - sent < 5
    assert process.returncode == 130
    assert said.endswith("interrupted: these are the rows so far\n")
    assert "naive" in out.read_text()


def test_run_interruptibly_raises_what_its_work_raises() -> None:
    def work() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_interruptibly(work)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("split", "tile"),
        ("reorder", "order"),
        ("parallel", "bind"),
        ("cache_read", "cache_shared"),
        ("coarsn", "coarsen"),
    ],
)
def test_words_of_other_languages(word, meant, tmp_path, capsys) -> None:
    head = SEVERAL.partition("schedule racy")[0]
    (tmp_path / "mine.tg").write_text(head + f"schedule other for sums:\n    {word}(i, 8) -> a, b\n")
    assert run(["show", str(tmp_path / "mine.tg"), "--schedule", "other"]) == 1
    assert f"there is no step '{word}'" in (said := capsys.readouterr().err)
    assert f"did you mean '{meant}'?" in said


def test_device_gpu_suggests_cuda(capsys) -> None:
    assert run(["check", "gemm", "--device", "gpu"]) == 2
    assert "did you mean 'cuda'?" in capsys.readouterr().err
