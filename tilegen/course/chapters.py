"""The chapters as texts: prose, commands with what they print, files to write, Python, and the puzzle at the end."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache

from tilegen.course.puzzles import Puzzle
from tilegen.errors import UsageError
from tilegen.frontend.data import data_folder

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\w+\.tg)\n")
_PUZZLE = "## Puzzle\n"


@dataclass(frozen=True)
class Part:
    """A piece of a chapter: prose for the kind "", else what stands between two fences that name the kind."""

    kind: str
    text: str

    @property
    def file(self) -> str | None:
        """The name that a comment in its first line gives it: `# mine.tg`."""
        found = _FILE.match(self.text)
        return found[1] if self.kind == "tg" and found else None


@dataclass(frozen=True)
class Chapter:
    """One text of the course.

    Attributes:
        name: of its file, without the ending.
        idea: the sentence below its title.
    """

    number: int
    name: str
    title: str
    idea: str
    text: str
    puzzle: Puzzle

    @property
    def parts(self) -> tuple[Part, ...]:
        return split_parts(self.text)

    @property
    def task(self) -> str:
        """What is said of the puzzle, without its start file."""
        return "\n\n".join(p.text.strip() for p in split_parts(_behind(self.text)) if p.kind == "")


def split_parts(text: str) -> tuple[Part, ...]:
    """The text as prose and what stands between fences, in turns; empty prose is left out."""
    found, end = list[Part](), 0
    for fence in _FENCE.finditer(text):
        found += [Part("", text[end : fence.start()]), Part(fence[1], fence[2])]
        end = fence.end()
    found.append(Part("", text[end:]))
    return tuple(part for part in found if part.kind or part.text.strip())


@cache
def chapters() -> tuple[Chapter, ...]:
    """All chapters, in their order."""
    folder = data_folder("examples") / "course"
    names = [each.name for each in folder.iterdir() if re.fullmatch(r"\d+_\w+\.md", each.name)]
    demands = tomllib.loads((folder / "puzzles.toml").read_text(encoding="utf-8"))
    found = [_chapter(name.removesuffix(".md"), (folder / name).read_text(encoding="utf-8"), demands) for name in names]
    return tuple(sorted(found, key=lambda each: each.number))


def find_chapter(number: int) -> Chapter:
    """The chapter of this number. Raises UsageError where there is none."""
    for chapter in chapters():
        if chapter.number == number:
            return chapter
    note = f"they are 1 to {len(chapters())}: tilegen learn lists them"
    raise UsageError(f"there is no chapter {number}", notes=(note,))


def _chapter(name: str, text: str, demands: dict[str, dict[str, object]]) -> Chapter:
    title, idea = text.split("\n\n")[:2]
    starts = [part.text for part in split_parts(_behind(text)) if part.file]
    number, _, key = name.partition("_")
    puzzle = Puzzle.of(f"puzzle{number}", starts[0], demands[key])
    return Chapter(int(number), name, re.sub(r"# \d+\. ", "", title), " ".join(idea.split()), text, puzzle)


def _behind(text: str) -> str:
    return text.partition(_PUZZLE)[2]
