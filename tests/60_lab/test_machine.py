"""Machines are files of figures, each with its source; a file that is none is told as such."""

import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

import tilegen
from tilegen.backends.system import gpus
from tilegen.errors import DeviceError, UsageError
from tilegen.lab.counts.tensor_cores import TENSOR_CORES
from tilegen.lab.predict.explain import explain, explain_tree
from tilegen.lab.predict.machine import (
    H200,
    find_machine,
    machine_here,
    machine_names,
    machine_of_device,
    read_machine,
    stock_machine,
)
from tilegen.lab.records.schemas import find_complaint, schema

ERRORS = Path(__file__).parents[1] / "errors" / "machine"
WORDS = ("name", "arch", "basis", "devices")
SIZES = {"M": 1024, "N": 1024, "K": 1024}


def figures(name: str) -> dict:
    return tomllib.loads((files("tilegen") / "lab" / "predict" / "machines" / f"{name}.toml").read_text())


def test_the_machines_are_those_of_the_manual() -> None:
    assert machine_names() == ("a100", "b200", "h100", "h200", "rtx4090", "t4")


@pytest.mark.parametrize("name", machine_names())
def test_each_figure_has_a_source(name) -> None:
    found = figures(name)
    assert find_complaint("machine", found) is None
    assert set(found["sources"]) == set(found) - {*WORDS, "sources"}
    assert all(len(source) > 15 for source in found["sources"].values())


@pytest.mark.parametrize("name", machine_names())
def test_the_figures_of_a_machine_agree_with_each_other(name) -> None:
    """Lanes and banks times the clock; and no cache is slower than what is after it."""
    machine = stock_machine(name)
    lanes = 64 if machine.arch in ("sm_75", "sm_80") else 128
    assert machine.multiply_adds == pytest.approx(2e-3 * machine.sms * lanes * machine.clock, rel=0.03)
    assert machine.shared == pytest.approx(128e-3 * machine.sms * machine.clock, rel=0.03)
    assert machine.copy < (machine.second_level or machine.shared) <= machine.shared
    assert all(peak > machine.multiply_adds * 0.3 for peak in machine.tensor.peaks.values())
    assert machine.limits.shared_of_block <= machine.limits.shared


def test_the_tensor_cores_of_a_machine_are_those_of_the_table() -> None:
    for name, arch in {"h200": "sm_90", "h100": "sm_90", "a100": "sm_80", "b200": "sm_100"}.items():
        table, own = TENSOR_CORES[arch], stock_machine(name).tensor
        assert own.peaks == table.peaks
        assert all(own.rate(each) == table.rate(each) for each in table.peaks)


@pytest.mark.parametrize("name", machine_names())
def test_a_schedule_is_explained_for_each_machine(name) -> None:
    machine = stock_machine(name)
    (launch,) = explain_tree(tilegen.load("gemm").schedule("tiled").tree, SIZES, machine, compiled=False)
    bounds = launch.prediction.bounds
    assert bounds["global memory"] == pytest.approx(3 * 1024**2 * 4 / machine.copy / 1e9)
    assert bounds["multiply-adds"] >= 1.999 * 1024**3 / machine.multiply_adds / 1e9
    assert ("L2" in bounds) == (machine.second_level is not None)
    assert launch.prediction.milliseconds == max(bounds.values())


def test_faster_machines_are_predicted_to_be_faster() -> None:
    tree = tilegen.load("gemm").schedule("warps").tree
    sizes = dict.fromkeys(SIZES, 8192)
    times = {
        name: explain_tree(tree, sizes, stock_machine(name), compiled=False)[0].prediction.milliseconds
        for name in machine_names()
    }
    assert sorted(times, key=lambda name: -times[name])[:2] == ["t4", "a100"]


LARGE = """\
kernel sums(A: f32[M, N]) -> S: f32[M]:
    S[i] = sum[j](A[i, j])

schedule large for sums():
    tile(i, 64) -> b, t
    tile(j, 300) -> o, r
    order(b, o, t, r)
    bind(b, block.x)
    bind(t, thread.x)
    cache_shared(A, at=o)
"""


def test_what_a_machine_has_no_shared_memory_for_is_told_at_its_step() -> None:
    core, sizes = tilegen.load(LARGE).schedule("large").core, {"M": 256, "N": 600}
    *before, last = explain(core, sizes, machine=stock_machine("t4"), compiled=False).steps
    assert last.error == "a block of 'sums' takes 76800 bytes of shared memory, and one of T4 has at most 65536"
    assert before[-1].error is None
    assert explain(core, sizes, machine=stock_machine("a100"), compiled=False).steps[-1].error is None


def test_doubles_are_slow_where_the_machine_says_so() -> None:
    text = "kernel p(A: f64[M, K], B: f64[K, N]) -> C: f64[M, N]:\n    C[i, j] = sum[k](A[i, k] * B[k, j])\n"
    schedule = "schedule s for p():\n    bind(i, block.y)\n    blocks(j, 16) -> bj, tj\n"
    tree = tilegen.load(text + schedule).schedule("s").tree
    for name, times in {"t4": 32, "rtx4090": 64, "h200": 2}.items():
        machine = stock_machine(name)
        assert machine.slower("f64") == times
        (launch,) = explain_tree(tree, SIZES, machine, compiled=False)
        assert launch.prediction.bounds["multiply-adds"] >= times * 1.999 * 1024**3 / machine.multiply_adds / 1e9


def test_a_device_is_known_by_its_name() -> None:
    assert machine_of_device("NVIDIA H200") == H200 == find_machine("h200")
    assert machine_of_device("Tesla T4") == stock_machine("t4")
    assert machine_of_device("NVIDIA H100 PCIe") is None  # fewer SMs, another memory


def test_auto_is_the_gpu_here(monkeypatch) -> None:
    monkeypatch.setattr(gpus, "missing", lambda: None)
    for name, here in (("NVIDIA H100 80GB HBM3", "H100"), ("NVIDIA L4", "H200")):
        monkeypatch.setattr(gpus, "current_name", lambda name=name: name)
        assert find_machine(None).name == machine_here().name == here
    monkeypatch.setattr(gpus, "current_name", lambda: "NVIDIA B200")
    assert find_machine("auto").name == "B200"
    monkeypatch.setattr(gpus, "current_name", lambda: "NVIDIA L4")
    with pytest.raises(UsageError, match="nothing is known of the ceilings of 'NVIDIA L4'"):
        find_machine("auto")
    monkeypatch.setattr(gpus, "missing", lambda: gpus.Missing("no GPU was found"))
    with pytest.raises(DeviceError, match="auto is the GPU of this machine, and no GPU was found"):
        find_machine("auto")


@pytest.mark.gpu
def test_auto_finds_the_gpu() -> None:
    name = gpus.current_name()
    if machine_of_device(name) is None:
        pytest.skip(f"no machine is known for {name}")
    assert name in find_machine("auto").devices


# -- files


OWN = """\
name = "mine"
arch = "sm_86"
basis = "guessed"
sms = 10
clock = 1.5
multiply_adds = 3.8
copy = 0.3
shared = 1.9
"""


def test_a_file_is_a_machine(tmp_path) -> None:
    (tmp_path / "mine.toml").write_text(OWN + "[tensor]\nf16 = 30\n")
    found = find_machine(str(tmp_path / "mine.toml"))
    assert (found.name, found.limits.threads, found.second_level, found.schedulers) == ("mine", 1536, None, 4)
    assert (found.tensor.rate("f16"), found.tensor.rate("bf16")) == (30, None)
    assert set(schema("machine")["required"]) <= set(tomllib.loads(OWN))


# name of the golden text -> the file
FILES = {
    "no_toml": "name = mine\n",
    "missing": OWN.replace("clock = 1.5\n", ""),
    "misspelt": OWN.replace("clock", "clok") + "clock = 1.5\n",
    "text": OWN.replace("sms = 10", 'sms = "ten"'),
    "nan": OWN.replace("clock = 1.5", "clock = nan"),
    "endless": OWN.replace("clock = 1.5", "clock = 1e999"),
    "deep": OWN + "deep = " + "[" * 100_000,
    "digits": OWN.replace("sms = 10", "sms = " + "9" * 5000),
    "bits": OWN.replace("sms = 10", "sms = 0x" + "f" * 5000),
    "zero": OWN.replace("copy = 0.3", "copy = 0"),
    "arch": OWN.replace("sm_86", "sm_70"),
    "format": OWN + "[tensor]\nfp16 = 30\n",
    "sm": OWN + "[sm]\nthreads = 1024\n",
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_machine_is_told_as_reviewed(name, golden_error) -> None:
    with pytest.raises(UsageError) as raised:
        read_machine(FILES[name], "mine.toml")
    text = raised.value.render() + "\n"
    golden_error(text, f"machine/{name}.txt")


def test_every_golden_text_is_of_a_file() -> None:
    assert {path.stem for path in ERRORS.iterdir()} == set(FILES)


@pytest.mark.parametrize("word", ["h20", "none.toml", "."])
def test_a_machine_that_is_not_there(word, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="there is no machine|cannot read"):
        find_machine(word)
