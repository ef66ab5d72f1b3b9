"""A chapter as a notebook: its commands, files and Python are cells to run, all else is text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tilegen.course.chapters import Chapter, Part

# Through a pipe, so that no progress bars are kept; what is refused does not stop the notebook.
SHELL = "%%bash --no-raise-error"
_FORMAT = {"nbformat": 4, "nbformat_minor": 5}
# The commands are those of the environment that the notebook runs in, whether a shell knows of it or not.
_FIRST = """\
import os, sys

os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):  # texts without colours, and no progress bars
    os.environ.pop(name, None)"""


def notebook_of(chapter: Chapter) -> dict[str, Any]:
    """The notebook as Jupyter's format 4.5 has it, without outputs."""
    texts = [("code", _FIRST), *(cell for part in chapter.parts for cell in _cells(part))]
    title = next(number for number, (kind, _) in enumerate(texts) if kind == "markdown")
    texts.insert(0, texts.pop(title))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": [_cell(number, kind, text) for number, (kind, text) in enumerate(texts)],
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        **_FORMAT,
    }


def commands_in(part: Part) -> list[tuple[str, str]]:
    """(a command, what is shown below it) of a part of the kind console, in their order."""
    words = re.split(r"^\$ (.*)\n", part.text, flags=re.MULTILINE)
    return list(zip(words[1::2], words[2::2], strict=True))


def _cells(part: Part) -> Iterator[tuple[str, str]]:
    """(kind, text) of the cells of a part."""
    match part.kind:
        case "":
            yield "markdown", part.text.strip()
        case "console":
            for command, _ in commands_in(part):
                yield "code", f"{SHELL}\n{command}"
        case "python":
            yield "code", part.text.rstrip()
        case "tg" if part.file:
            yield "code", f"%%writefile {part.file}\n{part.text.rstrip()}"
        case kind:
            yield "markdown", f"```{kind}\n{part.text}```"


def _cell(number: int, kind: str, text: str) -> dict[str, Any]:
    lines = text.splitlines(keepends=True)
    found: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": lines}
    return found | {"execution_count": None, "outputs": []} if kind == "code" else found
