"""Files of users: texts of a bounded length, and names as messages say them."""

from __future__ import annotations

from codecs import getincrementaldecoder
from errno import ENOENT
from os import strerror
from pathlib import Path

from tilegen.errors import UsageError, visible

MOST_BYTES = 2**28  # of a file; a text of kernels has a limit of its own


def read_file(name: str, most: int = MOST_BYTES) -> str | None:
    """The text of the file `name`, its first part where that has more than `most` bytes; None where there is no file.

    Raises:
        UsageError: an empty name, a directory, a file that cannot be read, or one that holds no text.
    """
    path = Path(name)
    try:
        if not name:
            raise UsageError("the name of a file is empty")
        if path.is_dir():
            raise UsageError(f"{shorten(name)} is a directory, and a file is wanted")
        with path.open("rb") as file:
            data = file.read(most + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(f"cannot read {shorten(name)}: {error.strerror}") from None
    except ValueError:  # a name that no system takes, with a character 0 in it
        return None
    return _decode(data, shorten(name), whole=len(data) <= most)


def read_text(path: str | Path) -> str:
    """The text of a user's file. Raises UsageError where it cannot be read, is too long, or is no text."""
    name = shorten(str(path))
    text = read_file(str(path))
    if text is None:
        raise UsageError(f"cannot read {name}: {strerror(ENOENT)}")
    return bounded(text, name)


def bounded(text: str, name: str) -> str:
    """The text, if it is no longer than that of a file may be. Raises UsageError."""
    if len(text) > MOST_BYTES:
        raise UsageError(f"{name} has more than {MOST_BYTES} characters, the limit")
    return text


def _decode(data: bytes, name: str, whole: bool) -> str:
    try:
        return getincrementaldecoder("utf-8")().decode(data, final=whole)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        byte = data[error.start]
        raise UsageError(f"{name} is no text in UTF-8: line {line} has the byte {byte:#04x}") from None


def shorten(name: str) -> str:
    """A name for a message: on one line, and cut where it is very long."""
    name = visible(name).replace("\n", "\u240a")
    return name if len(name) <= 100 else f"{name[:60]}... ({len(name)} characters)"
