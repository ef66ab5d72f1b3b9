"""What the proof leaves open is refused by every call and command that would run or print it, unless allowed."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import tilegen
from tilegen.backends.compiler import fatbin
from tilegen.cli import run
from tilegen.errors import ProofError
from tilegen.poly.system import Undecided


@pytest.fixture
def beyond_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """No question about integers is answered within its budget."""

    def raise_undecided(*_: object) -> int:
        raise Undecided

    monkeypatch.setattr("tilegen.proof.check_integers", raise_undecided)


def add():
    return tilegen.load("vector_add").schedule("plain")


@pytest.mark.pocl
@pytest.mark.usefixtures("beyond_the_budget")
def test_an_unproved_call_is_refused() -> None:
    x = np.ones(5, np.float32)
    with pytest.raises(
        ProofError, match="'vector_add' is unproved: integers: the question is beyond the budget"
    ) as caught:
        add().compile("cpu")(x, x)
    assert "unproved=True" in caught.value.render()
    assert add().compile("cpu", unproved=True)(x, x).tolist() == [2] * 5


@pytest.mark.usefixtures("beyond_the_budget")
def test_an_unproved_text_is_refused_or_says_so_in_its_head(cli) -> None:
    with pytest.raises(ProofError, match="is unproved: integers"):
        add().source()
    assert add().source(unproved=True).splitlines()[1] == "// unproved: integers"
    captured = cli(["emit", "vector_add", "--schedule", "plain"], 3)
    assert "is unproved: integers" in captured.err
    assert captured.out == ""
    assert "\n// unproved: integers\n" in cli(["emit", "vector_add", "--schedule", "plain", "--unproved"]).out


@pytest.mark.nvrtc
@pytest.mark.usefixtures("beyond_the_budget")
@pytest.mark.plugin("export")
def test_an_unproved_export_is_refused_or_says_so_in_its_heads(tmp_path, cli) -> None:
    if fatbin.library_missing() and not shutil.which("fatbinary"):
        pytest.skip("no fat binary can be made")
    words = ["export", "vector_add", "--schedule", "plain", "-o", str(tmp_path / "out")]
    assert "is unproved: integers" in cli(words, 3).err
    assert not (tmp_path / "out").exists()
    assert run([*words, "--unproved"]) == 0
    for name in ("vector_add.cu", "vector_add_launch.h", "vector_add.cpp"):
        assert "// version plain: unproved: integers" in (tmp_path / "out" / name).read_text()


@pytest.mark.pocl
@pytest.mark.usefixtures("beyond_the_budget")
@pytest.mark.parametrize("command", ["check", "compare", "ladder"])
def test_commands_that_run_refuse_an_unproved_kernel(command: str, cli) -> None:
    words = [command, "vector_add", "--schedule", "plain", "--device", "cpu"]
    captured = cli(words, 3)
    assert "is unproved: integers" in captured.out + captured.err
    assert "--unproved" in captured.out + captured.err
    assert "is unproved" not in json.dumps(json.loads(cli([*words, "--unproved", "--json", "-"]).out))


@pytest.mark.usefixtures("beyond_the_budget")
def test_prove_of_an_unproved_schedule_ends_with_3(cli) -> None:
    assert "unproved: integers" in cli(["prove", "vector_add", "--schedule", "plain"], 3).out


def test_a_proved_text_has_no_note_about_its_proof(cli) -> None:
    assert "unproved" not in cli(["emit", "vector_add", "--schedule", "plain"]).out
