"""Tables on a narrow terminal: nothing is cut off, and no line is longer than the terminal."""

import io
import re

import pytest
from rich.table import Table

from tests.support.cover import first
from tilegen.cli import run
from tilegen.cli.looks import printing

COMMANDS = {
    "compare gemm:naive,tiled --device cpu --size M=32 N=32 K=32": ["registers", "shared", "p20..p80", "PoCL"],
    "explain gemm:tiled --no-compile": ["33*K*M*N/32", "loads:FMA", "issue slots", "cache_shared(A, at=ko)"],
    "explain hgemm:padded --last --no-compile": ["3*K*M*N/256", "147456", "(tid%16)*8]"],
    "ladder gemm:naive --device interpreter": ["predicted", "bind(bj, block.x)"],
    "prove gemm:tiled": ["obligation", "verdict", "coverage"],
    "check gemm:tiled --device interpreter --size M=3 N=4 K=5": ["schedule", "M=3 K=5 N=4", "of the bound"],
}


@pytest.mark.pocl
@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize("width", first([70, 40, 100]))
def test_tables_fit_and_lose_nothing(words, width, monkeypatch) -> None:
    shown = io.StringIO()
    console = printing.Terminal(shown, force_terminal=True, color_system=None, width=width)
    monkeypatch.setattr(printing, "console", lambda: console)
    assert run(words.split()) == 0
    text = shown.getvalue()
    assert "…" not in text
    drawn = [line for line in text.splitlines() if re.match(r"[┃│┏┡└]|  *─", line)]
    assert drawn
    assert max(map(len, drawn)) <= width
    if width >= 70:
        assert all(word in text for word in COMMANDS[words])


def table(columns: int, rows: int = 2) -> Table:
    made = Table(title="numbers")
    for number in range(columns):
        made.add_column(f"head {number}" if number else "name")
    for row in range(rows):
        made.add_row(*(f"{row}.{number}" if number else f"row {row}" for number in range(columns)))
    return made


def on_terminal(value: Table, width: int) -> str:
    shown = io.StringIO()
    printing.Terminal(shown, force_terminal=True, color_system=None, width=width).print(value)
    return shown.getvalue()


def test_each_part_begins_with_the_names_of_the_rows() -> None:
    whole, parts = on_terminal(table(9), 200), on_terminal(table(9), 40)
    assert whole.count("row 1") == 1
    assert parts.count("row 1") == parts.count("┏") == 2
    assert parts.count("numbers") == 1
    for row in range(2):
        assert all(parts.count(f"{row}.{number}") == 1 for number in range(1, 9))


def test_no_number_is_broken_for_a_head_or_a_name() -> None:
    made = Table("name", "a head of many words", "another one")
    made.add_row("a row with a very long name that wraps", "123456789", "a text that may wrap over several lines of it")
    shown = on_terminal(made, 30)
    assert "123456789" in shown
    assert max(map(len, shown.splitlines())) <= 30


def test_what_is_empty_takes_no_place() -> None:
    made = Table("name", "", "value")
    made.add_row("n" * 20, "", "7")
    assert on_terminal(made, 30).count("┳") == 1


def test_a_pipe_has_no_width(capsys) -> None:
    assert run(["explain", "gemm:tiled", "--no-compile", "--last"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) > 100
