"""Exported launchers on a host without a GPU: compiled by g++, loaded, and called up to where a GPU would be needed."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

import tilegen
from tilegen.backends.calls.text_versions import TextVersions
from tilegen.backends.compiler import toolkit
from tilegen.backends.system.record import Record
from tilegen.export.c_names import Interface, interface
from tilegen.export.header import header
from tilegen.export.launcher import launcher
from tilegen.export.trial_program import trial_program
from tilegen.export.versions import Fact, Version, versions
from tilegen.ir.nodes import Condition
from tilegen.lowering import fits

OPTIONS = ("-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1")


@cache
def _versions(file: str, schedule: str, kernel: str | None, fixed: frozenset[tuple[str, int]]):
    """The schedule, the texts and the table of versions of several tests."""
    loaded = tilegen.load(file)
    core = loaded.kernel(kernel or loaded.find_schedule(schedule).kernel, **dict(fixed)).schedule(schedule).core
    texts = TextVersions(core.tree, "cuda", Record())
    return core, texts, versions(core.tree, texts)


class Made:
    """The table of a schedule's versions, and its exported texts."""

    def __init__(self, file: str, schedule: str, kernel: str | None = None, **fixed: int) -> None:
        self.core, self.texts, self.table = _versions(file, schedule, kernel, frozenset(fixed.items()))
        self.interface: Interface = interface(self.core.tree)

    @property
    def name(self) -> str:
        return self.interface.name

    def choose(self, sizes: Mapping[str, int], addresses: Mapping[str, int]) -> Version | None:
        """The first version of the table that is met and fits; what has no address is aligned."""

        def is_met(fact: Fact) -> bool:
            return fact.holds(sizes) if isinstance(fact, Condition) else addresses.get(fact[0], 0) % fact[1] == 0

        return next((v for v in self.table if all(map(is_met, v.needs)) and fits(v.launches, sizes)), None)

    def write(self, folder: Path) -> None:
        """The header, the launcher and the test program, with machine code that is none."""
        title = f"// {self.core.title}"
        (folder / self.interface.header).write_text(header(self.interface, title))
        (folder / f"{self.name}.cpp").write_text(launcher(self.interface, self.table, title, ["sm_80"]))
        (folder / f"{self.name}_test.cpp").write_text(trial_program(self.interface, title, {}))
        (folder / f"{self.name}.fatbin").write_bytes(b"none")


@cache
def runtime() -> tuple[Path, Path] | None:
    """The folder of the CUDA headers with those for hosts, and the CUDA runtime; None where these are not there."""
    folders = [toolkit.header_folder(), Path("/usr/local/cuda/include")]
    for folder in filter(None, folders):
        headers = Path(folder)
        libraries = [each for part in ("lib", "lib64") for each in (headers.parent / part).glob("libcudart.so*")]
        if (headers / "crt" / "host_defines.h").exists() and (headers / "nv" / "target").exists() and libraries:
            return headers, libraries[0]
    return None


def build(folder: Path, *files: str, to: str, options: tuple[str, ...] = ()) -> Path:
    """Compiles and links `files` by g++; skips the test where that, or the CUDA runtime, is not there."""
    found = runtime()
    if not shutil.which("g++") or found is None:
        pytest.skip("no g++, or no CUDA headers for hosts (nvidia-cuda-crt, nvidia-cuda-cccl)")
    headers, library = found
    command = [
        "g++",
        *OPTIONS,
        *options,
        f"-I{headers}",
        *files,
        str(library),
        f"-Wl,-rpath,{library.parent}",
        "-o",
        to,
    ]
    done = subprocess.run([*command, "-o", to], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / to


def load_launcher(made: Made, folder: Path) -> ctypes.CDLL:
    """The launcher as a library."""
    made.write(folder)
    library = ctypes.CDLL(str(build(folder, f"{made.name}.cpp", to=f"{made.name}.so", options=("-shared", "-fPIC"))))
    getattr(library, f"{made.name}_workspace_bytes").restype = ctypes.c_size_t
    getattr(library, f"{made.name}_error_text").restype = ctypes.c_char_p
    getattr(library, f"{made.name}_version_name").restype = ctypes.c_char_p
    return library
