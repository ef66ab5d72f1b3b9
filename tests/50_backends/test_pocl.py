"""What PoCL needs of a machine is settled before PoCL ends the process for want of it."""

import os
import subprocess
import sys

import numpy as np
import pytest

import tilegen
from tilegen.backends.devices import pocl
from tilegen.cli import run
from tilegen.errors import DeviceError, LimitError


def test_without_a_linker_it_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert "binutils" in (pocl.unavailable_reason.__wrapped__() or "")


@pytest.mark.pocl
def test_a_process_without_an_environment_runs_kernels() -> None:
    command = [sys.executable, "-m", "tilegen", "check", "transpose:tiled", "--device", "cpu"]
    done = subprocess.run(command, env={}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_without_a_compiler_scripts_stand_for_its_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pocl, "_development_files", lambda: False)
    monkeypatch.setattr(pocl.shutil, "which", lambda word: f"/usr/bin/{word}")
    monkeypatch.setenv("LIBRARY_PATH", "/mine")
    assert pocl.unavailable_reason.__wrapped__() is None
    folder, mine = os.environ["LIBRARY_PATH"].split(":")
    assert mine == "/mine"
    assert sorted(os.listdir(folder)) == ["libc.so", "libgcc.a", "libgcc_s.so"]


@pytest.mark.pocl
def test_a_damaged_file_of_its_cache_is_named(monkeypatch) -> None:
    def broken(*given):
        raise cl.LogicError("clCreateKernel", -46)

    cl = pytest.importorskip("pyopencl")
    monkeypatch.setattr(cl, "Kernel", broken)
    monkeypatch.setenv("POCL_CACHE_DIR", "/somewhere")
    with pytest.raises(DeviceError, match="does not find what it has compiled") as caught:
        tilegen.load("transpose").schedule("tiled").compile("cpu")(np.ones((2, 2), "f4"))
    assert caught.value.notes == ("a file of its cache may be damaged: remove /somewhere",)


# Each of 256 threads has a row of X in its registers.
ROWS = """\
kernel sums(X: f32[M, V], V: int = 1000) -> Y: f32[M, 256]:
    Y[i, j] = sum[v](X[i, v])

schedule s for sums():
    bind(i, block.x)
    bind(j, thread.x)
    cache_register(X, at=i)
"""


@pytest.mark.pocl
@pytest.mark.parametrize("what", ["registers", "shared memory"])
def test_what_needs_more_memory_than_there_is_does_not_run(what, monkeypatch, golden_error, capsys, tmp_path) -> None:
    room, text = pocl.require_room, ROWS
    monkeypatch.setattr(pocl, "_stack_bytes", lambda: 2**20)
    if what == "shared memory":
        text = ROWS.replace("cache_register", "cache_shared")
        monkeypatch.setattr(pocl, "require_room", lambda launch, shared, most: room(launch, shared, 2000))
    (tmp_path / "mine.tg").write_text(text)
    assert run(["check", str(tmp_path / "mine.tg"), "--device", "cpu"]) == LimitError.exit_code
    golden_error(capsys.readouterr().err.partition("error: ")[2], f"limits/pocl_{what.split()[0]}.txt")


@pytest.mark.pocl
def test_registers_for_which_there_is_just_room_are_right() -> None:
    most = int(pocl._SHARE * pocl._stack_bytes()) // (256 * 4)
    sums = tilegen.load(ROWS.replace("1000", str(most))).schedule("s").compile("cpu")
    X = np.random.default_rng(1).integers(-4, 5, (3, most)).astype("f4")
    np.testing.assert_array_equal(sums(X), X.sum(1, keepdims=True).repeat(256, 1))
