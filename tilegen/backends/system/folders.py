"""Folders in which other libraries keep what they compile: elsewhere, where nothing can be written to their own."""

from __future__ import annotations

import os
import shutil
from errno import ENOSPC
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory

_ROOM = 2**24  # bytes on a disk that is not full


def choose_cache(whose: str, variable: str, usual: Path) -> str | None:
    """Why a library has no folder for what it compiles, or None where it has one.

    Sets the variable of the environment that it takes the folder from, where that is needed.

    Args:
        usual: its folder where the variable does not say.
    """
    own = Path(os.environ.get(variable) or usual)
    try:
        _check(own)
    except OSError as closed:
        try:
            _check(other := folder_of_process() / variable)
        except OSError as error:
            says = f"cannot be written to ({closed.strerror}), and neither can a temporary folder ({error.strerror})"
            return f"{whose}'s cache {own} {says}"
        os.environ[variable] = str(other)
    return None


def folder_of_process() -> Path:
    """A folder that goes when this process ends. Raises OSError where none can be made."""
    return Path(_temporary_folder().name)


@cache
def _temporary_folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="tilegen-")


def _check(folder: Path) -> None:
    """Raises OSError where no file can be written into the folder, which is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=folder) as file:
        file.write(bytes(4096))
    if shutil.disk_usage(folder).free < _ROOM:
        raise OSError(ENOSPC, os.strerror(ENOSPC), str(folder))
