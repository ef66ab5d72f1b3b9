"""What other libraries compile is kept where it can be: a home that is closed, or full, stops no kernel."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from tilegen.backends.devices import pocl
from tilegen.backends.system import folders

SCRIPT = """\
from tilegen.backends.system import gpus
gpus.driver_version = lambda: (99, 0)
print(gpus.missing())
"""


@pytest.fixture
def home(monkeypatch, tmp_path):
    """A home of its own, in which libraries have their caches unless they are told otherwise."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for variable in ("POCL_CACHE_DIR", "MINE"):
        monkeypatch.setenv(variable, "")
    for variable in ("CUPY_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / "home"


def fill_disk(monkeypatch, *full) -> None:
    """The disk of these folders is full."""
    usage = folders.shutil.disk_usage
    monkeypatch.setattr(
        folders.shutil,
        "disk_usage",
        lambda path: SimpleNamespace(free=2**20) if {path, *path.parents} & set(full) else usage(path),
    )


def test_a_cache_that_can_be_written_stays_where_it_is(home) -> None:
    assert folders.choose_cache("this", "MINE", home / "cache") is None
    assert not os.environ["MINE"]
    assert list((home / "cache").iterdir()) == []


@pytest.mark.parametrize("what", ["closed", "full"])
def test_a_cache_that_cannot_be_written_lies_elsewhere(what, home, monkeypatch) -> None:
    if what == "closed":
        home.touch()
    else:
        fill_disk(monkeypatch, home)
    assert folders.choose_cache("this", "MINE", home / "cache") is None
    assert home not in Path(os.environ["MINE"]).parents
    assert Path(os.environ["MINE"]).is_dir()


def test_a_cache_that_lies_nowhere_is_named(home, monkeypatch) -> None:
    fill_disk(monkeypatch, home, folders.folder_of_process())
    full = "No space left on device"
    said = f"this's cache {home}/cache cannot be written to ({full}), and neither can a temporary folder ({full})"
    assert folders.choose_cache("this", "MINE", home / "cache") == said


def run(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.pocl
def test_kernels_run_on_the_cpu_without_a_home(home) -> None:
    home.touch()
    assert "on PoCL" in run("-m", "tilegen", "check", "vector_add", "--device", "cpu")


@pytest.mark.skipif(sys.platform != "linux", reason="PoCL is for Linux")
def test_pocl_has_its_cache_in_the_home(home) -> None:
    assert pocl.choose_cache.__wrapped__() is None
    assert (home / ".cache" / "pocl" / "kcache").is_dir()


@pytest.mark.skipif(not find_spec("cupy"), reason="cupy is not installed")
def test_cupy_loads_without_a_home(home) -> None:
    home.touch()
    assert "cupy does not load" not in run("-c", SCRIPT)
