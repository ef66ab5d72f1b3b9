"""Standard input and output: closed, full or not UTF-8, and what others have written on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from tilegen.errors import UsageError, visible
from tilegen.frontend.files import MOST_BYTES, bounded


class Stream:
    """A stream of texts: control characters are shown, and what its encoding lacks is written as `\\xe9`.

    An error of standard output is a UsageError; of standard error, where nothing can be said any more, it is none.
    """

    buffer = None  # click would write UTF-8 into that of a stream in ASCII

    def __init__(self, stream: TextIO, name: str, *, styled: bool = False) -> None:
        self._stream, self._name, self._styled = stream, name, styled
        self._failure = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def styled(self) -> TextIO:
        """The same stream for a text that has been made visible, and has colours since."""
        return cast("TextIO", Stream(self._stream, self._name, styled=True))

    def write(self, text: str | bytes) -> int:
        encoding = self._stream.encoding or "utf-8"
        read = text if isinstance(text, str) else _decoded(text, encoding)
        shown = read if self._styled else visible(read)
        self._do(lambda: self._stream.write(shown.encode(encoding, "backslashreplace").decode(encoding)))
        return len(text)

    def flush(self) -> None:
        self._do(self._stream.flush)

    def _do(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BrokenPipeError:
            raise
        except OSError as error:
            discard(self._stream)
            self._failure = error.strerror or str(error)
        if self._failure and self._name == "output":
            raise UsageError(f"cannot write to standard output: {self._failure}")


def _decoded(text: bytes, encoding: str) -> str:
    """What click writes as bytes: completions in UTF-8, its errors in the encoding of the stream."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode(encoding)


def discard(stream: TextIO) -> None:
    """Leaves `stream` open to nothing: what it has buffered is written at the end of the process."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError, ValueError):
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def styled(stream: TextIO) -> TextIO:
    """`stream` for texts with colours."""
    return stream.styled if isinstance(stream, Stream) else stream


@contextmanager
def checked_streams() -> Iterator[None]:
    """Standard output and error as a `Stream` each."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = cast("TextIO", Stream(before[0], "output")), cast("TextIO", Stream(before[1], "error"))
    try:
        yield
    finally:
        with suppress(UsageError):  # of a command that has failed already
            sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


def open_closed() -> None:
    """Opens those of standard input, output and error that are closed, to the null device: the first two for the wrong
    direction, so that reading or writing fails. No file of a user's is opened in their places."""
    for number, (name, mode) in enumerate((("stdin", "w"), ("stdout", "r"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            found = os.open(os.devnull, os.O_WRONLY if mode == "w" else os.O_RDONLY)
            if found != number:
                os.dup2(found, number)
                os.close(found)
            setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def read_input() -> str:
    """The text on standard input. Raises UsageError where it is none, is closed, or does not end."""
    try:
        return bounded(sys.stdin.read(MOST_BYTES + 1), "standard input")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise UsageError(f"standard input is no text in UTF-8: it has the byte {byte:#04x}") from None
    except OSError as error:
        raise UsageError(f"cannot read standard input: {error.strerror}") from None
