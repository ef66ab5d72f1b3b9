"""What earlier processes have found out about a scheduled kernel: that its steps are legal, its launches, its texts.

All of that follows from the words of the user and from tilegen itself, so these are its identity: the text of the file,
the kernel, the values given for its sizes, attributes and parameters, the steps; and the digest of tilegen's own files.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from time import time
from typing import Any

from tilegen.backends.system.store import store
from tilegen.frontend.data import FOLDERS, data_folder

_STARTED = time()


@dataclass(frozen=True)
class Record:
    """What is stored of one scheduled kernel. Without an identity that is nothing, and nothing will be."""

    identity: str | None = None

    def then(self, *words: object) -> Record:
        """The same for what `words`, which decide all of it, make of this one."""
        return Record(_digest(self.identity, words)) if self.identity else self

    def recall(self, *words: object) -> Any | None:
        """What was kept under these words; None where nothing was."""
        return store().load(_digest(self.identity, words)) if self.identity else None

    def keep(self, value: object, *words: object) -> None:
        """Stores `value`, which is not None, under these words."""
        if self.identity:
            store().save(_digest(self.identity, words), value)


def record_of(*words: object) -> Record:
    """What is stored of what tilegen, as it is here, makes of `words`."""
    own = own_digest()
    return Record(_digest(own, words)) if own else Record()


@cache
def own_digest() -> str | None:
    """Of all files that decide what tilegen makes of a text, and of the versions of isl and of Python.

    None where the files are not what this process runs: one has been changed since.
    """
    digest = sha256(repr((sys.version_info[:3], version("islpy"))).encode())
    for name, data in _own_files():
        digest.update(repr((name, len(data))).encode() + data)
    newest = max((path.stat().st_mtime for path in _modules()), default=float("inf"))
    return digest.hexdigest() if newest < _STARTED else None


def _own_files() -> Iterator[tuple[str, bytes]]:
    package = Path(__file__).parents[2]
    for path in _modules():
        yield path.relative_to(package).as_posix(), path.read_bytes()
    for folder in ("grammar", *FOLDERS):
        for file in sorted(data_folder(folder).iterdir(), key=lambda each: each.name):
            if file.name.endswith((".tg", ".lark")):
                yield f"{folder}/{file.name}", file.read_bytes()


def _modules() -> list[Path]:
    """With the files of functions that texts take."""
    return sorted(each for each in Path(__file__).parents[2].rglob("*.*") if each.suffix in (".py", ".cuh", ".cl"))


def _digest(*words: object) -> str:
    return sha256(repr(words).encode()).hexdigest()
