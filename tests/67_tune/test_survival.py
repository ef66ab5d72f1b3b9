"""One bad candidate costs itself: it hangs, it faults, it is wrong, its compiler takes all memory, its process dies."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from tests.support import poisoned
from tests.support.workers import wait_until
from tilegen import api
from tilegen.lab.records.records import read_records
from tilegen.tune.children import ChildLost, Pool
from tilegen.tune.session import Session, Wish
from tilegen.tune.space import Candidate
from tilegen.tune.station import Limits, Station

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


def session(tmp_path: Path, device: str, **given: tuple[int, ...]) -> Session:
    file, limits = api.load(TEXT), Limits(seconds=600.0, memory=8e9)
    wish = Wish(budget=36_000.0, search="random", seed=4, device=device, limits=limits, work=poisoned.answer)
    return Session(file.kernel(), file.schedules, tmp_path / "run.jsonl", given=given, sizes={"N": 256}, wish=wish)


def survive(tmp_path: Path, device: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth of the candidates is poisoned: the others are timed, and each of these is known for what it is.

    What hangs has `seconds`; the others are given more than a slow machine takes.
    """
    ask = Pool.ask

    def ask_within(pool: Pool, *request: object, **limit: float) -> object:
        asked = [dict(each.parameters)["U"] for each in request if isinstance(each, Candidate)]
        endless = bool({poisoned.HANGS, poisoned.BOMB} & {*asked[:1]})
        return ask(pool, *request, **({"seconds": seconds} if endless else limit))

    monkeypatch.setattr(Pool, "ask", ask_within)
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


@pytest.mark.long
@pytest.mark.pocl
def test_a_fifth_of_poisoned_candidates_is_survived(tmp_path, monkeypatch) -> None:
    survive(tmp_path, "cpu", 2.0, monkeypatch)


@pytest.mark.gpu
def test_a_fifth_of_poisoned_candidates_is_survived_on_a_gpu(tmp_path, monkeypatch) -> None:
    survive(tmp_path, "cuda", 15.0, monkeypatch)


# -- limits of one process, with words in place of candidates

MEMORY = 4e8


@pytest.fixture
def pool(tmp_path):
    made = Pool(1, poisoned.serve, {"ASLEEP": str(tmp_path)}, MEMORY, str(tmp_path))
    yield made
    made.close()


def ask(pool: Pool, what: str, seconds: float = 600.0) -> object:
    """The answer, or what the child was lost by."""
    try:
        return pool.ask(what, seconds=seconds)
    except ChildLost as lost:
        return f"{lost.state}: {lost.message}"


def test_a_lost_child_is_replaced(pool) -> None:
    assert ask(pool, "one") == "one"
    assert ask(pool, "sleep", 0.3) == "time: it took more than 0.3 s"
    assert ask(pool, "two") == "two"
    if Path("/proc/self/statm").exists():
        assert ask(pool, "take") == "memory: it took more than 0.4 GB of memory"
    assert ask(pool, "end") == "killed: its process ended with 3: I have had enough"
    assert ask(pool, "abort") == "killed: its process was ended by SIGABRT"
    assert ask(pool, "three") == "three"


def test_a_child_that_is_killed_from_outside_costs_its_candidate(pool, tmp_path) -> None:
    child, found = ask(pool, "pid"), []
    waiting = Thread(target=lambda: found.append(ask(pool, "sleep")))
    waiting.start()
    wait_until(lambda: list(tmp_path.glob("*.asleep")))
    os.kill(child, signal.SIGKILL)
    waiting.join()
    assert found == ["killed: its process was ended by SIGKILL"]
    assert not is_running(child)
    assert ask(pool, "two") == "two"


def test_a_child_that_is_killed_while_it_waits_costs_nothing(pool) -> None:
    os.kill(ask(pool, "pid"), signal.SIGKILL)
    wait_until(lambda: not pool._pool.active)
    assert ask(pool, "two") == "two"


def test_children_that_are_given_up_are_replaced_and_those_of_a_closed_pool_are_not(pool, tmp_path) -> None:
    found: list[object] = []
    for end in (pool.give_up, pool.close):
        child = ask(pool, "pid")
        waiting = [Thread(target=lambda: found.append(ask(pool, "sleep"))) for _ in range(3)]
        for each in waiting:
            each.start()
        wait_until(lambda: len(pool._asked) == 3 and list(tmp_path.glob("*.asleep")))
        end()
        for each in waiting:
            each.join()
        for each in tmp_path.glob("*.asleep"):
            each.unlink()
        assert not is_running(child)
    assert found == ["killed: the run has ended"] * 6
    assert ask(pool, "one") == "killed: the run has ended"


def test_a_child_that_does_not_begin_is_told(tmp_path) -> None:
    pool = Pool(1, poisoned.serve, {}, MEMORY, str(tmp_path / "no folder"))
    assert ask(pool, "one") == "killed: its process did not begin"
    pool.close()


def test_a_file_of_the_current_folder_is_no_module_of_python(tmp_path, monkeypatch) -> None:
    """As someone calls a script whose folder has such files, too."""
    for name in ("random", "multiprocessing", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('mine')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    station = Station("cpu", preparers=1, work=poisoned.serve)
    assert station._preparing.ask("one", seconds=600) == "one"
    station.close()


def is_running(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc here")
@pytest.mark.pocl
def test_a_run_that_is_killed_leaves_no_process_and_a_whole_record(tmp_path) -> None:
    many = ", ".join(map(str, range(6, 100)))  # more candidates than there is time for before it is killed
    (tmp_path / "mine.tg").write_text(TEXT.replace("101, 102, 103, 104, 105", many))
    words = ["tune", "mine.tg", "--device", "cpu", "--size", "N=256", "--budget", "2h", "--search", "random"]
    command = [sys.executable, "-m", "tilegen", *words, "--resume", "run.jsonl"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    record = tmp_path / "run.jsonl"
    wait_until(lambda: record.exists() and record.read_bytes().count(b"\n") > 2)
    listed = (p.read_text() for p in Path(f"/proc/{process.pid}/task").glob("*/children"))
    children = [int(pid) for text in listed for pid in text.split()]
    assert len(children) >= 2
    process.kill()
    process.wait()
    wait_until(lambda: not any(map(is_running, children)))
    assert [r for r in read_records(record.read_text(), "run.jsonl") if r.outcome == "measured"]
