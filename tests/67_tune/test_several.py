"""Several GPUs by workers of this machine, several hosts by a Dask cluster: no GPU times two candidates at once."""

import json
import os
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

import pytest

from tests.support import fake_gpus
from tilegen import api
from tilegen.backends.devices import engine
from tilegen.cli import run
from tilegen.errors import DeviceError, UsageError
from tilegen.lab.record_files import read_records
from tilegen.tune.measure import alone_on
from tilegen.tune.session import visible_gpus
from tilegen.tune.space import Candidate
from tilegen.tune.station import Limits, Local, Station
from tilegen.tune.task import Task

COMMAND = (str(Path(fake_gpus.__file__)),)
TASK = Task("k", {"s": ""}, {}, {}, "cuda")
TEXT = """\
kernel scale(A: f32[N]) -> B: f32[N]:
    B[i] = 2 * A[i]

schedule s for scale(T=8 in {4, 8, 16, 32, 64, 128}):
    tile(i, T) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
"""


def test_each_gpu_times_one_candidate_at_a_time_and_all_work_at_once(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_GPUS_LOG", str(tmp_path / "log"))
    station = Station("cuda", ["0", "GPU-b"], preparers=3, command=COMMAND)
    local = Local(station, TASK)
    try:
        assert station.find_device().name == "a fake GPU"
        asked = [local.submit(Candidate("s", (("T", n),)), None) for n in range(12)]
        outcomes = [each.result(30) for each in asked]
    finally:
        local.close()
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


def test_gpus_that_differ_are_refused(monkeypatch) -> None:
    station = Station("cuda", ["0", "other"], command=COMMAND)
    with pytest.raises(UsageError, match="times of different devices") as caught:
        station.find_device()
    assert "they are a fake GPU, another fake GPU" in caught.value.notes[0]
    station.close()


def test_gpus_are_chosen_among_those_that_are_visible(monkeypatch) -> None:
    monkeypatch.setattr("tilegen.backends.gpus.visible", lambda: ("3", "5", "MIG-7"))
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


@pytest.mark.pocl
def test_a_dask_cluster_evaluates(tmp_path, monkeypatch, capsys) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    Path("mine.tg").write_text(TEXT)
    made = {"n_workers": 2, "threads_per_worker": 2, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**made) as cluster:
        words = ["tune", "mine.tg", "--device", "cpu", "--size", "N=512", "--search", "random", "--budget", "2m"]
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
def test_two_gpus_try_more_candidates_than_one(tmp_path) -> None:
    if len(visible_gpus("all")) < 2 or os.cpu_count() < 8:
        pytest.skip("there is one GPU")
    counts = []
    for gpus in ("0", "all"):
        words = ["tune", "gemm:registers", "--size", "M=2048", "N=2048", "K=2048", "--search", "random", "--seed", "1"]
        file = tmp_path / f"{gpus}.jsonl"
        assert run([*words, "--gpus", gpus, "--budget", "60s", "--resume", str(file)]) == 0
        counts.append(sum(r.outcome == "measured" for r in read_records(file.read_text(), str(file))))
    assert counts[1] > 1.3 * counts[0]
    assert api.load("gemm").kernel().records_of(tmp_path / "all.jsonl")
