"""What the documents show is so: their commands print it, their kernels parse, their Python runs, their files exist.

`pytest --update-golden tests/70_cli/test_documents.py` writes the present output below the commands.
"""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import click
import pytest

import tilegen
from tests.support.documents import (
    DOCUMENTS,
    ROOT,
    TEXTS,
    Block,
    Command,
    blocks,
    commands,
    matches,
    replace_output,
    restore_elisions,
    run_command,
    tables,
    text_of,
)
from tilegen.backends.compiler import nvrtc
from tilegen.backends.devices import opencl
from tilegen.cli import load_commands
from tilegen.cli.shell.arguments import parse_list, repeat_options
from tilegen.cli.shell.request import split_target
from tilegen.frontend.data import shipped_text
from tilegen.frontend.stock import standard_steps
from tilegen.primitives import GROUPS, registry, words_in

program = load_commands()
BLOCKS = [block for document in DOCUMENTS for block in blocks(document)]
COMMANDS = [command for document in DOCUMENTS for command in commands(document)]
NAMED = {block.file: block for block in BLOCKS if block.kind == "tg" and block.file}


def place(shown: Block | Command) -> str:
    return f"{shown.document}:{shown.line}"


def of_kind(kind: str) -> list[Block]:
    return [block for block in BLOCKS if block.kind == kind]


# -- what is run


@pytest.mark.parametrize("command", COMMANDS, ids=place)
def test_a_command_prints_what_is_shown_below_it(command: Command, tmp_path: Path, request) -> None:
    if re.search(r"tilegen (check|compare|ladder|explain) ", command.words):
        for missing in (opencl.unavailable_reason(), nvrtc.unavailable_reason()):
            if missing:
                pytest.skip(missing)
    for name, block in NAMED.items():
        (tmp_path / name).write_text(block.text)
    actual = run_command(command.words, tmp_path)
    if matches(command.output, actual):
        return
    if request.config.getoption("--update-golden"):
        replace_output(command, restore_elisions(command.output, actual))
        return
    assert command.output == actual, f"{place(command)} has changed; if rightly so, run pytest --update-golden"


@pytest.mark.pocl
@pytest.mark.parametrize("block", of_kind("python"), ids=place)
def test_a_block_of_python_runs(block: Block, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block.text, place(block), "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("block", of_kind("tg"), ids=place)
def test_a_text_parses_and_its_kernels_build(block: Block) -> None:
    file = tilegen.load(block.text)
    assert file.kernels or file.schedules
    for name in file.kernels:
        file.kernel(name)
    if not block.file:  # a file may be shown for its mistake
        for schedule in (each for each in file.schedules if each.span.source == file.source):
            assert file.kernel(schedule.kernel).schedule(schedule.name).stages


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    for block in BLOCKS:
        marked = "<!-- " in text_of(block.document).splitlines()[block.line - 3]
        assert block.kind in ("console", "python", "tg") or marked, place(block)


# -- what is named


def command_lines() -> list[tuple[str, str]]:
    """(document, a command of tilegen) in the running text and in tables."""
    found = [(d, line) for d in TEXTS for line in re.findall(r"`tilegen ([^`]+)`", text_of(d))]
    return [(document, " ".join(line.split())) for document, line in found]


@pytest.mark.parametrize(("document", "line"), command_lines())
def test_a_command_line_can_be_typed(document: str, line: str) -> None:
    word, *arguments = repeat_options(shlex.split(line))
    if word.startswith("-") or word == "help" or not arguments:
        assert word.startswith("-") or word in program.commands
        return
    context = program.commands[word].make_context(word, arguments)
    assert isinstance(context, click.Context)
    given = context.params.get("file") or context.params.get("source") or ()
    for target in (given,) if isinstance(given, str) else given:
        name, schedules = split_target(target)
        own = name.endswith((".tg", ".json", ".jsonl", ".toml")) or shipped_text(name)
        file = None if own else tilegen.load(name)
        for schedule in (*schedules, *parse_list(context.params.get("schedule"))):
            assert not file or file.find_schedule(schedule)


@pytest.mark.parametrize("document", TEXTS)
def test_the_files_that_it_names_are_there(document: str) -> None:
    folders = "examples|grammar|schedules|tests|tilegen|.ci"
    named = re.findall(rf"[`(\s]((?:{folders})/[\w./]*\w)", text_of(document))
    for name in named:
        assert (ROOT / name).exists(), f"{document} names {name}"
    for name in re.findall(r"\]\(([\w./]+)\)", text_of(document)):
        assert (ROOT / document).parent.joinpath(name).exists(), f"{document} links to {name}"


def test_the_order_of_the_folders_is_the_one_that_is_held() -> None:
    chain = re.findall(r"`(\{errors .*?)`", " ".join(text_of("README.md").split()))[0]
    shown = [set(re.findall(r"\w+", part)) for part in chain.split(" < ")]
    shape = (ROOT / "tests/00_shape/test_shape.py").read_text(encoding="utf-8")
    ranks = re.findall(r"^    (\{.*\}),$", shape.split("RANKS")[1].split("]\n")[0], re.MULTILINE)
    assert shown == [ast.literal_eval(rank) for rank in ranks][:-1]


def test_every_step_is_in_the_table_of_its_group() -> None:
    (table,) = [table for table in tables("README.md") if table[0][0] == "group"]
    shown = {row[0]: set(re.findall(r"`(\w+)`", row[1])) for row in table[1:]}
    assert {group: shown.get(group) for group in GROUPS} == {group: set(words_in(group)) for group in GROUPS}
    assert shown["composite"] <= set(standard_steps())


def test_the_reference_explains_every_step_and_command() -> None:
    text = text_of("examples/language.md")
    for word in registry():
        assert f"`{word}(" in text, word
    for word in program.commands:
        assert f"tilegen {word}" in text, word


def test_the_results_have_every_schedule_in_order() -> None:
    text = text_of("examples/results.md")
    # Those for short and long sums, and for rows of any alignment, which the size of the table has not, are not in it.
    by_copies = {f"{way}_{rows}" for way in ("transposed", "padded") for rows in ("rows", "parts")}
    left_out = {"strided", "split_k", "whole_rows", "split_parts"} | by_copies
    names = [schedule.name for schedule in tilegen.load("gemm").schedules if schedule.name not in left_out]
    places = [text.find(f"\n| {name} |") for name in names]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("mark", ["install", "test"])
def test_the_two_commands_are_one_line_each(mark: str) -> None:
    block = text_of("README.md").split(f"<!-- {mark} -->\n```\n")[1].split("\n```")[0]
    assert "\n" not in block
    assert ".venv/bin/" in block


# -- the mechanism itself


@pytest.mark.parametrize(
    ("shown", "actual", "same"),
    [
        ("a\nb", "a\nb", True),
        ("a\nb", "a\nc", False),
        ("a\n...\nd", "a\nb\nc\nd", True),
        ("a\n...\nd", "a\nd", True),
        ("a\n...\nd", "a\nb", False),
        ("a ... ms", "a 1.5 ms", True),
        ("a ... ms", "a 1.5\n ms", False),
        ("a", "a\nb", False),
    ],
)
def test_dots_stand_for_anything(shown: str, actual: str, same: bool) -> None:
    assert matches(shown, actual) == same


@pytest.mark.parametrize(
    ("shown", "actual", "expected"),
    [
        ("a\n...\nd", "a\nx\ny\nd\ne", "a\n...\nd\ne"),
        ("a\n...", "a\nx\ny", "a\n..."),
        ("step ... ms\nb", "step 7 ms\nc", "step ... ms\nc"),
        ("a\n...\nd", "x\ny", "x\ny"),
    ],
)
def test_an_update_keeps_the_dots_that_fit(shown: str, actual: str, expected: str) -> None:
    assert restore_elisions(shown, actual) == expected
