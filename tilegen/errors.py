"""What a user sees when something is wrong: position, caret, one plain sentence, the witness, the way out.

`assert` is for tilegen's own bugs; everything a user can cause is one of the classes below. Each class
has the exit code that the command line ends with.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, nan
from operator import index
from typing import Literal, NamedTuple

LARGEST = 2**63 - 1  # of the integers that a text, a command or a caller gives

Code = Literal[
    "wrong",  # what is refused computes something else than the kernel, or reads what is not there
    "race",  # iterations that run at once collide
    "thread race",  # those of threads of a block, which a barrier between them could keep apart
    "structure",  # a loop or a buffer is where no launch has one
    "vector",  # lanes are not side by side, or not aligned
    "form",  # the program is right, and cannot be lowered as it says
    "unproved",  # a question is beyond the budget for one proof
]
"""The kinds of refusal that somebody has to tell apart."""


@dataclass(frozen=True)
class Source:
    """A text and the name that it is shown under."""

    name: str
    text: str = field(repr=False)

    def line(self, number: int) -> str:
        """Line `number`, counted from 1, without its end; empty past the end of the text."""
        lines = self.text.split("\n")
        return lines[number - 1].rstrip("\r") if 1 <= number <= len(lines) else ""


class Span(NamedTuple):
    """A place in a source: line and column count from 1; `width` columns are marked."""

    source: Source
    line: int
    column: int
    width: int = 1

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"

    @property
    def text(self) -> str:
        """What is written there."""
        return self.source.line(self.line)[self.column - 1 : self.column - 1 + self.width]


class TilegenError(Exception):
    """A mistake that a user can make or meet.

    Attributes:
        message: one lower-case sentence without a full stop.
        span: where, or None for what has no place in a text (a wrong array, a missing device).
        witness: the concrete case that shows it: two instances, an element, two threads.
        notes: further lines, the nearest legal way among them.
        code: the kind of a refusal.
        others: further mistakes of the same text, which do not depend on this one; each is an error of its own.
    """

    exit_code = 1
    others: tuple[TilegenError, ...] = ()

    def __init__(
        self,
        message: str,
        span: Span | None = None,
        *,
        witness: str | None = None,
        notes: tuple[str, ...] = (),
        code: Code = "wrong",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.witness = witness
        self.notes = notes
        self.code = code

    def at(self, span: Span | None) -> TilegenError:
        """This error, placed at `span` unless it has a place already."""
        if self.span is None:
            self.span = span
        return self

    def __str__(self) -> str:
        return self.render()

    def render(self) -> str:
        """The whole message as plain text, the same on a terminal and in a file, with those of the `others`."""
        return visible("\n".join([self._render_alone(), *(each.render() for each in self.others)]))

    def _render_alone(self) -> str:
        lines = [f"{self.span}: error: {self.message}" if self.span else f"error: {self.message}"]
        if self.span:
            lines += _marked_line(self.span)
        if self.witness:
            lines += [f"  witness: {self.witness}"]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


class SourceError(TilegenError):
    """The text of a kernel or a schedule is not well formed, or says what the language cannot."""


class StepError(TilegenError):
    """A step cannot be built: an unknown loop, a wrong argument, a size that is not constant."""


class IllegalStep(TilegenError):
    """The judge refuses what a step built."""

    exit_code = 3


class ProofError(TilegenError):
    """What would be emitted is not the kernel, a fault of tilegen's own, or is not known to be: nothing is compiled."""

    exit_code = 3


class LimitError(TilegenError):
    """A kernel asks for more than its target has: threads, shared memory, grid."""

    exit_code = 3


class ArgumentError(TilegenError):
    """An array or a size that a kernel is called with does not fit it."""


class UsageError(TilegenError):
    """A command line that cannot be understood."""

    exit_code = 2


class WrongResult(TilegenError):
    """A kernel ran and its result is not the reference's."""

    exit_code = 4


class NothingCompared(TilegenError):
    """A kernel ran, and nothing can be said of any element of its result: it is not known to be right."""

    exit_code = 6


class DeviceError(TilegenError):
    """A compiler or a device is missing, or failed."""

    exit_code = 5


def join_errors(errors: Sequence[TilegenError]) -> TilegenError:
    """The first of the errors by their places in the text, with the others after it; one at least.

    What several schedules say of one step that they share is reported once. The exit code is the largest of all.
    """
    distinct = {(each.span, each.message): each for each in reversed(errors)}
    first, *others = sorted(reversed(distinct.values()), key=lambda each: each.span[1:3] if each.span else (0, 0))
    if others:
        first.others = (*first.others, *others)
        first.exit_code = max(each.exit_code for each in (first, *others))
    return first


class Collected:
    """The errors of parts of a text that do not depend on one another, to be reported together.

    Each part is read in a block of its own, `with collected:`, which an error of a text leaves; then `raise_any`.
    """

    def __init__(self) -> None:
        self.errors: list[TilegenError] = []

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, place: object) -> bool:
        if isinstance(error, SourceError):
            self.errors.append(error)
        return isinstance(error, SourceError)

    def raise_any(self) -> None:
        """Raises the errors as one, if there are any."""
        if self.errors:
            raise join_errors(self.errors)


# Control characters but tabs and ends of lines, those that reorder a line, and halves of characters: of a file name
# that is not UTF-8. A terminal would obey the first two, and no file in UTF-8 has the last.
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)")


def visible(text: str) -> str:
    """The text with a visible character in place of each that acts on a terminal, or is none of UTF-8."""
    return UNSEEN.sub(lambda found: chr(0x2400 + ord(found[0])) if found[0] < " " else "\ufffd", text)


def first_line(value: object) -> str:
    """The first line of a text, or of what an error of another library says; its type where that says nothing."""
    lines = str(value).strip().splitlines()
    return lines[0].strip() if lines else type(value).__name__


def did_you_mean(word: str, known: Iterable[str], listed: str = "", none: str = "") -> tuple[str, ...]:
    """A note naming the nearest of `known`; where none is near, `listed` with all of them after it, or no note.

    `none` is the note where nothing is known.
    """
    from difflib import get_close_matches

    known = list(known)
    if near := get_close_matches(word, known, n=1, cutoff=0.5):
        return (f"did you mean '{near[0]}'?",)
    if none and not known:
        return (none,)
    return (f"{listed} {', '.join(known) or 'none'}",) if listed else ()


def integers(values: Mapping[str, object]) -> dict[str, int]:
    """The values by their names, as integers of Python's: a caller may have numpy's.

    Raises:
        UsageError: a value is no integer, or beyond 64 bits.
    """
    found = {}
    for name, value in values.items():
        try:
            whole = index(value)  # type: ignore[arg-type]
        except TypeError:
            whole = None
        if whole is None or isinstance(value, bool):
            raise UsageError(f"{name} is {value!r:.80}, and an integer is wanted")
        found[name] = check_64_bits(name, whole)
    return found


def numbers(values: Mapping[str, object], fractions: Collection[str]) -> dict[str, float]:
    """The values by their names: integers, and of those that may be `fractions` floats.

    Raises:
        UsageError: a value is no such number, or is none that is finite and of 64 bits.
    """
    whole = integers({name: value for name, value in values.items() if name not in fractions})
    return {name: whole[name] if name in whole else _fraction(name, value) for name, value in values.items()}


def _fraction(name: str, value: object) -> float:
    try:
        found = float(value) if not isinstance(value, str | bool) else nan  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        found = nan
    if not isfinite(found):
        raise UsageError(f"{name} is {value!r:.80}, and a number is wanted")
    return found


def check_64_bits(name: str, value: int) -> int:
    """`value`, if it is no more than 64 bits hold. Raises UsageError."""
    if abs(value) > LARGEST:
        raise UsageError(f"{name} has {len(str(abs(value)))} digits, and 2**63 - 1 is the largest integer there is")
    return value


def _marked_line(span: Span) -> list[str]:
    """The source line of `span` with carets under it; a long line is cut around the place."""
    text = span.source.line(span.line)
    start = max(0, span.column - 61) if len(text) > 100 else 0
    shown = text[start : start + 100]
    # A tab keeps its width under any terminal's setting only when the caret line repeats it.
    lead = "".join("\t" if c == "\t" else " " for c in shown[: span.column - 1 - start])
    width = max(1, min(span.width, len(shown) - len(lead)))
    return [f"  {shown}", f"  {lead}{'^' * width}"]
