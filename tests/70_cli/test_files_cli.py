"""Which file a command means, what there is to begin with, and texts that come through pipes."""

import json
import os
import subprocess
import sys

import pytest

import tilegen
from tests.support.cover import first
from tilegen.api import stock_names
from tilegen.cli import run
from tilegen.cli.commands.files import first_sentence
from tilegen.cli.shell.request import split_target

OWN = "kernel own(A: f32[N]) -> B: f32[N]:\n    B[i] = A[i]\n\nschedule s for own(T=8):\n    blocks(i, T) -> b, t\n"
FILES = stock_names()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(words: str) -> str:
    """A command line of a shell that runs tilegen."""
    return f"{sys.executable} -m tilegen {words}"


def in_shell(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=False)


# -- list


def test_list_names_every_kernel_and_schedule(cli) -> None:
    out = cli(["list"]).out
    words = set(out.replace(":", " ").split())
    for name in FILES:
        file = tilegen.load(name)
        assert f"\n{name}: " in f"\n{out}", "each stock file says what it is"
        assert {name, *file.kernels, *(s.name for s in file.schedules)} <= words
    assert max(map(len, out.splitlines())) <= 110


def test_list_of_a_file_says_what_each_schedule_is(cli) -> None:
    out = cli(["list", "gemm"]).out
    assert "kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]\n" in out
    assert "    tiled(TS=32)\n        The block loads a tile of A and one of B together" in out


@pytest.mark.parametrize("name", FILES)
def test_list_knows_the_head_of_every_kernel(name) -> None:
    file = tilegen.load(name)
    for kernel, declared in file.kernels.items():
        head = file.signature(kernel)
        assert head.startswith(f"kernel {kernel}(")
        assert all(f"{p.name.text}: {p.type.text}" in head for p in (*declared.inputs, *declared.outputs))
        assert not head.endswith(":")


def test_list_as_json(folder, cli) -> None:
    (folder / "own.tg").write_text(OWN)
    (listed,) = json.loads(cli(["list", "own.tg", "--json", "-"]).out)
    assert listed["kernels"] == [{"name": "own", "head": "kernel own(A: f32[N]) -> B: f32[N]"}]
    assert listed["schedules"][0]["parameters"] == {"T": {"default": 8, "candidates": []}}


def test_first_sentence() -> None:
    assert first_sentence("One of\nthem. Another.") == "One of them."
    assert first_sentence("") == ""


# -- cat and new


@pytest.mark.parametrize("name", FILES)
def test_cat_prints_a_text_with_the_same_kernels_and_schedules(name, cli) -> None:
    here, there = tilegen.api.from_text(cli(["cat", name]).out), tilegen.load(name)
    assert set(here.kernels) >= {k for k, decl in there.kernels.items() if decl.span.source == there.source}
    assert {s.name: [c.text for c in s.steps] for s in there.schedules}.items() <= {
        s.name: [c.text for c in s.steps] for s in here.schedules
    }.items()


def test_cat_of_a_schedule_is_as_written_with_what_it_extends(cli) -> None:
    out = cli(["cat", "gemm:tiled"]).out
    assert [s.name for s in tilegen.load(out).schedules] == ["naive", "tiled"]
    assert "schedule tiled extends naive:" in out
    assert "# One element of C a thread." in out


@pytest.mark.parametrize("name", [name for name in FILES if tilegen.load(name).schedules])
def test_new_files_need_no_other_and_say_the_same(name, folder) -> None:
    file = tilegen.load(name)
    for schedule in file.schedules:
        text = file.self_contained(schedule.name, schedule.kernel)
        assert " extends " not in "".join(line for line in text.splitlines() if not line.startswith("#"))
        mine = tilegen.load(text)
        (own,) = mine.schedules
        assert not mine.remark
        assert [c.text for c in own.steps] == [c.text for c in schedule.steps]
        doc = "\n".join(filter(None, (schedule.doc, schedule.form and f"By form: {schedule.form}")))
        assert (own.parameters, own.doc) == (schedule.parameters, doc)
        needed = {a: 1 for a, value in file.kernels[schedule.kernel].attributes.items() if value is None}
        assert mine.kernel(schedule.kernel, **needed).ir == file.kernel(schedule.kernel, **needed).ir


@pytest.mark.pocl
def test_a_new_file_checks_at_once_and_is_never_overwritten(folder, capsys) -> None:
    assert run(["new", "mine.tg", "--from", "gemm:tiled"]) == 0
    assert capsys.readouterr().out == "mine.tg: kernel gemm and schedule tiled; tilegen check mine.tg tries it out\n"
    assert run(["check", "mine.tg", "--device", "cpu", "--size", "M=5", "N=6", "K=7"]) == 0
    (folder / "mine.tg").write_text("# mine\n" + (folder / "mine.tg").read_text())
    assert run(["new", "mine.tg", "--from", "gemm:naive"]) == 2
    assert (folder / "mine.tg").read_text().startswith("# mine\n")
    assert run(["new", "mine.tg", "--from", "gemm:naive", "--force"]) == 0
    assert (folder / "mine.tg").read_text().count("schedule naive for gemm") == 1


def test_instructions_and_steps_of_the_file_come_along(folder) -> None:
    text = (
        "define halves(l) -> a, b:\n    tile(l, 2) -> a, b\n\n"
        "define unused(l) -> a, b:\n    tile(l, 3) -> a, b\n\n"
        "def half(x) = x / 2\ndef quarter(x) = half(half(x))\ndef eighth(x) = half(quarter(x))\n\n"
        "# A fourth part.\nkernel own(A: f32[N],\n           B: f32[N])  # two\n        -> C: f32[N]:\n"
        "    C[i] = quarter(A[i] + B[i])\n\nschedule first for own():\n    halves(i) -> o, t\n\n"
        "schedule second extends first:\n    bind(o, block.x)\n"
    )
    (folder / "own.tg").write_text(text)
    assert run(["new", "mine.tg", "--from", "own.tg:second"]) == 0
    mine = tilegen.load("mine.tg")
    assert mine.signature("own") == "kernel own(A: f32[N], B: f32[N]) -> C: f32[N]"
    assert (folder / "mine.tg").read_text() == (
        "def half(x) = x / 2\n\ndef quarter(x) = half(half(x))\n\n"
        "# A fourth part.\nkernel own(A: f32[N],\n           B: f32[N])  # two\n        -> C: f32[N]:\n"
        "    C[i] = quarter(A[i] + B[i])\n\ndefine halves(l) -> a, b:\n    tile(l, 2) -> a, b\n\n"
        "schedule second for own:\n    halves(i) -> o, t\n    bind(o, block.x)\n"
    )


# -- which file


def test_schedules_behind_a_colon(folder, cli) -> None:
    assert split_target("gemm:naive,tiled") == ("gemm", ["naive", "tiled"])
    assert split_target("a/b.tg") == ("a/b.tg", [])
    assert split_target("-:s") == ("-", ["s"])
    (folder / "odd:name").write_text(OWN)
    assert split_target("odd:name") == ("odd:name", [])
    assert "shared A.shared: f32[16, 16]" in cli(["show", "gemm:tiled", "--set", "TS=16"]).out


def test_an_own_file_is_not_taken_for_the_stock_file_nor_that_for_it(folder, cli) -> None:
    (folder / "gemm.tg").write_text(OWN.replace("own", "gemm"))
    captured = cli(["show", "gemm"])
    assert "f32[M, K]" in captured.out
    assert captured.err == "note: gemm is the stock file; for the file gemm.tg of this folder say gemm.tg\n"
    for own in ("gemm.tg", "./gemm.tg"):
        captured = cli(["show", own])
        assert "f32[M, K]" not in captured.out
        assert captured.err == ""
    for name, shown in (("gemm", "<stock gemm> has no schedule"), ("gemm.tg", "gemm.tg has no schedule")):
        assert f"error: {shown}" in cli(["show", f"{name}:nosuch"], 2).err


def test_a_folder_or_a_file_without_suffix_does_not_hide_the_stock_file(folder, cli) -> None:
    (folder / "blur").mkdir()
    assert run(["show", "blur"]) == 0
    (folder / "gemm").write_text(OWN)
    captured = cli(["show", "gemm"])
    assert "f32[M, K]" in captured.out
    assert "say ./gemm\n" in captured.err
    assert "f32[M, K]" not in cli(["show", "./gemm"]).out
    assert "own" in tilegen.load(folder / "gemm").kernels


@pytest.mark.parametrize("how", ["cat own.tg | {} -", "{} /dev/stdin < own.tg", "{} <(cat own.tg)"])
def test_text_through_pipes(how, folder) -> None:
    (folder / "own.tg").write_text(OWN)
    done = in_shell(how.format(command("show")))
    assert (done.returncode, done.stderr) == (0, "")
    assert "B" in done.stdout


@pytest.fixture
def pipe():
    """The name of a pipe that holds OWN, and can be read once."""
    readable, writable = os.pipe()
    os.write(writable, OWN.encode())
    os.close(writable)
    yield f"/dev/fd/{readable}"
    os.close(readable)


@pytest.mark.parametrize("words", ["show", "cat", "list"])
def test_a_pipe_is_a_file(words, pipe, cli) -> None:
    assert "B" in cli([words, pipe]).out


def test_what_a_pipe_has_brought_is_there_for_the_note(pipe, capsys) -> None:
    assert run(["explain", pipe, "--no-compile", "--size", "M=3"]) == 2
    assert "kernel 'own' has no size 'M'\n  note: its sizes are N" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["{} -:s -:other < own.tg", "{} <(cat own.tg) own.tg:s --set T=4,8"])
def test_a_pipe_is_read_once_by_compare(how, folder) -> None:
    (folder / "own.tg").write_text(f"{OWN}\nschedule other for own():\n    bind(i, block.x)\n")
    done = in_shell(how.format(command("compare --device interpreter --size N=8")))
    assert (done.returncode, done.stderr) == (0, "")
    assert "other" in done.stdout


def test_a_mistake_on_standard_input_is_told_as_that(folder) -> None:
    done = in_shell(f"echo 'kernel k(' | {command('show -')}")
    assert done.returncode == 1
    assert done.stderr.startswith("<stdin>:1:")


@pytest.mark.parametrize(
    "words", first(["cat hgemm", "help", "--help", "show --help", "list", "show hgemm:naive --json -", "help tile"], 2)
)
def test_readers_who_close_a_pipe_are_no_failure(words) -> None:
    done = in_shell(f"{command(words)} | head -1; echo ${{PIPESTATUS[0]}}")
    assert (done.stdout.split()[-1], done.stderr) == ("0", "")


def test_errors_into_a_closed_pipe(folder) -> None:
    (folder / "long.tg").write_text(OWN)
    done = in_shell(f"{command('show nosuch')} 2>&1 >/dev/null | true; echo ${{PIPESTATUS[0]}}")
    assert done.stdout.split()[-1] in ("0", "2")
    assert "Traceback" not in done.stderr
