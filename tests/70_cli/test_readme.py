"""What the README says is so: its kernels parse and build, its steps exist, its Python runs."""

import re
from pathlib import Path

import pytest

import tilegen
from tilegen.cli.commands import tilegen as command
from tilegen.primitives import registry

TEXT = (Path(__file__).parents[2] / "README.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", TEXT, re.DOTALL)


def test_its_kernels_build() -> None:
    texts = [text for kind, text in BLOCKS if not kind and re.search(r"^kernel ", text, re.MULTILINE)]
    assert len(texts) == 2
    for text in texts:
        file = tilegen.load(text)
        for name in file.kernels:
            file.kernel(name)
        for schedule in file.schedules:
            assert file.schedule(schedule.name).stages


def test_it_names_every_step() -> None:
    for word in registry():
        assert f"`{word}(" in TEXT, f"README does not name the step {word}"


def test_it_names_every_command() -> None:
    for word in command.commands:
        assert f"tilegen {word}" in TEXT


def test_it_names_every_rung_in_order() -> None:
    rungs = [s.name for s in tilegen.load("gemm").schedules]
    places = [TEXT.find(f"\n| {name} |") for name in rungs]
    assert -1 not in places
    assert places == sorted(places)


def test_its_python_is_right() -> None:
    source = next(text for kind, text in BLOCKS if kind == "python")
    text = source.split("text = ")[1].splitlines()[0]
    assert "kernel twice" in text
    twice = tilegen.load(eval(text.removeprefix("tilegen.load(").removesuffix(")"))).kernel().schedule()
    twice = twice.tile("i", 128, into=("b", "t")).bind("b", "block.x").bind("t", "thread.x")
    assert len(twice.stages) == 4


@pytest.mark.parametrize("mark", ["install", "test"])
def test_its_two_commands_are_one_line_each(mark: str) -> None:
    block = TEXT.split(f"<!-- {mark} -->\n```\n")[1].split("\n```")[0]
    assert "\n" not in block
    assert ".venv/bin/" in block
