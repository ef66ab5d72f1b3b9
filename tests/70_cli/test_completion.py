"""What TAB completes: by the shell's own function, in bash, and in a terminal."""

import os
import pty
import re
import select
import sys
from pathlib import Path

import pytest

from tests.support.workers import wait_until

OWN = "kernel own(A: f32[N], by: int = 2) -> B: f32[N]:\n    B[i] = by * A[i]\n\n"
OWN += "schedule first for own(T=8 in {8, 16}):\n    blocks(i, T) -> b, t\n\n"
OWN += "schedule second for own():\n    blocks(i, 4) -> b, t\n"
ROOT = Path(__file__).parents[2]
# A command line, of which the last word is begun -> what may stand there; bash cuts words at : and =.
LINES = {
    "tilegen comp": ["compare"],
    "tilegen check sy": ["syrk"],
    "tilegen check ow": ["own.tg"],
    "tilegen check fol": ["folder/"],
    "tilegen check folder/": ["folder/inner.tg"],
    "tilegen check own.tg : ": ["first", "second"],
    "tilegen check own.tg : se": ["second"],
    "tilegen check own.tg : first,": ["first,second"],
    "tilegen check own.tg --schedule f": ["first"],
    "tilegen check own.tg --schedule first,": ["first,second"],
    "tilegen check gemm_transposed --kernel gemm_n": ["gemm_nn", "gemm_nt"],
    "tilegen check own.tg --set ": ["T=", "by="],
    "tilegen check own.tg --set T =": ["8", "16"],
    "tilegen check own.tg --set T = 8 b": ["by="],
    "tilegen check own.tg : second --set ": ["by="],
    "tilegen check gemm --size M = 4 ": ["M=", "K=", "N="],
    "tilegen check --size N = 4 own": ["own.tg"],
    "tilegen compare gemm : tiled own": ["own.tg"],
    "tilegen check own.tg --device c": ["cuda", "cpu"],
    "tilegen check own.tg --dev": ["--device"],
    "tilegen help serp": ["serpentine"],
    "tilegen new mine.tg --from own.tg : f": ["first"],
    "tilegen check nosuch.tg : ": [],
    "tilegen check broken.tg --set ": [],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with files, and a command tilegen."""
    (tmp_path / "own.tg").write_text(OWN)
    (tmp_path / "broken.tg").write_text("kernel (")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inner.tg").write_text(OWN)
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "tilegen"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m tilegen "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def complete(folder, monkeypatch, cli):
    """What the script of a shell is told for the words of a line, in the folder."""

    def complete(shell: str, words: list[str]) -> list[str]:
        monkeypatch.setenv("_TILEGEN_COMPLETE", f"{shell}_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(words))
        monkeypatch.setenv("COMP_CWORD", words[-1] if shell == "fish" else str(len(words) - 1))
        said = cli([])
        assert said.err == ""
        return said.out.splitlines() if said.out.strip() else []

    return complete


@pytest.mark.parametrize("line", LINES)
def test_bash_completes(line, complete) -> None:
    words = line.split(" ")
    found = complete("bash", words if words[-1] or words[-2] != ":" else words[:-1])
    assert found == [f"plain,{word}" for word in LINES[line]]


@pytest.mark.parametrize(
    ("words", "found"),
    [(["check", "own.tg:se"], "own.tg:second"), (["check", "own.tg", "--size", "N=4", "--set", "T=8", "b"], "by=")],
)
def test_other_shells_complete_whole_words(words, found, complete) -> None:
    assert complete("fish", ["tilegen", *words]) == [f"plain,{found}"]
    assert complete("zsh", ["tilegen", *words])[:2] == ["plain", found]


def test_a_key_in_a_terminal(folder) -> None:
    """bash itself, with its own reading of words, completes a schedule after a colon."""
    (folder / "rc").write_text("PS1='> '\neval \"$(_TILEGEN_COMPLETE=bash_source tilegen)\"\n")
    child, terminal = pty.fork()
    if child == 0:
        os.execvp("bash", ["bash", "--rcfile", "rc", "-i"])
    shown = _until(terminal, "> ")
    os.write(terminal, b"tilegen cat own.tg:sec\t")
    shown += _until(terminal, "own.tg:second")
    os.write(terminal, b"\n")
    shown += _until(terminal, "schedule second for own")
    os.write(terminal, b"exit\n")
    os.waitpid(child, 0)
    assert "own.tg:second" in shown
    assert "own.tg:own.tg" not in shown


def _until(terminal: int, wanted: str) -> str:
    """What is shown, without its colours, until the wanted text comes."""
    shown = ""

    def comes() -> bool:
        nonlocal shown
        if select.select([terminal], [], [], 0)[0]:
            shown = re.sub(r"\x1b\[[\d;]*m", "", shown + os.read(terminal, 4096).decode())
        return wanted in shown

    wait_until(comes)
    return shown
