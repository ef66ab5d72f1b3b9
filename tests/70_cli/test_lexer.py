"""Colours: the lexer reads every text of the language, and only terminals get them."""

import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Error, Keyword, Name, Number, String, Token
from pygments.util import ClassNotFound

from tilegen.cli.looks.lexer import TilegenLexer

ROOT = Path(__file__).parents[2]
TEXTS = sorted([*ROOT.glob("schedules/*.tg"), *ROOT.glob("examples/*.tg")])


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_it_reads_every_character_of_a_text(path: Path) -> None:
    text = path.read_text()
    found = [*TilegenLexer(stripnl=False).get_tokens(text)]
    assert "".join(word for _, word in found) == text
    assert not [word for kind, word in found if kind in Error]
    assert [word for kind, word in found if kind in Comment] == [
        line[line.index("#") :] for line in text.split("\n") if "#" in line.split('"')[0]
    ]


def kinds(text: str) -> dict[str, Token]:
    return {word: kind for kind, word in TilegenLexer().get_tokens(text) if word.strip()}


def test_words_have_their_kinds() -> None:
    found = kinds(
        "schedule tiled for gemm(TS=32 in {16, 32}):  # why\n    tile(i, TS) -> bi, in_tile\n    bind(bi, block.x)\n"
        "    cache_shared(A.shared, at=rows)\n    order(bi, lane, ..., register)\n"
    )
    assert found["schedule"] is Keyword.Declaration
    assert found["tiled"] is found["tile"] is found["cache_shared"] is Name.Function
    assert found["for"] is found["in"] is Keyword
    assert found["block.x"] is Name.Constant
    assert found["16"] in Number
    assert found["# why"] in Comment
    assert {found[word] for word in ("in_tile", "A.shared", "rows", "lane", "register")} == {Name}
    found = kinds(
        "kernel k(A: bf16[M, K]) -> C: f32[M] where M > 1:\n    C[i] = sum[k](f32(A[i, k])) if i < 2 else 0.5\n"
    )
    assert found["kernel"] is Keyword.Declaration
    assert found["k"] is Name
    assert found["bf16"] is found["f32"] is Keyword.Type
    assert found["where"] is found["if"] is found["else"] is Keyword
    assert found["sum"] is Name.Builtin
    found = kinds(
        'instruction m(A: f16[8, 8]) -> C: f32[8, 8] by warp:\n    A[i, k] in lane i * 4, register k\n    ptx "mma;"\n'
    )
    assert found["in lane"] is found["register"] is found["ptx"] is Keyword
    assert found['"mma;"'] in String


def test_pygments_finds_it_by_its_name() -> None:
    """The entry point that the package declares; an installed one is found by name."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pygments.lexers"]
    module, _, name = declared["tilegen"].partition(":")
    assert getattr(import_module(module), name) is TilegenLexer
    try:
        assert isinstance(get_lexer_by_name("tg"), TilegenLexer)
    except ClassNotFound:
        pytest.skip("the package is not installed with its entry points")


@pytest.fixture
def output(monkeypatch, cli):
    """What a command prints, on a terminal or into a pipe."""

    def of(*arguments: str, terminal: bool, **variables: str) -> str:
        for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {"TERM": "xterm-256color", **variables}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
        return cli([*arguments]).out

    return of


@pytest.mark.parametrize(
    "arguments",
    [
        ("emit", "gemm", "--schedule", "naive"),
        ("emit", "gemm", "--schedule", "naive", "--target", "opencl"),
        ("cat", "gemm"),
    ],
    ids=" ".join,
)
def test_a_terminal_has_colours_and_a_pipe_has_none(arguments, output) -> None:
    plain = output(*arguments, terminal=False)
    assert "\x1b" not in plain
    coloured = output(*arguments, terminal=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    assert output(*arguments, terminal=True, NO_COLOR="1") == plain
    assert output(*arguments, terminal=True, TERM="dumb") == plain
