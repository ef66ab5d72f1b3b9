"""Each chapter runs as a notebook, and its commands print what stands below them; its puzzle can be solved.

`pytest --update-golden tests/68_course/test_chapters.py` writes the present output below the commands.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

import tilegen
from tests.support.cover import first
from tests.support.documents import Command, matches, replace_output, restore_elisions, tables
from tilegen.backends.compiler import nvrtc
from tilegen.backends.devices.devices import engine
from tilegen.cli import run
from tilegen.course import Chapter, chapters, judge, notebook_of
from tilegen.course.notebook import SHELL, commands_in
from tilegen.lab.checks.sizes import GPU_LIMITS, power_sizes
from tilegen.lab.predict.explain import explain
from tilegen.lab.predict.machine import find_machine

ROOT = Path(__file__).parents[2]
SOLUTIONS = Path(__file__).parent / "solutions"
CHAPTERS = chapters()
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "80"}


def title_of(chapter: Chapter) -> str:
    return chapter.name


def solution(chapter: Chapter) -> Path:
    return SOLUTIONS / f"{chapter.number}.tg"


def document(chapter: Chapter) -> str:
    return f"examples/course/{chapter.name}.md"


# -- as a notebook


def run_notebook(chapter: Chapter, folder: Path) -> Any:
    """The notebook with its outputs, run in `folder` by a kernel of its own."""
    notebook = nbformat.reads(json.dumps(notebook_of(chapter)), as_version=4)
    nbformat.validate(notebook)
    client = nbclient.NotebookClient(notebook, timeout=None, resources={"metadata": {"path": str(folder)}})
    return client.execute(env=os.environ | ENVIRONMENT)


def outputs(notebook: Any) -> list[str]:
    """What each command of tilegen's has printed, in their order."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.startswith(SHELL)]
    texts = ["".join(part.get("text", "") for part in cell.outputs) for cell in cells]
    return ["\n".join(line.rstrip() for line in text.splitlines()).strip("\n") for text in texts]


@pytest.mark.pocl
@pytest.mark.nvrtc
@pytest.mark.parametrize("chapter", first(CHAPTERS), ids=title_of)
def test_a_chapter_runs_as_a_notebook_and_prints_what_is_shown(chapter: Chapter, tmp_path: Path, request) -> None:
    actual = outputs(run_notebook(chapter, tmp_path))
    shown = [each for part in chapter.parts if part.kind == "console" for each in commands_in(part)]
    assert len(shown) == len(actual)
    assert "Traceback" not in "".join(actual)
    for (words, output), printed in zip(shown, actual, strict=True):
        if matches(output.rstrip("\n"), printed):
            continue
        command = Command(document(chapter), 0, words, output.rstrip("\n"))
        if request.config.getoption("--update-golden"):
            replace_output(command, restore_elisions(command.output, printed))
            continue
        assert command.output == printed, f"{words} in {document(chapter)} prints something else"


# -- the puzzles


@pytest.mark.pocl
@pytest.mark.parametrize("chapter", CHAPTERS, ids=title_of)
def test_a_puzzle_is_solved_by_its_solution(chapter: Chapter) -> None:
    found = judge(chapter.puzzle, tilegen.load(solution(chapter)).schedule("mine"), engine("cpu"))
    assert found.checks > 0
    assert all(figure.is_met for figure in found.figures)


@pytest.mark.nvrtc
@pytest.mark.parametrize("chapter", CHAPTERS, ids=title_of)
def test_what_a_puzzle_begins_and_ends_with_is_compiled_without_spills(chapter: Chapter) -> None:
    arch = find_machine(chapter.puzzle.machine).arch
    for text in (chapter.puzzle.start, solution(chapter).read_text(encoding="utf-8")):
        built = nvrtc.compile_text(tilegen.load(text).schedule("mine").source(arch=arch), arch)
        assert built.resources
        assert all(each.spills == 0 for each in built.resources.values())


@pytest.mark.nvrtc
@pytest.mark.parametrize("chapter", CHAPTERS, ids=title_of)
def test_what_a_chapter_shows_is_compiled_for_a_t4(chapter: Chapter) -> None:
    # The schedules of cpu.tg are for a CPU: their tiles are more than a thread's registers hold.
    shown = re.findall(r"^\$ tilegen show (\w+) --schedule (\w+)", chapter.text, re.MULTILINE)
    arch = find_machine(chapter.puzzle.machine).arch
    assert arch == "sm_75" or "tensor cores" in chapter.title
    for file, name in shown:
        assert nvrtc.compile_text(tilegen.load(file).schedule(name).source(arch=arch), arch).resources


# -- what the texts say


@pytest.mark.parametrize("chapter", CHAPTERS, ids=title_of)
def test_chapters_are_of_one_form(chapter: Chapter) -> None:
    assert chapter.text.startswith(f"# {chapter.number}. {chapter.title}\n\n{chapter.idea[:20]}")
    assert chapter.text.count("\n## Puzzle\n") == 1
    assert chapter.puzzle.kernel.name
    assert run(["learn", str(chapter.number)]) == 0
    assert max(map(len, chapter.task.splitlines())) <= 120


def figures() -> list[tuple[str, str, str, str]]:
    """(document, schedule of gemm, predicted, measured), in TFLOP/s on an H200."""
    found = []
    for chapter in CHAPTERS:
        for head, *rows in tables(document(chapter)):
            if head == ["schedule", "predicted, TFLOP/s at most", "measured, TFLOP/s"]:
                found += [(document(chapter), *row) for row in rows]
    assert found
    return found


@pytest.mark.parametrize(("where", "schedule", "predicted", "measured"), figures())
def test_the_figures_are_those_of_the_roofline_and_of_the_results(where, schedule, predicted, measured) -> None:
    results = (ROOT / "examples/results.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| {schedule} \|.*\| {re.escape(measured)} \|$", results, re.MULTILINE), where
    core = tilegen.load("gemm").schedule(schedule).core
    sizes = power_sizes(core.kernel, dict.fromkeys("MNK", 4096), GPU_LIMITS)
    (step,) = explain(core, sizes, compiled=False, last=True).steps
    assert float(predicted) == pytest.approx(2 * 4096**3 / step.milliseconds / 1e9, abs=0.06)


def measured_in_prose() -> list[tuple[str, str]]:
    """(document, figure) of each paragraph that names the results as where its figures are from."""
    found = []
    for chapter in CHAPTERS:
        for paragraph in chapter.text.split("\n\n"):
            if "(../results.md" in paragraph and not paragraph.startswith("|"):
                figures = re.findall(r"\b\d{4}\b|\b\d+\.\d\b", paragraph)
                found += [(document(chapter), figure) for figure in figures]
    return found


def test_what_chapters_say_was_measured_stands_in_the_results() -> None:
    results = (ROOT / "examples/results.md").read_text(encoding="utf-8")
    figures = measured_in_prose()
    assert {"45.2", "40.0", "4066", "51.6"} <= {figure for _, figure in figures}
    for where, figure in figures:
        assert re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.]\d)", results), (where, figure)


def test_every_topic_of_the_lectures_has_its_chapter() -> None:
    listed, topics = tables("examples/course/README.md")
    assert [row[0].split("](")[0] for row in listed[1:]] == [f"[{c.number}. {c.title}" for c in CHAPTERS]
    assert [row[0] for row in topics[1:]] == [f"S{number}" for number in range(1, 26)]
    places = {int(number) for row in topics[1:] for number in row[2].split(", ")}
    assert places == {chapter.number for chapter in CHAPTERS}
