"""#line directives: what a debugger or a profiler shows of a kernel are the lines of the schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tilegen.backends.origins import origins
from tilegen.backends.text import emit_lines
from tilegen.errors import Source, Span
from tilegen.frontend.data import file_of
from tilegen.lowering import Launch
from tilegen.schedule import Derivation


def emit_with_places(launches: Sequence[Launch], derivation: Derivation, file: str, title: str = "") -> str:
    """The CUDA text of the launches with directives, of which line of the schedule or of the kernel each line is.

    A line that comes from several is of the last of these steps; one that comes from none, such as a helper's, is its
    own, of the `file` that the text will be in.
    """
    lines = emit_lines(launches, title=title)
    places = [spans[-1] if spans else None for spans in origins(lines, launches, derivation)]
    return "\n".join(_with_directives(lines, places, file)) + "\n"


def _with_directives(lines: Sequence[str], places: Sequence[Span | None], file: str) -> Iterator[str]:
    """The lines, with a directive ahead of each for which a compiler would count on from another place."""
    paths: dict[Source, str] = {}
    at, number = file, 1  # what a compiler takes the next line for
    written = 0
    for line, place in zip(lines, places, strict=True):
        if _is_code(line):
            if place and place.source not in paths:
                paths[place.source] = _path_of(place.source)
            wanted = (paths[place.source], place.line) if place else (file, written + 1 + (at != file))
            if wanted != (at, number):
                at, number = wanted
                written += 1
                yield f'#line {number} "{_escape(at)}"'
        yield line
        number += 1
        written += 1


def _is_code(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("//")


def _path_of(source: Source) -> str:
    """Where the text of `source` lies, if it is in a file; else what messages call it."""
    found = file_of(source) or Path(source.name)
    try:
        return str(found.resolve()) if found.is_file() else source.name
    except (OSError, ValueError):
        return source.name


def _escape(name: str) -> str:
    """`name` inside of a string; what no line of a text can hold, a line end among it, is a blank there."""
    shown = "".join(each if each.isprintable() else " " for each in name)
    return shown.replace("\\", "\\\\").replace('"', '\\"')
