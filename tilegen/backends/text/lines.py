"""Lines of a text that know which part of the program they were written for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilegen.backends.text.wrap import wrap_line
from tilegen.errors import visible


class Line(str):
    """A line. `part` is the node, or the array, that it was written for, of several the innermost one.

    For a coordinate it is the text of the steps that made its loop.
    """

    __slots__ = ("part",)
    part: object

    def __new__(cls, text: str, part: object) -> Line:
        line = super().__new__(cls, text)
        line.part = part
        return line


def written_for(part: object, lines: Iterable[str]) -> list[str]:
    """The lines, where they are of no part yet, as those of `part`."""
    return [line if isinstance(line, Line) else Line(line, part) for line in lines]


def changed(line: str, text: str) -> str:
    """`text`, which is made of `line`, as a line of the same part."""
    return Line(text, line.part) if isinstance(line, Line) else text


def wrap_lines(lines: Iterable[str]) -> list[str]:
    """The lines, long ones broken."""
    return [changed(line, part) for line in lines for part in wrap_line(line)]


def comment_lines(text: str, mark: str = "//") -> list[str]:
    """A text of anybody's as lines of a comment, none of which goes on in the next one."""
    ends = ("\\", "??/")  # the second is the first where a compiler takes trigraphs
    return [f"{mark} {visible(line)}{'.' if line.endswith(ends) else ''}" for line in text.splitlines()]


def indent_lines(lines: Iterable[str]) -> Iterator[str]:
    """The lines, those between braces further in than they are."""
    lead = ""
    for line in lines:
        if line.lstrip().startswith("}"):
            lead = lead[4:]
        yield changed(line, lead + line) if line else ""
        if line.endswith("{"):
            lead += "    "


def under_head(head: str, lines: list[str], braces: bool) -> list[str]:
    """The lines under the head of a loop or a test."""
    if braces:
        return [f"{head} {{", *lines, "}"]
    return [head, *(changed(line, f"    {line}") if line else "" for line in lines)]
