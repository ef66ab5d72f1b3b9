"""What `tilegen learn` writes, and what it says of mistakes: a golden text for each, tests/errors/course/*.txt."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tilegen.cli import run
from tilegen.course import chapters, find_chapter
from tilegen.frontend.data import data_folder

ERRORS = Path(__file__).parents[1] / "errors" / "course"
SOLUTIONS = Path(__file__).parent / "solutions"
START = find_chapter(1).puzzle.start
SOLVED = (SOLUTIONS / "1.tg").read_text()
FILES = {
    "start.tg": START,
    "other.tg": START.replace("A[h, i, k] * B[k, j]", "A[h, i, k] + B[k, j]"),
    "one_cache.tg": SOLVED.replace("    cache_shared(B, at=ko)\n", ""),
    "racy.tg": START.replace(
        "    cache_register", "    tile(k, 32) -> ko, ki\n    bind(ki, thread.z)\n    cache_register"
    ),
    "large.tg": SOLVED.replace("    unroll(ki)\n", "    pad(A.shared, 600)\n").replace("TS=32", "TS=30"),
    "two.tg": START + SOLVED[SOLVED.index("\nschedule") :].replace("mine", "second"),
    "no_schedule.tg": START[: START.index("schedule")],
}
# name of the text -> the command
COMMANDS = {
    "no_chapter": "learn 99",
    "no_number": "learn tiles",
    "not_fast_enough": "learn 1 start.tg --device cpu",
    "one_cache": "learn 1 one_cache.tg --device cpu",
    "other_kernel": "learn 1 other.tg --device cpu",
    "illegal": "learn 1 racy.tg --device cpu",
    "too_large": "learn 1 large.tg --device cpu",
    "two_schedules": "learn 1 two.tg --device cpu",
    "no_schedule": "learn 1 no_schedule.tg --device cpu",
    "start_there": "learn 1 --start start.tg",
    "notebook_no_folder": "learn 1 --notebook none/1.ipynb",
    "start_and_file": "learn 1 start.tg --start other.tg",
    "start_of_none": "learn --start other.tg",
}


@pytest.mark.pocl
@pytest.mark.parametrize("name", COMMANDS)
def test_a_mistake_is_told_as_reviewed(name, tmp_path, monkeypatch, capsys, golden_error) -> None:
    monkeypatch.chdir(tmp_path)
    for file, text in FILES.items():
        (tmp_path / file).write_text(text)
    code = run(shlex.split(COMMANDS[name]))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert all((tmp_path / file).read_text() == text for file, text in FILES.items())
    told = f"$ tilegen {COMMANDS[name]}\n{captured.err}exit code {code}\n"
    golden_error(told, f"course/{name}.txt")


def test_every_golden_text_is_of_a_command() -> None:
    assert {path.stem for path in ERRORS.iterdir()} == set(COMMANDS)


def test_learn_lists_the_chapters(cli) -> None:
    out = cli(["learn"]).out
    for chapter in chapters():
        assert f"{chapter.number}. {chapter.title}" in out
        assert chapter.idea.split()[0] in out


def test_learn_shows_a_puzzle_and_writes_its_start(tmp_path, monkeypatch, cli) -> None:
    monkeypatch.chdir(tmp_path)
    out = cli(["learn", "1"]).out
    assert START in out
    assert "at most 14 ms by the roofline" in out
    assert run(["learn", "1", "--start", "own.tg"]) == 0
    assert (tmp_path / "own.tg").read_text() == START
    assert run(["check", "own.tg", "--device", "cpu"]) == 0


def test_learn_writes_a_notebook_without_outputs(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["learn", "1", "--notebook", "1.ipynb"]) == 0
    text = (tmp_path / "1.ipynb").read_text()
    assert len(text) < 30_000
    assert all(cell.get("outputs", []) == [] for cell in json.loads(text)["cells"])


@pytest.mark.pocl
def test_learn_says_that_a_puzzle_is_solved(tmp_path, monkeypatch, cli) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.tg").write_text(SOLVED)
    out = cli(["learn", "1", "own.tg", "--device", "cpu"]).out
    assert out.endswith("puzzle 1 is solved\n")
    assert "13.8 ms by the roofline of T4 (at most 14)" in out


def test_solutions_are_not_where_a_student_sees_them() -> None:
    shipped = {each.name for each in (data_folder("examples") / "course").iterdir()}
    assert {name for name in shipped if not name.endswith(".md")} == {"puzzles.toml"}
    assert {path.stem for path in SOLUTIONS.iterdir()} == {str(chapter.number) for chapter in chapters()}


@pytest.mark.parametrize("chapter", chapters(), ids=lambda each: each.name)
def test_a_chapter_is_printed_whole(chapter, cli):
    text = cli(["learn", str(chapter.number), "--read"]).out
    assert "../" not in text
    shown = " ".join(text.split())
    for part in chapter.parts:
        for line in part.text.splitlines():
            if part.kind and line.strip():
                assert f"    {line}" in text
            elif part.kind == "" and not re.search(r"[\[|*<]", line):
                assert " ".join(line.split()) in shown


def test_the_search_finds_chapters(cli) -> None:
    assert "tilegen learn 1 --read\n    " in cli(["help", "-s", "shared memory"]).out
