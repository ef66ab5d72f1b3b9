"""One bad candidate costs itself: it hangs, it faults, it is wrong, its compiler takes all memory, its process dies."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from tests.support import poisoned
from tilegen import api
from tilegen.lab.record_files import read_records
from tilegen.tune.children import ChildLost, Pool
from tilegen.tune.session import Session, Wish
from tilegen.tune.station import Limits

# U is what poisons; it changes nothing of the kernel itself.
TEXT = """\
kernel scale(A: f32[N]) -> B: f32[N]:
    B[i] = 2 * A[i]

schedule s for scale(T=8 in {8, 16, 32, 64}, U=1 in {1, 2, 3, 4, 5, 101, 102, 103, 104, 105})
        where U < 100 or T == 8:
    tile(i, T) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
"""
COMMAND = (str(Path(poisoned.__file__)),)


def session(tmp_path: Path, device: str, **given: tuple[int, ...]) -> Session:
    file, limits = api.load(TEXT), Limits(seconds=3.0 if device == "cpu" else 15.0, memory=8e9)
    wish = Wish(budget=300.0, search="random", seed=4, device=device, limits=limits, command=COMMAND)
    return Session(file.kernel(), file.schedules, tmp_path / "run.jsonl", given=given, sizes={"N": 256}, wish=wish)


def survive(tmp_path: Path, device: str) -> None:
    """A fifth of the candidates is poisoned: the others are timed, and each of these is known for what it is."""
    with session(tmp_path, device) as running:
        running.run()
    records = [r for r in read_records((tmp_path / "run.jsonl").read_text(), "run.jsonl") if not r.notes["together"]]
    bad = {r.parameters["U"]: r for r in records if r.parameters["U"] > 100}
    good = [r for r in records if r.parameters["U"] < 100]
    assert len(good) == 4 * len(bad) == 20
    assert all(r.outcome == "measured" and r.samples for r in good)
    assert bad[poisoned.WRONG].outcome == "wrong"
    assert bad[poisoned.HANGS].outcome == "time"
    assert bad[poisoned.FAULTS].outcome in ("fault", "killed")
    assert bad[poisoned.BOMB].outcome in ("memory", "time", "refused", "killed")
    assert bad[poisoned.CRASHES].outcome == "killed"
    assert "SIGABRT" in (bad[poisoned.CRASHES].error or "")


@pytest.mark.pocl
def test_a_fifth_of_poisoned_candidates_is_survived(tmp_path) -> None:
    survive(tmp_path, "cpu")


@pytest.mark.gpu
def test_a_fifth_of_poisoned_candidates_is_survived_on_a_gpu(tmp_path) -> None:
    survive(tmp_path, "cuda")


# -- limits of one process, with small programs in place of a candidate's

SERVE = """\
import os, sys, time
from multiprocessing.connection import Connection
pipe = Connection(int(sys.argv[1]))
pipe.send("ready")
held = []
while True:
    what = pipe.recv()
    if what == "sleep": time.sleep(60)
    if what == "take": held.append(bytearray(os.urandom(1)) * 10**9); time.sleep(60)
    if what == "end": sys.exit("I have had enough")
    pipe.send(what)
"""
MEMORY = 4e8


def ask(pool: Pool, what: str, seconds: float = 20.0) -> str:
    """The answer, or what the child was lost by."""
    try:
        return str(pool.ask(what, seconds))
    except ChildLost as lost:
        return f"{lost.state}: {lost.message}"


def test_a_lost_child_is_replaced() -> None:
    pool = Pool(("-c", SERVE), [{}], MEMORY)
    try:
        assert ask(pool, "one") == "one"
        assert ask(pool, "sleep", 0.3) == "time: it took more than 0.3 s"
        assert ask(pool, "two") == "two"
        if Path("/proc/self/statm").exists():
            assert ask(pool, "take") == "memory: it took more than 0.4 GB of memory"
        assert ask(pool, "end") == "killed: its process ended with 1: I have had enough"
        assert ask(pool, "three") == "three"
    finally:
        pool.close()


def test_a_child_that_is_killed_from_outside_costs_its_candidate() -> None:
    pool, found = Pool(("-c", SERVE), [{}], MEMORY), []
    try:
        assert ask(pool, "one") == "one"
        waiting = Thread(target=lambda: found.append(ask(pool, "sleep")))
        waiting.start()
        time.sleep(0.2)
        (child,) = pool._alive
        os.kill(child.pid, signal.SIGKILL)
        waiting.join(5)
        assert found == ["killed: its process was ended by SIGKILL"]
        assert ask(pool, "two") == "two"
    finally:
        pool.close()
    assert not is_running(child.pid)


def test_a_child_that_does_not_start_is_told() -> None:
    pool = Pool(("-c", "import sys; sys.exit('no library')"), [{}], MEMORY)
    assert ask(pool, "one") == "killed: its process ended with 1: no library"
    pool.close()


def is_running(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc here")
@pytest.mark.pocl
def test_a_run_that_is_killed_leaves_no_process_and_a_whole_record(tmp_path) -> None:
    (tmp_path / "mine.tg").write_text(TEXT.replace("101, 102, 103, 104, 105", "6, 7, 8"))
    words = ["tune", "mine.tg", "--device", "cpu", "--size", "N=256", "--budget", "5m", "--search", "random"]
    command = [sys.executable, "-m", "tilegen", *words, "--resume", "run.jsonl"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    record, deadline = tmp_path / "run.jsonl", time.monotonic() + 30
    while not (record.exists() and record.read_bytes().count(b"\n") > 2):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    listed = (p.read_text() for p in Path(f"/proc/{process.pid}/task").glob("*/children"))
    children = [int(pid) for text in listed for pid in text.split()]
    assert len(children) >= 2
    process.kill()
    process.wait()
    deadline = time.monotonic() + 5
    while any(map(is_running, children)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert [r for r in read_records(record.read_text(), "run.jsonl") if r.outcome == "measured"]
