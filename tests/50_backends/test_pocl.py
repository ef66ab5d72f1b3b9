"""What PoCL needs of a machine is settled before PoCL ends the process for want of it."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tilegen
from tilegen.backends import pocl
from tilegen.cli import run
from tilegen.errors import LimitError


def test_without_a_linker_it_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert "binutils" in (pocl.unavailable_reason.__wrapped__() or "")


def test_without_a_compiler_scripts_stand_for_its_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pocl, "_development_files", lambda: False)
    monkeypatch.setattr(pocl.shutil, "which", lambda word: f"/usr/bin/{word}")
    monkeypatch.setenv("LIBRARY_PATH", "/mine")
    assert pocl.unavailable_reason.__wrapped__() is None
    folder, mine = os.environ["LIBRARY_PATH"].split(":")
    assert mine == "/mine"
    assert sorted(os.listdir(folder)) == ["libc.so", "libgcc.a", "libgcc_s.so"]


@pytest.fixture
def home(monkeypatch, tmp_path):
    """A home of its own, in which PoCL has its cache unless it is told otherwise."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("POCL_CACHE_DIR", "")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    return tmp_path / "home"


def test_a_cache_that_can_be_written_stays_where_it_is(home) -> None:
    assert pocl.choose_cache.__wrapped__() is None
    assert not os.environ["POCL_CACHE_DIR"]
    assert list((home / ".cache" / "pocl" / "kcache").iterdir()) == []


def fill_disk(monkeypatch, *folders) -> None:
    usage = pocl.shutil.disk_usage
    full = SimpleNamespace(free=2**20)
    monkeypatch.setattr(
        pocl.shutil, "disk_usage", lambda path: full if any(f in Path(path).parents for f in folders) else usage(path)
    )


@pytest.mark.parametrize("what", ["closed", "full"])
def test_a_cache_that_cannot_be_written_lies_elsewhere(what, home, monkeypatch) -> None:
    if what == "closed":
        home.touch()
    else:
        fill_disk(monkeypatch, home)
    assert pocl.choose_cache.__wrapped__() is None
    assert home not in Path(os.environ["POCL_CACHE_DIR"]).parents
    assert Path(os.environ["POCL_CACHE_DIR"]).is_dir()


def test_a_cache_that_lies_nowhere_is_named(home, monkeypatch) -> None:
    fill_disk(monkeypatch, home, pocl._folder())
    said = f"PoCL's cache {home}/.cache/pocl/kcache cannot be written to (No space left on device), and neither can"
    assert (pocl.choose_cache.__wrapped__() or "").startswith(said)


@pytest.mark.pocl
def test_kernels_run_where_there_is_no_home(home) -> None:
    home.touch()
    words = [sys.executable, "-m", "tilegen", "check", "vector_add", "--device", "cpu"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "on PoCL" in done.stdout


# Each of 64 threads has a row of X in its registers.
ROWS = """\
kernel sums(X: f32[M, V], V: int = 1000) -> Y: f32[M, 64]:
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
    monkeypatch.setattr(pocl, "_stack_bytes", lambda: 2**18)
    if what == "shared memory":
        text = ROWS.replace("cache_register", "cache_shared")
        monkeypatch.setattr(pocl, "require_room", lambda launch, shared, most: room(launch, shared, 2000))
    (tmp_path / "mine.tg").write_text(text)
    assert run(["check", str(tmp_path / "mine.tg"), "--device", "cpu"]) == LimitError.exit_code
    golden_error(capsys.readouterr().err.partition("error: ")[2], f"limits/pocl_{what.split()[0]}.txt")


@pytest.mark.pocl
def test_registers_for_which_there_is_just_room_are_right() -> None:
    most = int(pocl._SHARE * pocl._stack_bytes()) // (64 * 4)
    sums = tilegen.load(ROWS.replace("1000", str(most))).schedule("s").compile("cpu")
    X = np.random.default_rng(1).integers(-4, 5, (3, most)).astype("f4")
    np.testing.assert_array_equal(sums(X), X.sum(1, keepdims=True).repeat(64, 1))
