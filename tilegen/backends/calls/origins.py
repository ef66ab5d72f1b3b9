"""Which lines of a user's texts a line of a generated text comes from: of a schedule, or of the kernel.

With #line directives, what a debugger or a profiler shows of a kernel are these lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tilegen.backends.text import emit_lines
from tilegen.backends.text.lines import Line
from tilegen.errors import Source, Span
from tilegen.frontend.data import file_of
from tilegen.ir.nodes import Access, Buffer, Loop, Stmt
from tilegen.lowering import Launch
from tilegen.lowering.launch.program import Declare, Flag, For, Function, If, Perform, Spmd, Start, VectorCopy
from tilegen.lowering.launch.timelines import Arrive, Await, Barrier, Box
from tilegen.schedule import Derivation


def origins(lines: Sequence[str], launches: Sequence[Launch], derivation: Derivation) -> list[tuple[Span, ...]]:
    """For each of the `lines` of the text of the launches the places that it comes from, the latest step last.

    None for a line that no step asked for: a helper, the header, a test for partial tiles.
    """
    found = _Origins(launches, derivation)
    return [found.of(line.part) if isinstance(line, Line) else () for line in lines]


class _Origins:
    def __init__(self, launches: Sequence[Launch], derivation: Derivation) -> None:
        self._places: dict[str, Span] = {}  # of a step, by its text
        for call in (stage.step for stage in derivation.stages):
            for each in (call, call.composite) if call else ():
                if each and each.span:
                    self._places.setdefault(each.text, each.span)
        self._buffers: Mapping[str, Buffer] = {n: b for launch in launches for n, b in launch.buffers.items()}
        self._around: dict[int, Spmd] = {}
        for launch in launches:
            self._note_parents(launch.body, None)

    def _note_parents(self, body: Iterable[Spmd], parent: Spmd | None) -> None:
        for node in body:
            if parent is not None:
                self._around[id(node)] = parent
            match node:
                case For() | Function() | Start():
                    self._note_parents(node.body, node)
                case If():
                    self._note_parents((*node.body, *node.orelse), node)
                case _:
                    pass

    def of(self, part: object) -> tuple[Span, ...]:
        """The places of a part of a launch; those of the loop around it for one that has none of its own."""
        match part:
            case str():
                return self._of_steps(part)
            case Buffer() | Stmt() | Loop():
                return _distinct((*self._of_steps(part.step), *((part.span,) if part.span else ())))
            case For():
                return self._of_steps(part.step)
            case Declare(buffer):
                return self.of(self._buffers[buffer])
            case VectorCopy(origin=Stmt() as origin) | Perform(origin=origin):
                return self.of(origin)
            case Barrier(claims=claims):
                return self._of_buffers(claim.buffer for claim in claims)
            case Arrive(buffers=buffers) | Await(buffers=buffers) if buffers:
                return self._of_buffers(buffers)
            case Box(place=Access(buffer)):
                return self._of_buffers((buffer,))
            case If() | Flag() | Function():
                return ()
            case _:
                around = self._around.get(id(part))
                while isinstance(around, If):
                    around = self._around.get(id(around))
                return self.of(around) if around is not None else ()

    def _of_steps(self, text: str) -> tuple[Span, ...]:
        return _distinct(self._places[step] for step in text.split("; ") if step in self._places)

    def _of_buffers(self, names: Iterable[str]) -> tuple[Span, ...]:
        buffers = (self._buffers[name] for name in names if name in self._buffers)
        return _distinct(place for buffer in buffers for place in self.of(buffer))


def _distinct(places: Iterable[Span]) -> tuple[Span, ...]:
    return tuple(dict.fromkeys(places))


# -- directives


def emit_with_places(launches: Sequence[Launch], derivation: Derivation, file: str, title: str = "") -> str:
    """The CUDA text of the launches with directives, of which line of the schedule or of the kernel each line is.

    A line that comes from several is of the last of these steps; one that comes from none, such as a helper's, is its
    own, of the `file` that the text will be in.
    """
    lines = emit_lines(launches, title=title)
    places = [spans[-1] if spans else None for spans in origins(lines, launches, derivation)]
    return "\n".join(_with_directives(lines, places, file)) + "\n"


def _with_directives(lines: Sequence[str], places: Sequence[Span | None], file: str) -> Iterator[str]:
    """The lines, with a directive before each for which a compiler would count on from another place."""
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
