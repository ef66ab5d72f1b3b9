"""The record of a run, a JSON value a line: whole up to the last result whenever the run ends, and gone on with."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from contextlib import suppress
from errno import ENOSPC
from io import FileIO
from pathlib import Path
from typing import Any

from tilegen.errors import DeviceError, UsageError
from tilegen.frontend.files import shorten
from tilegen.lab.records.records import SCHEMA
from tilegen.lab.records.schemas import find_complaint
from tilegen.lab.records.values import parse_json


class Journal:
    """A file of JSON lines to which lines are added. Each is on the disk when `add` returns.

    A file that is there is looked at as a whole, and stays as it is until the first line is added.

    Attributes:
        lines: those that were there.
        torn: how many bytes of a last line, not whole, the first line to be added takes the place of.
        damaged: the numbers of lines that are none of JSON, or no records: they stay as they are.
    """

    def __init__(self, path: str | Path, schema: str) -> None:
        """Opens the file, or begins it. Raises UsageError where it cannot be, or its first line is not of the schema.

        Args:
            schema: what the first line begins with.
        """
        self.path = Path(path)
        self.lines: list[dict[str, Any]] = []
        self.damaged: list[int] = []
        self.torn = 0
        name = shorten(str(path))
        if self.path.exists() and not self.path.is_file():
            raise UsageError(f"cannot write {name}: it is no file")
        self._is_new = not self.path.exists()
        try:
            self._file: FileIO = self.path.open("a+b", buffering=0)
            _lock(self._file, self.path)
            self._file.seek(0)
            self._read(self._file.readall(), schema)
        except OSError as error:
            raise UsageError(f"cannot write {name}: {error.strerror}") from None

    def _read(self, data: bytes, schema: str) -> None:
        self.lines, self.damaged, whole = values_of(data)
        self.torn = len(data) - whole
        self._length = whole
        self._lacks_end = bool(whole) and not data[:whole].endswith(b"\n")
        begins = bool(self.lines) and 1 not in self.damaged and self.lines[0].get("schema") == schema
        begun = not whole and data.startswith(f'{{"schema": "{schema}", '.encode())
        if data and not begins and not begun:
            notes = ("its first line says what was tuned: take another name, or leave --resume out",)
            raise UsageError(f"{shorten(str(self.path))} is no record of a run of tilegen tune", notes=notes)

    def add(self, line: Mapping[str, Any]) -> None:
        """Adds a line. Raises DeviceError where the disk does not take it: then the file is as it was."""
        data = b"\n" * self._lacks_end + json.dumps(line, allow_nan=False).encode() + b"\n"
        try:
            self._file.truncate(self._length)
            if self._file.write(data) != len(data):
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as error:
            self._take_back()
            notes = (f"it has all results before; --resume {shlex.quote(str(self.path))} goes on with it",)
            raise DeviceError(f"cannot write {self.path}: {error.strerror}", notes=notes) from None
        self._length += len(data)
        self._lacks_end = False
        self.lines.append(dict(line))

    def _take_back(self) -> None:
        """Leaves the file without a part of a line."""
        with suppress(OSError):  # the next reader mends it
            self._file.truncate(self._length)

    def close(self) -> None:
        """Closes the file; one that was not there, and to which nothing was written, is removed."""
        self._file.close()
        if self._is_new and not self._length:
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


def values_of(data: bytes) -> tuple[list[dict[str, Any]], list[int], int]:
    """(the objects of lines, the numbers of those that are none or no records, the bytes of all of these lines).

    A last line without an end is one of them where it is whole; otherwise it is torn.
    """
    found, damaged, whole = [], [], data.rfind(b"\n") + 1
    if _value_of(data[whole:]):
        whole = len(data)
    for number, line in enumerate(data[:whole].splitlines(), 1):
        if value := _value_of(line):
            found.append(value)
        else:
            damaged.append(number)
    return found, damaged, whole


def _value_of(line: bytes) -> dict[str, Any] | None:
    """The object of a line; None where it is none, or says that it is a record and has not what one has."""
    try:
        value = parse_json(line)
    except ValueError:
        return None
    if not isinstance(value, dict) or (value.get("schema") == SCHEMA and find_complaint("record", value)):
        return None
    return value
