"""The folder that an export writes: a second export writes over the files of the first, and over no others."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tilegen.errors import UsageError, visible
from tilegen.frontend.files import read_text, shorten
from tilegen.lab.records.values import parse_json


def check_folder(folder: Path, names: list[str], manifest: str) -> None:
    """Raises UsageError where `write_folder` would: a file is there that no earlier export has written.

    Args:
        names: of the files to write, that called `manifest` among them, which lists them.
    """
    try:
        _check_folder(folder)
        ours = _files_of(folder / manifest)
        for name in names:
            if os.path.lexists(folder / name) and name not in ours:
                place = shorten(str(folder / name))
                notes = (f"an export writes over its own files alone, which {manifest} lists: take another folder",)
                raise UsageError(f"{place} is there, and is no file of an earlier export", notes=notes)
    except OSError as error:
        raise UsageError(f"cannot write into {shorten(str(folder))}: {error.strerror}") from None
    except ValueError:  # a character 0
        raise UsageError(f"cannot make {shorten(str(folder))}: no folder has such a name") from None


def _check_folder(folder: Path) -> None:
    name, above = shorten(str(folder)), folder.absolute().parent
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"cannot write into {name}: it is a file")
    if not folder.exists() and not above.is_dir():
        raise UsageError(f"cannot make {name}: there is no directory {shorten(str(above))}")
    existing = folder if folder.exists() else above
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write into {shorten(str(existing))}: it is not yours to write into")


def write_folder(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Writes the files, by name, into the folder, which is made where there is none yet.

    Raises:
        UsageError: the system refuses.
    """
    try:
        folder.mkdir(exist_ok=True)
        # What lists them comes first: what fails halfway can be repeated.
        for name, content in sorted(files.items(), key=lambda each: not each[0].endswith(".json")):
            (folder / name).write_bytes(content if isinstance(content, bytes) else visible(content).encode())
    except OSError as error:
        raise UsageError(f"cannot write into {shorten(str(folder))}: {error.strerror}") from None


def _files_of(manifest: Path) -> frozenset[str]:
    """The files that an earlier export has written, by what it says itself."""
    try:
        found = parse_json(read_text(manifest))
        return frozenset(map(str, found["files"])) if "tilegen" in found else frozenset()
    except (UsageError, ValueError, TypeError, KeyError):
        return frozenset()
