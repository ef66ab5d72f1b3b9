"""What can be read on a terminal: the sections of the documents, and the words of the language and of messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from textwrap import wrap

from tilegen.cli.looks import printing
from tilegen.frontend.data import data_folder

_LINE = 100  # characters, where no terminal has fewer
_BOLD = re.compile(r"(`[^`]*`)|\*\*")  # in code two stars are a power
_LINK = re.compile(r"`[^`]*`|\[([^]]+)\]\(([^)]+)\)")  # or code, in which nothing is one
_WORDS = "words"  # the section with a row for each word


@cache
def sections() -> Mapping[str, str]:
    """The sections of the language reference, each by its title in small letters, and the other documents."""
    parts = re.split(r"^##+ (?=\w)", _document("language"), flags=re.MULTILINE)
    found = {part.partition("\n")[0].lower(): f"## {part}" for part in parts[1:]}
    return {**found, **{name: _document(name) for name in ("records", "results", "trust")}}


@cache
def words() -> Mapping[str, tuple[str, str]]:
    """What is explained of a word, and of those beside it: (`sum` `prod`, what they are)."""
    rows = re.findall(r"^\| (`.*`) \| (.*) \|$", sections()[_WORDS], re.MULTILINE)
    return {
        word: (named.replace("`", ""), meaning) for named, meaning in rows for word in re.findall(r"`(.*?)`", named)
    }


def _document(name: str) -> str:
    return (data_folder("examples") / f"{name}.md").read_text(encoding="utf-8")


def readable(markdown: str) -> Iterator[str]:
    """The lines of a text: prose as wide as the terminal, rows of tables one below the other, code as it is."""
    width = printing.line_width(_LINE)
    for number, part in enumerate(re.split(r"^```\w*\n", re.sub(r"<!--.*?-->\n", "", markdown), flags=re.MULTILINE)):
        if number % 2:
            yield from ("", *(f"    {line}" for line in part.splitlines()))
            continue
        part = re.sub(r"^\|[^|]*\|[^|]*\|\n(?=\|-)", "", part, flags=re.MULTILINE)  # the head of two columns
        for paragraph in re.split(r"\n\s*\n|\n(?=- |\|)|(?<=\|)\n", _LINK.sub(_without_link, _BOLD.sub(r"\1", part))):
            yield from _paragraph(" ".join(paragraph.split()), width)


def _paragraph(text: str, width: int) -> Iterator[str]:
    if text.startswith("|"):
        first, *others = [cell.strip() for cell in re.split(r"(?<!\\)\|", text)[1:-1]]
        if set(first) - set("-: "):
            yield first
            yield from wrap("   ".join(others), width, initial_indent="    ", subsequent_indent="    ")
    elif text:
        yield ""
        yield from wrap(text, width, subsequent_indent="  " if text.startswith("- ") else "", break_on_hyphens=False)


def _without_link(found: re.Match[str]) -> str:
    text, target = found.groups()
    return found[0] if text is None else f"{text} ({target})" if target.startswith("http") else text
