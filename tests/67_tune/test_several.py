"""Several GPUs by workers of this machine, several hosts by a Dask cluster: no GPU times two candidates at once."""

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from types import SimpleNamespace

import pytest

from tests.support import fake_gpus
from tilegen import api
from tilegen.backends.devices.devices import engine
from tilegen.cli import run
from tilegen.errors import DeviceError, UsageError
from tilegen.lab.records.records import read_records
from tilegen.tune.measure import alone_on
from tilegen.tune.session import visible_gpus
from tilegen.tune.space import Candidate
from tilegen.tune.station import Limits, Station
from tilegen.tune.tuning import Tuning

TEXT = """\
kernel scale(A: f32[N]) -> B: f32[N]:
    B[i] = 2 * A[i]

schedule s for scale(T=8 in {4, 8, 16, 32, 64, 128}):
    tile(i, T) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
"""


@pytest.fixture
def two_gpus(tmp_path, monkeypatch):
    """A station with two GPUs, which writes to a log what they have timed."""
    monkeypatch.setenv("FAKE_GPUS_LOG", str(tmp_path / "log"))
    station = Station("cuda", ["0", "GPU-b"], preparers=3, work=fake_gpus.answer)
    yield station
    station.close()


def candidate(number: int) -> Candidate:
    return Candidate("s", (("T", number),))


def test_each_gpu_times_one_candidate_at_a_time_and_all_work_at_once(two_gpus, tmp_path) -> None:
    assert two_gpus.find_device().name == "a fake GPU"
    asked = [two_gpus.submit(candidate(n), None) for n in (1, 1, *range(2, 12))]
    outcomes = [each.result() for each in asked]
    assert all(each.state == "measured" for each in outcomes)
    spans = defaultdict(list)
    for line in (tmp_path / "log").read_text().splitlines():
        gpu, start, end = line.split()
        spans[gpu].append((float(start), float(end)))
    assert sorted(spans) == ["0", "GPU-b"]
    for each in spans.values():
        assert all(one[1] <= two[0] for one, two in pairwise(sorted(each)))
    pairs = [(a, b) for a in spans["0"] for b in spans["GPU-b"]]
    assert any(a[0] < b[1] and b[0] < a[1] for a, b in pairs)


def test_what_two_gpus_are_at_when_a_run_is_over_is_given_up_and_the_rest_kept(two_gpus, tmp_path, monkeypatch) -> None:
    log, kept = tmp_path / "log", []
    good, hanging = [candidate(n) for n in (8, 4, 16)], [candidate(0)] * 5

    def ask() -> Candidate | None:
        return good.pop() if good else hanging.pop() if hanging and len(kept) == 3 else None

    def clock() -> float:
        """The budget is spent when both GPUs hang, and candidates wait for them."""
        return monotonic() + 1e6 * (log.read_text().count("hangs") == 2 if log.exists() else False)

    monkeypatch.setattr("tilegen.tune.tuning.monotonic", clock)
    search = SimpleNamespace(ask=ask, tell=lambda *told: None)
    tuning = Tuning(search, two_gpus, [candidate(8)], 1e5, kept.append)
    tuning.run()
    assert all(each.state == "measured" for each in kept)
    assert set(tuning.together) == {candidate(8), candidate(4), candidate(16)}
    assert not tuning.note


def test_behind_a_fault_a_gpu_is_used_by_another_process(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_GPUS_LOG", str(tmp_path / "log"))
    station = Station("cuda", ["0"], preparers=1, work=fake_gpus.answer)
    good, bad = candidate(8), Candidate("faults", candidate(8).parameters)
    first, second, fault, third = [station.evaluate(each, None) for each in (good, good, bad, good)]
    station.close()
    assert first.message == second.message == fault.message != third.message
    assert (fault.state, third.state) == ("fault", "measured")


def test_gpus_that_differ_are_refused() -> None:
    station = Station("cuda", ["0", "other"], work=fake_gpus.answer)
    with pytest.raises(UsageError, match="times of different devices") as caught:
        station.find_device()
    assert "they are a fake GPU, another fake GPU" in caught.value.notes[0]
    station.close()


def test_gpus_are_chosen_among_those_that_are_visible(monkeypatch) -> None:
    monkeypatch.setattr("tilegen.backends.system.gpus.visible", lambda: ("3", "5", "MIG-7"))
    assert visible_gpus("all") == ("3", "5", "MIG-7")
    assert visible_gpus("2,0") == ("MIG-7", "3")
    for words in ("3", "0,x", ""):
        with pytest.raises(UsageError, match="there is no GPU"):
            visible_gpus(words)


@pytest.mark.pocl
def test_nothing_else_of_tunings_is_timed_on_a_device_meanwhile() -> None:
    spans = []

    def use() -> None:
        with alone_on(engine("cpu")):
            start = monotonic()
            sleep(0.1)
            spans.append((start, monotonic()))

    threads = [Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one[1] <= two[0] for one, two in pairwise(sorted(spans)))


@pytest.mark.long
@pytest.mark.pocl
def test_a_dask_cluster_evaluates(tmp_path, monkeypatch, capsys) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    Path("mine.tg").write_text(TEXT)
    made = {"n_workers": 2, "threads_per_worker": 2, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**made) as cluster:
        words = ["tune", "mine.tg", "--device", "cpu", "--size", "N=512", "--search", "random", "--budget", "2h"]
        more = ["--dask", cluster.scheduler_address, "--resume", "run.jsonl", "--json", "result.json"]
        assert run([*words, *more]) == 0
    assert json.loads(Path("result.json").read_text())["best"]["schedule"] == "s"
    records = [r for r in read_records(Path("run.jsonl").read_text(), "run.jsonl") if not r.notes["together"]]
    assert [r.outcome for r in records] == ["measured"] * 6
    assert len({r.name for r in records}) == 6


def test_a_cluster_that_is_not_there_is_told(monkeypatch) -> None:
    pytest.importorskip("distributed")
    from tilegen.tune import cluster

    monkeypatch.setattr(cluster, "_CONNECT", 0.3)
    with pytest.raises(DeviceError, match="no Dask scheduler answers at tcp://127.0.0.1:1"):
        cluster.Cluster("tcp://127.0.0.1:1", "cpu", Limits())


@pytest.mark.gpu
def test_all_gpus_of_this_machine_time(tmp_path, monkeypatch) -> None:
    """Each GPU that is timed on has a lock in the folder for temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    words = ["tune", "gemm:registers", "--size", "M=2048", "N=2048", "K=2048", "--search", "random", "--seed", "1"]
    file = tmp_path / "run.jsonl"
    assert run([*words, "--gpus", "all", "--budget", "50s", "--resume", str(file)]) == 0
    assert any(r.outcome == "measured" for r in read_records(file.read_text(), str(file)))
    assert api.load("gemm").kernel().records_of(file)
    assert len(list(tmp_path.glob("tilegen-*.lock"))) == len(visible_gpus("all"))
