"""What all tests share: golden files, and markers that skip where a device or a compiler is missing."""

from __future__ import annotations

import atexit
import gc
import os
import shlex
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A test sees what tilegen does now, whatever the user's programs have stored; those of the cache turn it on again.
os.environ["TILEGEN_CACHE_BYTES"] = "0"

# Where the texts of Python leave no bytecode, the processes that tests start would compile all of tilegen each time.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    os.environ["PYTHONPYCACHEPREFIX"] = mkdtemp(prefix="tilegen-bytecode-")
    atexit.register(rmtree, os.environ["PYTHONPYCACHEPREFIX"], ignore_errors=True)

# How long an example takes tells of the machine.
settings.register_profile("tilegen", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tilegen")

GOLDEN = Path(__file__).parent / "golden"
ERRORS = Path(__file__).parent / "errors"
# marker -> the module whose `unavailable_reason()` says why its tests cannot run here, or None
NEEDS = {
    "gpu": "tilegen.backends.devices.cuda",
    "nvrtc": "tilegen.backends.compiler.nvrtc",
    "pocl": "tilegen.backends.devices.opencl",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one stock schedule follow each other, in whatever file: what one derives, the next one asks for."""
    places: dict[object, int] = {}
    items.sort(key=lambda item: places.setdefault(_schedule_of(item) or item.nodeid, len(places)))


def _schedule_of(item: pytest.Item) -> tuple[str, str] | None:
    """The (file, schedule) that a test is given as its parameters `name` and `schedule`, or as its `case`."""
    given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    match given:
        case {"name": str(name), "schedule": str(schedule)} | {"case": (str(name), str(schedule))}:
            return name, schedule
    return None


def pytest_collection_finish() -> None:
    """Trees and sets are many small values and hardly a circle: the collector seldom finds anything among them."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("plugin"):
        if find_spec(f"tilegen.{marker.args[0]}") is None:
            pytest.skip(f"tilegen.{marker.args[0]} is not installed")
    for marker, module in NEEDS.items():
        if item.get_closest_marker(marker) and (reason := import_module(module).unavailable_reason()):
            pytest.skip(reason)


@pytest.fixture
def quick_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVRTC without its optimizers, where it knows how, for tests that ask whether it takes a text: 0.1 s, not 20."""
    nvrtc = import_module("tilegen.backends.compiler.nvrtc")
    if nvrtc.unavailable_reason() is None and nvrtc.version() >= (13, 0):
        usual = nvrtc.options()
        monkeypatch.setattr(nvrtc, "options", lambda: (*usual, "--Ofast-compile=max"))


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """`cli("show gemm")` is what the command has written, as `out` and `err`; it ends with 0, or with another code."""

    def written(words: str | list[str], code: int = 0) -> Any:
        run = import_module("tilegen.cli").run
        assert run(shlex.split(words) if isinstance(words, str) else words) == code
        return capsys.readouterr()

    return written


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(text, "gemm/tiled.cu")` compares `text` with tests/golden/gemm/tiled.cu.

    With --update-golden it writes the file instead; the difference is then read in review.
    """
    return _comparing_with(GOLDEN, request)


@pytest.fixture
def golden_error(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """As `golden`, for what is said of a mistake: `golden_error(text, "cli/several_values.txt")`, in tests/errors."""
    return _comparing_with(ERRORS, request)


def _comparing_with(folder: Path, request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    update = request.config.getoption("--update-golden")

    def compare(text: str, name: str) -> None:
        path = folder / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        assert path.exists(), f"no golden file {name}; run pytest --update-golden and read what it writes"
        assert text == path.read_text(), f"{name} has changed; if rightly so, run pytest --update-golden"

    return compare
