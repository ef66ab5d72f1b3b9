"""What a wheel alone can print: each word is explained, each page is found, and no file is named that is not there."""

import ast
import re
from pathlib import Path

import pytest

import tilegen
from tilegen.cli import load_commands, run
from tilegen.cli.commands.help import _pages
from tilegen.cli.looks.pages import readable, sections, words
from tilegen.frontend.data import data_folder
from tilegen.frontend.equations.values import _FUNCTIONS
from tilegen.frontend.stock import stock_instructions
from tilegen.ir.nodes import BLOCK_KINDS, DTYPE_BYTES, REDUCTIONS, THREAD_KINDS

COMMANDS = load_commands().commands
PACKAGE = Path(tilegen.__file__).parent
FILES = re.compile(r"\b(examples|schedules|grammar|tests|tilegen)/\w+|\b(?!Agents\b)[\w/]+\.md\b")
IN_A_CHECKOUT = {"grammar/tilegen", "tests/60_lab", "tests/50_backends"}  # and said to be there


def printed(capsys, *arguments):
    assert run(list(arguments)) == 0
    return capsys.readouterr().out


def words_of_the_grammar():
    grammar = (data_folder("grammar") / "tilegen.lark").read_text()
    return set(re.findall(r'"([a-z]+)"', re.sub(r"//.*", "", grammar)))


def test_every_word_of_the_language_is_explained():
    explained = {part for word in words() for part in word.split()}
    # what says little alone: "accumulates 8 terms at a time with 24 fraction bits, truncated to 10"
    little = {"of", "at", "a", "to", "with", "time", "term", "terms", "bits", "fraction", "truncated", "rounded"}
    assert words_of_the_grammar() - explained <= little
    assert {*_FUNCTIONS, *REDUCTIONS, *DTYPE_BYTES, *BLOCK_KINDS, *THREAD_KINDS} <= explained


@pytest.mark.parametrize(
    "word", ["sum", "where", "wgmma", "instead of", "f32", "proved", "witness", "Kernels", "report"]
)
def test_a_word_is_explained(word, capsys):
    text = printed(capsys, "help", *word.split())
    assert text.strip()
    if word in words():
        assert text.startswith(words()[word][0])
        assert " ".join(readable(words()[word][1])).strip() in " ".join(text.split("\n"))


def test_the_instructions_that_it_names_are_there():
    named = {n for _, meaning in words().values() for n in re.findall(r"\b(?:mma|wgmma|[ls][dt]matrix)_\w+", meaning)}
    assert named
    assert named <= stock_instructions().keys()


def test_an_option_and_an_unknown_word_are_looked_for(capsys):
    assert "tilegen help emit\n    --whole" in printed(capsys, "help", "--whole")
    assert "tilegen help tensorize" in printed(capsys, "help", "fragments")


def test_the_contents_name_each_section_and_each_is_printed(capsys):
    listed = re.findall(r"^  tilegen help ([a-z ]+?) +\d", printed(capsys, "help", "language"), re.M)
    assert listed == list(sections())
    for name in listed:
        assert "\n".join(readable(sections()[name])) in printed(capsys, "help", *name.split())


def test_the_search_finds_steps_sections_and_instructions(capsys):
    text = printed(capsys, "help", "-s", "shared memory")
    for place in ("tilegen help cache_shared", "tilegen help instructions"):
        assert f"{place}\n    " in text
    assert "tilegen help NAME, of an instruction\n    wgmma" in printed(capsys, "help", "-s", "wgmma")
    assert printed(capsys, "help", "-s", "no such text") == "'no such text' is nowhere\n"


def test_tables_and_lists_fit_the_line():
    text = (
        "- one\n- two `[a](b)`\n\n| word | what |\n|---|---|\n| `x` | y |\n\nSee **[there](a.md)** and [here](https://b).\n"
        "\nA **power of `x**y`** is `2**3`.\n"
    )
    assert [*readable(text)] == [
        "",
        "- one",
        "",
        "- two `[a](b)`",
        "`x`",
        "    y",
        "",
        "See there and here (https://b).",
        "",
        "A power of `x**y` is `2**3`.",
    ]


def shown_texts():
    """(where, text) of what a user sees: pages, help, the comments of stock files, strings in the code."""
    yield from _pages(
        {name: f"{each.help} {[vars(p).get('help') for p in each.params]}" for name, each in COMMANDS.items()}
    )
    for name in tilegen.api.stock_names():
        yield name, tilegen.load(name).text
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
                yield f"{path.name}:{node.lineno}", node.value


def test_nothing_names_a_file_that_a_wheel_does_not_have():
    for where, text in shown_texts():
        for found in FILES.finditer(text):
            program = (PACKAGE.parent / f"{found[0]}.py").is_file() and found[1] == "examples"  # tilegen cat prints it
            assert program or found[0] in IN_A_CHECKOUT, f"{where} names {found[0]}"


def test_what_lies_beside_the_stock_files_can_be_printed(capsys):
    assert "define coarsen(" in printed(capsys, "cat", "std")
    assert "instruction mma_m16n8k16_{F}(" in printed(capsys, "cat", "instructions")
    for path in (*sorted((PACKAGE.parent / "examples").glob("*.py")), *(PACKAGE / "lab/predict/machines").iterdir()):
        assert printed(capsys, "cat", path.name) == path.read_text()
