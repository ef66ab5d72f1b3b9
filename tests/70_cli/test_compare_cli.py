"""The command compare where something is in its way: schedules that cannot be taken, and a user who does not wait."""

import json
import re
import signal
import subprocess
import sys

import pytest

from tests.support.cover import first
from tilegen import api
from tilegen.backends.devices import cuda, devices
from tilegen.cli import run
from tilegen.cli.shell.interrupt import run_interruptibly
from tilegen.lab.measure.timing import SEED
from tilegen.lab.records.records import read_records

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
    records = {each.name: each for each in read_records((tmp_path / "f.json").read_text(), "f.json")}
    outcomes = {"racy": "illegal", "mistaken": "illegal", "large": "limits"}
    assert {name: records[name].outcome for name in outcomes} == outcomes
    assert records["large"].text == api.load(several).self_contained("large")
    assert "witness" in rows["racy"]["error"]
    assert "shared memory" in rows["large"]["error"]
    assert "there is no loop 'q'" in capsys.readouterr().out


def test_check_has_a_line_for_each_schedule_that_fails(several, cli) -> None:
    captured = cli(["check", several, "--device", "cpu"], 3)
    assert "good" in captured.out
    assert all(f"{name}: " in captured.err for name in ("racy", "mistaken", "large"))


def test_where_every_schedule_fails_all_errors_are_shown(several, cli) -> None:
    said = cli(["compare", several, "--device", "cpu", "--schedule", "mistaken,racy"], 3).err
    assert said.index("cannot run at once") < said.index("there is no loop 'q'")  # as they stand in the text


PRODUCT = """\
kernel product(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[x, y] = sum[z](A[x, z] * B[z, y])

schedule mine for product(TS=16 in {16, 32}):
    tile(x, TS) -> bx, tx
    bind(bx, block.x)
    bind(tx, thread.x)

schedule racy for product:
    tile(z, 4) -> b, t
    bind(t, thread.x)
"""
SMALL = ["--device", "cpu", "--size", "M=32", "N=32", "K=16"]


@pytest.fixture
def product_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.tg").write_text(PRODUCT)


@pytest.mark.pocl
def test_schedules_of_several_files_and_values_stand_in_one_table(product_file, tmp_path, capsys) -> None:
    words = ["compare", "a.tg", "gemm:naive,tiled", "--set", "TS=16,32", *SMALL, "--json", "f.json"]
    assert run(words) == 3
    rows = {row["name"]: row for row in json.loads((tmp_path / "f.json").read_text())["rows"]}
    swept = [f"{name} TS={value}" for name in ("a.tg:mine", "gemm:naive", "gemm:tiled") for value in (16, 32)]
    assert list(rows) == [*swept[:2], "a.tg:racy", *swept[2:]]
    assert "witness" in rows["a.tg:racy"]["error"]
    assert all(rows[name]["time"] and rows[name]["proof"] == "proved" for name in swept)
    assert rows["gemm:tiled TS=16"]["shared"] == 2 * 16 * 16 * 4
    assert {key: rows["gemm:tiled TS=32"][key] for key in ("file", "schedule", "parameters")} == {
        "file": "gemm",
        "schedule": "tiled",
        "parameters": {"TS": 32},
    }
    out = capsys.readouterr().out
    assert all(f" {name} " in out for name in rows)
    found = {each.name: each for each in read_records((tmp_path / "f.json").read_text(), "f.json")}
    one = found["gemm:tiled TS=16"]
    assert (one.outcome, one.seed, one.kernel, one.exit_code, one.steady) == ("measured", SEED, "gemm", 0, 0.0)
    assert one.milliseconds == one.time["median"]
    assert len(one.samples) == one.time["samples"]
    assert one.device.name.startswith("PoCL")
    assert one.command == "tilegen " + " ".join(words)
    again = api.load(one.text).kernel(one.kernel, **one.constants).schedule(one.schedule, **one.parameters)
    assert again.tree == api.load("gemm").schedule("tiled", TS=16).tree


def test_the_record_of_a_kernel_without_a_schedule_has_its_text(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.tg").write_text(
        "def half(x) = x / 2\nkernel own(A: f32[N], by: int = 2) -> B: f32[N]:\n    B[i] = by * half(A[i])\n"
    )
    words = "compare own.tg --set by=3 --fix N=8 --device interpreter --json f.json"
    assert run(words.split()) == 0
    (one,) = read_records((tmp_path / "f.json").read_text(), "f.json")
    assert (one.schedule, one.outcome, one.samples, one.constants) == (None, "unmeasured", (), {"N": 8, "by": 3})
    again = api.load(one.text).kernel(one.kernel, **one.constants)
    assert again.ir == api.load("own.tg").kernel(by=3, N=8).ir


def test_one_file_needs_no_name_of_its_own(product_file, cli) -> None:
    assert " mine " in (out := cli(["compare", "a.tg:mine", "a.tg:mine", *SMALL[:1], "interpreter", *SMALL[2:]]).out)
    assert "a.tg" not in out


def test_options_mean_the_files_that_know_them(product_file, cli) -> None:
    small = ["--device", "interpreter", "--size", "M=4", "N=4", "K=4"]
    assert run(["compare", "a.tg:mine", "gemm_transposed:tiled", "--kernel", "gemm_nn", *small]) == 0
    assert "a.tg:mine" in cli(["compare", "gemm:coarsened", "a.tg:mine", "--set", "WPT=4", *small]).out


def test_values_have_a_limit(capsys) -> None:
    values = ",".join(map(str, range(1, 1002)))
    assert run(["compare", "gemm:naive", "--set", f"TS={values}"]) == 2
    assert "'naive' has 1001 combinations of these values; 1000 is the limit" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--json", "no/such/f.json"], ["--size", f"M={2**42}"]])
def test_what_cannot_end_well_does_not_begin(option, product_file, capsys) -> None:
    assert run(["compare", "gemm", "--device", "interpreter", *option]) in (2, 5)
    assert run(["check", "gemm", "--device", "interpreter", *option]) in (2, 5)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "cannot write" in captured.err or re.search(r"needs [\d,.]+ .B of memory, and .* are free", captured.err)


@pytest.mark.pocl
@pytest.mark.parametrize(
    ("words", "kept", "during"),
    first(
        [
            ("compare gemm:naive,tiled --size M=1500 N=1500 K=1500", "rows", "warm up naive"),
            ("check gemm:naive,tiled --size M=1500 N=1500 K=1500", "results", "check naive"),
            ("ladder gemm:across", "rungs", ""),
        ]
    ),
)
def test_ctrl_c_keeps_what_is_known_so_far(words, kept, during, tmp_path, request) -> None:
    """However long a kernel runs: those here take minutes."""
    out = tmp_path / "out"
    with out.open("w") as file:
        soon = "from tilegen.cli.looks import printing as p; p._ProgressLines.__init__.__defaults__ = (0.5,)"
        code = f"import sys; {soon}; from tilegen.cli import main; main()"
        command = [sys.executable, "-c", code, *words.split(), "--device", "cpu"]
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.PIPE, text=True)
        request.addfinalizer(process.kill)  # for minutes it would go on computing where this test fails
        assert process.stderr
        while not re.fullmatch(r"after \d+ s: \w+.*\n", said := process.stderr.readline()) or during not in said:
            assert said  # there is no terminal
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    assert said.endswith(f"interrupted: these are the {kept} so far\n")
    assert "on PoCL" in out.read_text() or kept == "results"


@pytest.mark.parametrize(
    ("end", "told"), [("ctypes.string_at(0)", True), ("os.kill(os.getpid(), 9)", True), ("1/0", False)]
)
def test_a_crash_is_told_with_what_went_on(end, told) -> None:
    work = f"with progress() as step:\n    step('check s', 0, 1)\n    {end}"
    command = [sys.executable, "-c", f"import ctypes, os\nfrom tilegen.cli.looks.printing import progress\n{work}"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert ("error: a crash or a signal ended this during: check s\n" in said) == told


def test_run_interruptibly_raises_what_its_work_raises() -> None:
    def work() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_interruptibly(work)


def test_device_gpu_means_cuda(monkeypatch) -> None:
    monkeypatch.setattr(cuda, "CudaEngine", lambda: "the GPU")
    devices.engine.cache_clear()
    try:
        assert devices.engine("gpu") is devices.engine("cuda") == "the GPU"
    finally:
        devices.engine.cache_clear()


APPROXIMATE = """\
kernel rounded(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    var R: bf16[M, K]
    R[r, c] = bf16(A[r, c])
    C[i, j] = sum[k](f32(R[i, k]) * B[k, j])
    C[i, j] approximates sum[k](A[i, k] * B[k, j]) within sum[k](abs(A[i, k] * B[k, j]) * 2**-8)

schedule short for rounded():
    tile(i, 8) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
"""


def test_a_kernel_stands_beside_what_it_approximates_with_its_errors(tmp_path, capsys) -> None:
    (tmp_path / "rounded.tg").write_text(APPROXIMATE)
    words = f"{tmp_path}/rounded.tg:short gemm:naive --errors --device cpu --size M=16 N=16 K=99".split()
    assert run(["compare", *words, "--json", str(tmp_path / "f.json")]) == 0
    (rounded, exact) = json.loads((tmp_path / "f.json").read_text())["rows"]
    assert 0.1 < exact["notes"]["errors"]["rms"] < 1 < exact["notes"]["errors"]["largest"] < 10
    assert 1e3 < rounded["notes"]["errors"]["rms"] < rounded["notes"]["errors"]["largest"] < 2**16
    assert "errors, in units of 2^-24 of the sum" in capsys.readouterr().out
