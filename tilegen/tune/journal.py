"""The record of a run, a JSON value a line: whole up to the last result whenever the run ends, and gone on with."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from errno import ENOSPC
from io import FileIO
from pathlib import Path
from typing import Any

from tilegen.errors import DeviceError, UsageError
from tilegen.frontend.stock import shorten


class Journal:
    """A file of JSON lines to which lines are added. Each is on the disk when `add` returns.

    Attributes:
        lines: those that were there.
        torn: how many bytes of a last line, not whole, were cut off.
        damaged: the numbers of lines that are none of JSON: they stay as they are.
    """

    def __init__(self, path: str | Path) -> None:
        """Opens the file, or begins it. Raises UsageError where it cannot be, or holds something else."""
        self.path = Path(path)
        self.lines: list[dict[str, Any]] = []
        self.damaged: list[int] = []
        self.torn = 0
        if self.path.exists() and not self.path.is_file():
            raise UsageError(f"cannot write {shorten(str(path))}: it is no file")
        try:
            self._file: FileIO = self.path.open("a+b", buffering=0)
            _lock(self._file, self.path)
            self._read()
        except OSError as error:
            raise UsageError(f"cannot write {shorten(str(path))}: {error.strerror}") from None

    def _read(self) -> None:
        self._file.seek(0)
        data = self._file.read()
        end = data.rfind(b"\n") + 1
        self.lines, self.damaged = values_of(data[:end])
        self.torn = len(data) - end
        if data and not data.startswith(b"{"):
            raise UsageError(f"{self.path} is no record of a run", notes=("its lines are JSON objects",))
        self._file.truncate(end)
        self._length = end

    def add(self, line: Mapping[str, Any]) -> None:
        """Adds a line. Raises DeviceError where the disk does not take it: then the file is as it was."""
        data = json.dumps(line, allow_nan=False).encode() + b"\n"
        try:
            if self._file.write(data) != len(data):
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as error:
            self._take_back()
            notes = (f"it has all results before; --resume {self.path} goes on with it",)
            raise DeviceError(f"cannot write {self.path}: {error.strerror}", notes=notes) from None
        self._length += len(data)
        self.lines.append(dict(line))

    def _take_back(self) -> None:
        """Leaves the file without a part of a line."""
        with suppress(OSError):  # the next reader mends it
            self._file.truncate(self._length)

    def close(self) -> None:
        """Closes the file; one to which nothing was written is removed."""
        self._file.close()
        if not self.lines:
            self.path.unlink(missing_ok=True)


def _lock(file: FileIO, path: Path) -> None:
    """Raises UsageError where another process writes to the file."""
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"another run writes to {path}") from None


def values_of(data: bytes) -> tuple[list[dict[str, Any]], list[int]]:
    """(the objects of whole lines, the numbers of those that are none); what follows the last end of a line is torn."""
    found, damaged = [], []
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), 1):
        value = _value_of(line)
        if value is None:
            damaged.append(number)
        else:
            found.append(value)
    return found, damaged


def _value_of(line: bytes) -> dict[str, Any] | None:
    """The object of a line; None where it is none."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
