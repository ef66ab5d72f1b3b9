"""What a check takes is told before it begins: memory that is not there, and time."""

import re
from dataclasses import replace

import numpy as np
import pytest

from tilegen import load
from tilegen.backends.calls import memory
from tilegen.backends.calls.device_program import _scratch_maker
from tilegen.backends.devices.devices import InterpreterEngine, program
from tilegen.cli import run
from tilegen.cli.looks import printing
from tilegen.errors import DeviceError, LimitError
from tilegen.lab.predict.cost import (
    check_outlook,
    require_check_memory,
    require_timing_memory,
    scratch_bytes,
    timing_outlook,
)
from tilegen.lab.predict.explain import explain, explain_tree
from tilegen.lab.predict.machine import H200, stock_machine

CHAIN = "kernel two(x: f32[N]) -> y: f32[N]:\n    var t: f32[N]\n    t[i] = 2 * x[i]\n    y[i] = t[i] + x[N - 1 - i]\n"


def trees(name):
    file = load(name)
    return [file.schedule(schedule.name).tree for schedule in file.schedules]


def test_memory_is_asked_of_the_system():
    assert 2**20 < memory.free_bytes() < 2**50


@pytest.mark.parametrize(
    ("bytes_", "text"), [(7, "7 bytes"), (1500, "1.5 kB"), (2**31, "2.1 GB"), (10**15, "1,000.0 TB")]
)
def test_bytes_for_a_reader(bytes_, text):
    assert memory.bytes_text(bytes_) == text


def test_a_container_leaves_less(tmp_path, monkeypatch):
    files = {
        "/sys/fs/cgroup/memory.max": "1000000",
        "/sys/fs/cgroup/memory.current": "700000",
        "/sys/fs/cgroup/memory.stat": "anon 5\ninactive_file 100000\n",
        "/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   8000 kB\n",
    }
    monkeypatch.setattr(memory, "_read_lines", lambda path: files.get(path, "").splitlines())
    assert memory.free_bytes() == 400_000
    files["/sys/fs/cgroup/memory.max"] = "max"
    assert memory.free_bytes() == 8_192_000


def test_a_check_that_does_not_fit():
    found = trees("vector_add")
    with pytest.raises(DeviceError, match=r"the check at N = 8589934592 needs \d\.\d TB of memory, and .* are free"):
        require_check_memory(found, [{"N": 2**33}], InterpreterEngine())
    require_check_memory(found, [{"N": 1000}], InterpreterEngine())
    with pytest.raises(DeviceError, match=r"a run at N = 1099511627776 needs"):
        require_timing_memory(found, {"N": 2**40}, InterpreterEngine())


def test_what_lies_between_launches_counts():
    file = load("total").schedule("two_launches", PART=4096)
    assert scratch_bytes(file.tree, {"N": 2**20}) == 4 * 2**20 // 4096


def test_a_long_check_is_announced():
    found, engine = trees("gemm"), InterpreterEngine()
    assert check_outlook(found, [{"M": 20, "N": 20, "K": 20}], engine) is None
    line = check_outlook(found, [{"M": 500, "N": 500, "K": 500}], engine)
    assert re.fullmatch(
        r"the check has up to [0-9,]+ points for each of 19 schedules and takes about \d+ hours; "
        r"without --size it takes sizes that reach all tiles, whole and at borders, and takes less",
        line,
    )
    fixed = [load("gemm").kernel("gemm", M=500, N=500, K=500).schedule("naive").tree]
    assert check_outlook(fixed, [{}], engine).endswith("; its sizes are fixed: --fix, or --set, gives others")
    assert "the schedule" in timing_outlook(found[:1], {"M": 500, "N": 500, "K": 500}, engine)


def test_a_scan_takes_each_term_once():
    sizes, engine, file = {"M": 64, "N": 4096}, InterpreterEngine(), load("scan")
    assert "1,073,741,824 points for the schedule" in timing_outlook([file.schedule("naive").tree], sizes, engine)
    assert timing_outlook([file.schedule("threads").tree], sizes, engine) is None


@pytest.mark.parametrize("command", ["check", "compare", "ladder", "explain"])
def test_sizes_beyond_all_machines_end_with_the_code_of_memory(command, capsys):
    arguments = [command, "vector_add", "--schedule", "vector", "--size", f"N={2**60}"]
    assert run(arguments) == 5
    assert re.search(rf"N = {2**60} needs .* of memory, and", capsys.readouterr().err)


def test_memory_that_is_not_known_is_less_than_can_be_addressed():
    memory.check_free(2**47, "this", lambda: None)
    with pytest.raises(DeviceError, match="this needs 562.9 TB of memory, and that much is not free"):
        memory.check_free(2**49, "this", lambda: None)


def test_a_check_without_enough_memory_ends_with_5(capsys):
    assert run(["check", "vector_add", "--size", "N=8589934592", "--device", "interpreter"]) == 5
    assert "note: smaller sizes need less" in capsys.readouterr().err


def test_a_call_that_does_not_fit(monkeypatch):
    """Linux hands out memory that it has not, and ends the process that uses it."""
    compiled = program(load(CHAIN).kernel().schedule().tree, InterpreterEngine())
    monkeypatch.setattr(memory, "_SMALL", 0)
    monkeypatch.setattr(InterpreterEngine, "free_bytes", lambda self: 399)
    with pytest.raises(DeviceError, match="the output y needs 400 bytes of memory, and 399 bytes are free"):
        compiled(np.ones(100, np.float32))
    between = next(b for b in compiled.tree.buffers if b.name == "t")
    make = _scratch_maker(compiled.engine, compiled.engine.caller([]), between, {"N": 100})
    with pytest.raises(DeviceError, match="t, which is kept between launches, needs 400 bytes"):
        make()

    def refuse():
        raise MemoryError

    with pytest.raises(DeviceError, match="and that much is not free"):
        memory.allocate(refuse, 100, "it", InterpreterEngine())


TALL = {"M": 3_000_000, "N": 16}  # 93,750 blocks along y
DEEP = """\
kernel deep(A: f32[M, N]) -> B: f32[M, N]:
    B[i, j] = A[i, j]

schedule s for deep():
    bind(i, block.z)
    bind(j, block.x)
"""


@pytest.mark.parametrize("command", ["explain", "ladder", "compare", "report"])
@pytest.mark.parametrize("size", [TALL, {"M": 2**21, "N": 1}])
def test_what_a_grid_cannot_take_is_not_predicted(command, size, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep.tg").write_text(DEEP)
    target = ["transpose", "--schedule", "padded"] if size is TALL else ["deep.tg"]
    words = [command, *target, "--size", *(f"{name}={value}" for name, value in size.items())]
    words += ["--no-compile"] if command in ("explain", "report") else []
    assert run(words) == 3
    told = capsys.readouterr()
    assert re.search(r"needs \d+ blocks along [yz] for M = \d+, N = \d+; 65535 are the limit", told.out + told.err)


def test_what_a_machine_has_no_memory_for_is_not_predicted(capsys):
    found, sizes = load("gemm").schedule("tiled"), {"M": 50_000, "N": 50_000, "K": 50_000}
    for name, fits in (("t4", False), ("rtx4090", False), ("a100", True)):
        words = ["compare", "gemm:tiled", "--machine", name, "--size", *(f"{n}={v}" for n, v in sizes.items())]
        assert run(words) == (0 if fits else 5)
        told = capsys.readouterr().err
        assert fits or "needs 30.0 GB of memory, and one" in told
    with pytest.raises(DeviceError, match="needs 120.0 GB of memory, and one A100 has 85.9 GB"):
        explain(found.core, dict.fromkeys(sizes, 100_000), machine=stock_machine("a100"), compiled=False)
    with pytest.raises(DeviceError, match="one H200 has"):
        found.explain(compiled=False, **dict.fromkeys(sizes, 10**6))


def test_memory_is_that_of_the_step():
    """What a step keeps between launches counts there, and where nothing is kept, not."""
    text = "kernel far(x: f32[N]) -> y: f32[1]:\n    var t: f32[N, 40]\n    t[i, j] = x[i] + f32(j)\n"
    text += "    y[u] = sum[i, j](t[i, j])\n"
    text += "schedule s for far():\n    compute_at(t, y.j)\n    cache_register(t, at=y.j)\n"
    first, _, last = explain(load(text).schedule("s").core, {"N": 2**30}, compiled=False).steps
    assert first.error == "a run at N = 1073741824 needs 176.1 GB of memory, and one H200 has 151.4 GB"
    assert last.launches


def test_a_block_that_no_sm_holds_is_not_predicted():
    small = replace(H200, limits=replace(H200.limits, registers=16_384, threads=512))
    tree = load("gemm").schedule("tiled").tree
    with pytest.raises(LimitError, match="an SM of H200 holds no block of 'gemm': it has 1024 threads"):
        explain_tree(tree, {"M": 64, "N": 64, "K": 64}, small, compiled=False)


def test_progress_without_a_terminal_is_a_line_at_regular_intervals(capsys):
    text = ""
    with printing._ProgressLines(pause=0.01) as lines:
        for step, wanted in ((("reference", 0, 1), "s: reference\n"), (("naive", 1, 3), "s: naive, 1 of 3 done\n")):
            lines(*step)
            while wanted not in text:
                text += capsys.readouterr().err
    assert re.fullmatch(r"(after \d+ s: reference\n)+(after \d+ s: naive, 1 of 3 done\n)+", text)
    assert printing._ProgressLines()._pause == 10.0
