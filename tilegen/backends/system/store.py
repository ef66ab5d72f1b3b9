"""Values on disk by key, for all processes of a user: bounded in bytes, the least recently used go first.

A file is written under another name and then renamed, so that no reader sees a part of one; it begins with a mark, by
which the store knows its own files, and the digest of the rest. One that is damaged all the same counts as missing.
Values are pickled. Whoever can write to the folder can have code run, as with Python's own `__pycache__` and with any
compiled kernel: a folder that others can write to is not used.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from tilegen.errors import UsageError

FOLDER, BOUND = "TILEGEN_CACHE_DIR", "TILEGEN_CACHE_BYTES"
DEFAULT_BOUND = 512 * 10**6
_SUFFIX, _UNFINISHED = ".entry", ".part"
_MARK = b"tilegen entry 1\n"
_HEAD = len(_MARK) + 32  # with the digest
_ABANDONED_SECONDS = 3600


@dataclass(frozen=True)
class Contents:
    """How much a store holds, in files and in bytes."""

    entries: int
    bytes: int


@dataclass(frozen=True)
class Store:
    """The values in `folder`, which take no more than `bound` bytes; with a bound of 0, or without a folder, none."""

    folder: Path | None
    bound: int

    def reason_not_used(self) -> str:
        """Why nothing is stored here; empty where it is."""
        if self.bound == 0:
            return f"{BOUND} is 0"
        if self.folder is None:
            return f"the package platformdirs, which knows the folder, is not installed, and {FOLDER} is not set"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = self.folder.stat()
        except OSError as error:
            return f"{self.folder} cannot be made: {error.strerror}"
        if os.name == "posix" and (found.st_uid != os.geteuid() or found.st_mode & 0o022):
            return f"others than the user can write to {self.folder}"
        return "" if os.access(self.folder, os.W_OK | os.X_OK) else f"{self.folder} cannot be written to"

    def load(self, key: str) -> Any | None:
        """The value of `key`; None where there is none."""
        if not _is_usable(self):
            return None
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        rest = data[_HEAD:]
        try:
            if _MARK + sha256(rest).digest() != data[:_HEAD]:
                raise ValueError("damaged")
            value = pickle.loads(rest)
        except Exception:  # a damaged value fails as whatever it has become
            _remove(path)
            return None
        with suppress(OSError):
            os.utime(path)  # its last use
        return value

    def save(self, key: str, value: object) -> None:
        """`value` under `key`, where there is room for it; what was used least recently makes room."""
        if not _is_usable(self):
            return
        data = pickle.dumps(value, protocol=5)
        if len(data) + _HEAD > self.bound:
            return
        # A full disk, or another process that clears the folder: then the value is not stored.
        with suppress(OSError):
            with NamedTemporaryFile(dir=self.folder, suffix=_UNFINISHED, delete=False) as file:
                try:
                    file.write(_MARK + sha256(data).digest() + data)
                    file.close()
                    Path(file.name).replace(self._path(key))
                except OSError:
                    os.unlink(file.name)
            self._make_room()

    def contents(self) -> Contents:
        """What is stored now."""
        found = [each for each in self._files() if _is_own(each[0])]
        return Contents(sum(path.suffix == _SUFFIX for path, _ in found), sum(stat.st_size for _, stat in found))

    def clear(self) -> Contents:
        """Removes everything that is the store's; returns what that was."""
        found = self.contents()
        for path, _ in self._files():
            _remove(path)
        return found

    def _path(self, key: str) -> Path:
        assert self.folder
        return self.folder / f"{sha256(key.encode()).hexdigest()}{_SUFFIX}"

    def _make_room(self) -> None:
        found = sorted(self._files(), key=lambda each: each[1].st_mtime_ns)
        total, now = sum(stat.st_size for _, stat in found), time.time()
        for path, stat in found:
            abandoned = path.suffix == _UNFINISHED and now - stat.st_mtime > _ABANDONED_SECONDS
            if abandoned or (total > self.bound and path.suffix == _SUFFIX):
                _remove(path)
                total -= stat.st_size

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Files that may be the store's own, by their names; one may be gone before it is looked at."""
        with suppress(OSError):
            for entry in os.scandir(self.folder) if self.folder else ():
                with suppress(OSError):
                    if entry.name.endswith((_SUFFIX, _UNFINISHED)):
                        yield Path(entry.path), entry.stat()


def store() -> Store:
    """The user's store, in the platform's folder for what can be made again, or where the environment says.

    Raises:
        UsageError: the environment's bound is no number of bytes.
    """
    return _store(os.environ.get(FOLDER, ""), os.environ.get(BOUND, ""))


@cache
def _store(folder: str, bound: str) -> Store:
    if bound and not (bound.isdecimal() and len(bound) < 19):
        raise UsageError(f"{BOUND} is '{bound}', and a number of bytes is wanted", notes=("0 turns the cache off",))
    return Store(Path(folder).absolute() if folder else _users_folder(), int(bound) if bound else DEFAULT_BOUND)


def _users_folder() -> Path | None:
    try:
        from platformdirs import user_cache_path
    except ImportError:  # nothing else needs it, and no call fails for want of a cache
        return None
    return user_cache_path("tilegen", appauthor=False)


@cache
def _is_usable(store: Store) -> bool:
    return not store.reason_not_used()


def _is_own(path: Path) -> bool:
    """True if the file says that it is of a store."""
    with suppress(OSError), path.open("rb") as file:
        return file.read(len(_MARK)) == _MARK
    return False


def _remove(path: Path) -> None:
    """Removes a file of a store; any other stays."""
    with suppress(OSError):
        if _is_own(path):
            path.unlink()
