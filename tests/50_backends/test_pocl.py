"""What PoCL needs of a machine is settled before PoCL ends the process for want of it."""

import os

import pytest

from tilegen.backends import pocl


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
