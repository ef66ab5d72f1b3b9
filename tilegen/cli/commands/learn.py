"""The command learn: the chapters of the course, their puzzles, and what is said of a solution."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING

import click

from tilegen.cli.commands.shared import DEVICE, tilegen
from tilegen.cli.looks import pages, printing
from tilegen.cli.shell import completion
from tilegen.cli.shell.output import check_new, write
from tilegen.cli.shell.request import Request, split_target
from tilegen.errors import UsageError
from tilegen.frontend.files import shorten

if TYPE_CHECKING:
    from tilegen.course import Chapter, Judgement, Puzzle

_LINE = 100  # characters, where no terminal has fewer


@tilegen.command("learn")
@click.argument("chapter", type=int, required=False)
@click.argument("file", required=False, shell_complete=completion.files)
@click.option("--read", is_flag=True, help="Print the chapter.")
@click.option("--start", metavar="F.tg", help="Write the file that the puzzle begins with.")
@click.option("--notebook", metavar="F.ipynb", help="Write the chapter as a notebook.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@DEVICE
def learn_command(
    chapter: int | None, file: str | None, read: bool, start: str | None, notebook: str | None, force: bool, device: str
) -> int:
    """List the chapters of the course; show the puzzle of one CHAPTER; or judge FILE as its solution."""
    from tilegen.course import chapters, find_chapter, notebook_of

    if (read or start or notebook) and (chapter is None or file):
        notes = ("tilegen learn 1 --start mine.tg",)
        raise UsageError("--read, --start and --notebook are for a chapter", notes=notes)
    if chapter is None:
        for each in chapters():
            print("\n".join(_overview(each)))
        print("\ntilegen learn 1 --read prints chapter 1, tilegen learn 1 its puzzle; tilegen learn 1 FILE judges it.")
        return 0
    found = find_chapter(chapter)
    if file is not None:
        _judge(found, file, device)
        return 0
    if read:
        print("\n".join(pages.readable(found.text)))
    elif start is None and notebook is None:
        _show_task(found)
    if start is not None:
        check_new(start, force)
        write(found.puzzle.start, start, None)
        print(f"{start}: tilegen learn {chapter} {shlex.quote(start)} judges it")
    if notebook is not None:
        check_new(notebook, force)
        write(json.dumps(notebook_of(found), indent=1, ensure_ascii=False) + "\n", notebook, None)
        print(f"{notebook}: chapter {chapter}, {found.title}")
    return 0


def _overview(chapter: Chapter) -> Iterator[str]:
    yield f"{chapter.number}. {chapter.title}"
    yield from wrap(chapter.idea, min(printing.line_width(_LINE), _LINE), initial_indent="   ", subsequent_indent="   ")


def _show_task(chapter: Chapter) -> None:
    puzzle = chapter.puzzle
    print(f"Puzzle {chapter.number}: {chapter.title}\n")
    print(f"{chapter.task}\n")
    print("Asked for:", *_demands(puzzle), sep="\n  ", end="\n\n")
    print(puzzle.start)
    print(f"tilegen learn {chapter.number} --start {puzzle.name}.tg writes this file.")


def _demands(puzzle: Puzzle) -> Iterator[str]:
    yield "right and proved"
    if puzzle.milliseconds is not None:
        yield f"at most {puzzle.milliseconds:g} ms by the roofline (--machine {puzzle.machine})"
    if puzzle.gigabytes is not None:
        yield f"at most {puzzle.gigabytes:g} GB through global memory"
    if puzzle.loads is not None:
        yield f"at most {puzzle.loads:.3g} elements loaded from global memory"
    if puzzle.conflict is not None:
        yield "no bank conflicts" if puzzle.conflict == 1 else f"bank conflicts of at most {puzzle.conflict:g}"
    if puzzle.launches is not None:
        yield "one launch" if puzzle.launches == 1 else f"at most {puzzle.launches} launches"
    yield f"at {puzzle.size_words}"


def _judge(chapter: Chapter, word: str, device: str) -> None:
    """Prints that the file solves the puzzle, and what comes next. Raises what `judge` raises."""
    from tilegen.backends.devices.devices import engine
    from tilegen.course import judge

    file, schedules = split_target(word)
    request = Request(file, None, schedules, {}, {}, None)
    known = request.load().schedules
    if len(known) > 1 and len(schedules) != 1:
        notes = (" or ".join(f"tilegen learn {chapter.number} {shlex.quote(f'{file}:{each.name}')}" for each in known),)
        raise UsageError(f"{shorten(file)} has {len(known)} schedules, and one is judged", notes=notes)
    scheduled = request.one("learn", fixed={})
    with printing.progress() as progress:
        progress("judge", 0, 1)
        found = judge(chapter.puzzle, scheduled, engine(device))
    for line in _verdict(found):
        print(line)
    print(f"puzzle {chapter.number} is solved")


def _verdict(found: Judgement) -> Iterator[str]:
    yield f"right: all {found.checks} checks on {found.device}"
    yield "proved: for all sizes"
    for figure in found.figures:
        yield str(figure)
