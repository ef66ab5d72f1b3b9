"""The folder that an export writes: a second export writes over the files of the first, and over no others."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from tilegen.errors import UsageError


def check_folder(folder: Path, names: list[str], manifest: str) -> None:
    """Raises UsageError where `write_folder` would: a file is there that no earlier export has written.

    Args:
        names: of the files to write, that called `manifest` among them, which lists them.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"cannot write into {folder}: it is a file")
    if not folder.exists() and not folder.absolute().parent.is_dir():
        raise UsageError(f"cannot make {folder}: there is no directory {folder.absolute().parent}")
    existing = folder if folder.exists() else folder.absolute().parent
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write into {existing}: it is not yours to write into")
    ours = _files_of(folder / manifest)
    for name in names:
        if (folder / name).exists() and name not in ours:
            notes = (f"an export writes over its own files alone, which {manifest} lists: take another folder",)
            raise UsageError(f"{folder / name} is there, and is no file of an earlier export", notes=notes)


def write_folder(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Writes the files, by name, into the folder, which is made where there is none yet.

    Raises:
        UsageError: the system refuses.
    """
    try:
        folder.mkdir(exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        raise UsageError(f"cannot write into {folder}: {error.strerror or error}") from None


def _files_of(manifest: Path) -> frozenset[str]:
    """The files that an earlier export has written, by what it says itself."""
    try:
        found = json.loads(manifest.read_text())
        return frozenset(map(str, found["files"])) if "tilegen" in found else frozenset()
    except (OSError, ValueError, TypeError, KeyError):
        return frozenset()
