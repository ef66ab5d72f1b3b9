"""The command tune on the CPU: it ends with what to set, and its record is gone on with after any end."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tilegen
from tests.support.workers import wait_until
from tilegen import api
from tilegen.cli import run
from tilegen.lab.choice.family import fitted_on
from tilegen.lab.choice.model import Coefficients, Model
from tilegen.lab.predict.machine import Machine, find_machine
from tilegen.lab.records.records import read_records
from tilegen.tune.prepare import predict
from tilegen.tune.task import Task

pytestmark = pytest.mark.pocl

TEXT = """\
kernel scale(A: f32[N], by: int = 2) -> B: f32[N]:
    B[i] = by * A[i]

schedule wide for scale(T=16 in {8, 16, 2048}, U=1 in {1, 2}) where U == 1 or T == 16:
    tile(i, U) -> i, u
    blocks(i, T) -> b, t

schedule racy for scale(T=8):
    tile(i, T) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
    bind(t, block.y)
"""
WORDS = ["tune", "mine.tg", "--device", "cpu", "--size", "N=512", "--seed", "1", "--search", "random"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.tg").write_text(TEXT)
    return tmp_path


def lines(path: str) -> list[dict]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_it_tries_all_and_ends_with_what_to_set(cli) -> None:
    shown = cli([*WORDS, "--budget", "2h", "--resume", "run.jsonl", "--json", "result.json"])
    assert re.search(r"^best: --schedule wide --set T=\d+ U=\d$", shown.out, re.MULTILINE)
    assert "5 candidates: 3 timed, 1 illegal, 1 over a limit" in shown.out
    assert "times on the CPU say nothing of a GPU" in shown.out
    assert "judge" in shown.out
    assert "seed 1" in shown.err
    records = read_records(Path("run.jsonl").read_text(), "run.jsonl")
    alone = [each for each in records if not each.notes["together"]]
    assert len({each.name for each in alone}) == len(alone) == 5
    assert all(each.samples and each.trials for each in alone if each.outcome == "measured")
    best = json.loads(Path("result.json").read_text())["best"]
    assert best["schedule"] == "wide"
    timed = [each for each in records if each.notes["together"]]
    assert best["parameters"] == min(timed, key=lambda each: each.milliseconds or 0).parameters


def test_without_a_gpu_it_ranks_by_predicted_times(monkeypatch, cli) -> None:
    monkeypatch.setattr("tilegen.backends.devices.cuda.unavailable_reason", lambda: "there is none")
    Path("mine.tg").write_text(TEXT.replace("T=16 in {8, 16, 2048}", "T=32 in {1, 32, 256}"))
    words = ["tune", "mine.tg", "--schedule", "wide", "--search", "grid", "--budget", "2h", "--machine", "a100"]
    shown = cli([*words, "--size", f"N={2**28}", "--set", "U=1", "--resume", "run.jsonl"])
    assert ", predicted for A100: 3 combinations" in shown.err
    assert "predicted: by the model of time for one A100, never below the roofline" in shown.out
    assert "none were fitted to times of such a GPU" in shown.out
    assert re.search(r"^best: --schedule wide --set T=(32|256) U=1$", shown.out, re.MULTILINE)
    records = {each.parameters["T"]: each for each in read_records(Path("run.jsonl").read_text(), "run.jsonl")}
    assert [records[T].outcome for T in (32, 256)] == ["unmeasured", "unmeasured"]
    assert records[1].notes["predicted"] > 1.1 * records[32].notes["predicted"]
    assert records[32].notes["machine"] == "A100"
    assert records[32].trials
    assert not records[32].samples


def test_the_model_of_time_takes_what_was_fitted_to_schedules_of_the_same_costs() -> None:
    """Those of a stock schedule on a kernel whose sizes have other names, where such a GPU was timed."""
    text = "kernel mm(A: f32[T, D], B: f32[D, F]) -> C: f32[T, F]:\n    C[i, j] = sum[k](A[i, k] * B[k, j])\n"
    scheduled = api.from_text(f"{text}schedule s for mm extends gemm.across()\n").kernel().schedule("s")
    for name in ("h100", "a100"):
        sizes, machine = dict.fromkeys("TDF", 1024), find_machine(name)
        least, modelled = predict(scheduled, task(sizes, machine), machine)
        typical = Model(scheduled.tree, machine).microseconds(sizes, Coefficients()) / 1e3
        assert modelled >= least
        assert (modelled == max(least, typical)) is not bool(fitted_on(machine))
    assert fitted_on(find_machine("h100")).startswith("NVIDIA H200")


def test_the_model_of_time_is_nearer_to_an_h100_than_the_roofline() -> None:
    """Of microseconds that were measured: within an eighth of all, where the roofline is over a fourth below two."""
    measured = {(64, 128): 52.84, (64, 64): 57.66, (32, 64): 67.35, (128, 128): 67.93}
    sizes, machine, gemm = {"M": 4688, "K": 368, "N": 528}, find_machine("h100"), tilegen.load("gemm").kernel()
    off = []
    for (tm, tn), microseconds in measured.items():
        values = {"TM": tm, "TN": tn} | ({"TK": 16, "WI": 2} if tm < 128 else {})
        found = predict(gemm.schedule("across", **values), task(sizes, machine), machine)
        off.append([1e3 * each / microseconds for each in found])
    assert all(7 / 8 < by_model < 9 / 8 for _, by_model in off)
    assert sum(by_roofline < 3 / 4 for by_roofline, _ in off) > 1


def task(sizes: dict[str, int], machine: Machine) -> Task:
    return Task("", {}, {}, sizes, "cpu", machine.arch, machine, predicts=True)


def test_where_nothing_is_timed_it_says_why(cli) -> None:
    Path("mine.tg").write_text(
        TEXT.replace("T=16 in {8, 16, 2048}", "T=2048 in {2048, 4096}").replace("T == 16", "T == 1")
    )
    words = [*WORDS, "--schedule", "wide", "--budget", "2h", "--resume", "run.jsonl"]
    shown = cli(words, 5).out
    assert "nothing was timed" in shown
    assert "2 candidates: 2 over a limit" in shown
    assert re.search(r"^over a limit, for one: wide T=(2048|4096) U=1: \S", shown, re.MULTILINE)
    Path("run.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines("run.jsonl")[:2]))
    assert "1 candidate is known from run.jsonl" in cli(words, 5).err


def test_a_budget_that_no_candidate_fits_into_is_told(capsys, cli) -> None:
    assert run([*WORDS, "--budget", "0.01s", "--resume", "run.jsonl"]) == 5
    assert "the budget was over before the first candidate was tried" in capsys.readouterr().out
    assert "run.jsonl has no record: no candidate of the run was tried" in cli(["records", "run.jsonl"], 2).err


def test_it_goes_on_with_a_record_that_is_torn(capsys, cli) -> None:
    words = [*WORDS, "--schedule", "wide", "--budget", "2h", "--resume", "run.jsonl"]
    assert run(words) == 0
    whole = Path("run.jsonl").read_bytes()
    cut = whole.index(b"\n", whole.index(b"\n", whole.index(b"\n") + 1) + 1) + 40
    Path("run.jsonl").write_bytes(whole[:cut])
    capsys.readouterr()
    shown = cli(words)
    assert "2 candidates are known from run.jsonl" in shown.err
    assert "39 bytes are cut off" in shown.err
    assert "4 candidates: 3 timed, 1 over a limit" in shown.out
    names = [each["name"] for each in lines("run.jsonl")[1:] if not each["notes"]["together"]]
    assert len(names) == len(set(names)) == 4


def test_the_record_of_another_run_is_refused(capsys, cli) -> None:
    first = ["tune", "mine.tg", "--device", "cpu", "--search", "random", "--budget", "2h", "--resume", "run.jsonl"]
    more = ["--size", "N=256", "--schedule", "wide", "--set", "T=8,16", "U=1"]
    assert run([*first, *more]) == 0
    before = Path("run.jsonl").read_bytes()
    others = {
        "with other sizes\n  note: there: N=256\n  note: here: N=512": ["--size", "N=512", *more[2:]],
        "with other constants\n  note: there: none\n  note: here: by=3": [*more, "by=3"],
        "with other texts of the kernel or its schedules": [*more[:2], "--set", "T=8,16"],
    }
    for said, words in others.items():
        capsys.readouterr()
        assert said in cli([*first, *words], 2).err
        assert Path("run.jsonl").read_bytes() == before


@pytest.mark.gpu
def test_a_gpu_is_tuned_with_its_state_on_record(cli) -> None:
    words = ["tune", "gemm:registers,warps", "--device", "cuda", "--size", "M=512", "N=512", "K=512"]
    assert "judge" in cli([*words, "--budget", "25s", "--seed", "1", "--search", "random", "--resume", "run.jsonl"]).out
    timed = [r for r in read_records(Path("run.jsonl").read_text(), "run.jsonl") if r.outcome == "measured"]
    alone = [r for r in timed if not r.notes["together"]]
    assert alone
    assert all(r.registers and r.compiler and r.conditions and r.proof == "proved" for r in alone)
    assert run(["compare", "gemm:registers", *words[2:], "--tuned", "run.jsonl"]) == 0


def test_too_little_memory_is_told_before_anything_runs(cli) -> None:
    assert "memory" in cli([*WORDS[:4], "--size", "N=99999999999", "--resume", "run.jsonl"], 5).err
    assert not Path("run.jsonl").exists()


def has_child_that_imports(process: subprocess.Popen) -> bool:
    children = [n for file in Path(f"/proc/{process.pid}/task").glob("*/children") for n in file.read_text().split()]
    return any("numpy" in Path(f"/proc/{number}/maps").read_text() for number in children)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc here")
@pytest.mark.parametrize("moment", ["children begin", "candidates are timed"])
def test_ctrl_c_leaves_a_record_and_says_how_to_go_on(moment) -> None:
    """In a terminal it is for all processes: the children say nothing of it."""
    many = ", ".join(map(str, range(1, 200)))  # more candidates than there is time for before it is interrupted
    Path("mine.tg").write_text(TEXT.replace("{8, 16, 2048}", f"{{{many}}}"))
    words = [*WORDS, "--schedule", "wide", "--budget", "2h", "--resume", "run.jsonl"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tilegen", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    wait_until(
        lambda: (
            has_child_that_imports(process)
            if moment == "children begin"
            else Path("run.jsonl").exists() and Path("run.jsonl").read_bytes().count(b"\n") > 2
        )
    )
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in errors
    if moment == "candidates are timed":
        assert "interrupted; to go on: tilegen tune mine.tg" in errors
        assert "--resume run.jsonl" in errors
        assert all(each["schema"].startswith("tilegen.") for each in lines("run.jsonl"))


def test_without_the_package_for_processes_it_says_what_installs_it(monkeypatch, capsys) -> None:
    monkeypatch.setattr("tilegen.tune.station.find_spec", lambda name: None)
    assert run([*WORDS, "--resume", "run.jsonl"]) == 5
    assert "tune needs the package pebble, which is not installed\n  note: " in capsys.readouterr().err
    assert not Path("run.jsonl").exists()
