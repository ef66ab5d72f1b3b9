"""Files that commands write. A file that is there is replaced only where it is what the same command writes."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tilegen.cli.shell.records import schema_here
from tilegen.errors import UsageError, visible
from tilegen.frontend.files import read_text, shorten
from tilegen.lab.records.values import parse_json


@dataclass(frozen=True)
class Kind:
    """A kind of file, as messages call it, and whether a text is of it."""

    name: str
    holds: Callable[[str], bool]


def _json(accepts: Callable[[dict[str, Any]], bool]) -> Callable[[str], bool]:
    def holds(text: str) -> bool:
        try:
            value = parse_json(text)
        except ValueError:
            return False
        parts = value if isinstance(value, list) else [value]
        return bool(parts) and all(isinstance(part, dict) and accepts(part) for part in parts)

    return holds


JSON = Kind("JSON that this command writes", _json(lambda value: value.get("schema") == schema_here()))
CODE = Kind("a text that tilegen has made of a kernel", lambda text: text.startswith("// kernel "))
PAGE = Kind("a page of tilegen report", lambda text: '<meta name="generator" content="tilegen">' in text[:1000])
PICTURE = Kind("a picture of tilegen's", lambda text: "<dc:title>tilegen</dc:title>" in text[:4000])
RESULTS = Kind("results in the format T4", _json(lambda value: "schema_version" in value and "results" in value))
METADATA = Kind("metadata in the format T4", _json(lambda value: "schema_version" in value and "metadata" in value))


def check_output(path: str | None, kind: Kind | None) -> None:
    """Raises UsageError where `write` would, as far as that can be seen before there is anything to write."""
    if path is None or path == "-":
        return
    if not path:
        raise UsageError("a file to write has a name, or is - for standard output")
    name, place = shorten(path), Path(path)
    try:
        if place.is_dir():
            raise UsageError(f"cannot write {name}: it is a directory")
        if not place.parent.is_dir():
            raise UsageError(f"cannot write {name}: there is no directory {shorten(str(place.parent))}")
        if not os.access(place if place.exists() else place.parent, os.W_OK):
            raise UsageError(f"cannot write {name}: that is not permitted")
        if kind and place.is_file() and place.stat().st_size and not _is_of(kind, path):
            notes = ("a command replaces only what it has written itself: remove the file, or take another name",)
            raise UsageError(f"{name} is there, and is not {kind.name}", notes=notes)
        _reserve(place.resolve(), kind, name)
    except OSError as error:
        raise UsageError(f"cannot write {name}: {error.strerror}") from None
    except ValueError:  # a character 0
        raise UsageError(f"cannot write {name}: no file has such a name") from None


def check_new(path: str, force: bool) -> None:
    """Raises UsageError where there is a file, unless `force` says to write over it, and what `check_output` raises."""
    check_output(path, None)
    if path != "-" and Path(path).exists() and not force:
        raise UsageError(f"{shorten(path)} is there already", notes=("--force writes over it",))


def _is_of(kind: Kind, path: str) -> bool:
    try:
        return kind.holds(read_text(path))
    except UsageError:
        return False


def _reserve(place: Path, kind: Kind | None, name: str) -> None:
    """Raises UsageError where another output of this command goes into the same file."""
    context = click.get_current_context(silent=True)
    outputs = context.meta.setdefault(__name__, {}) if context else {}
    if outputs.setdefault(place, kind) != kind:
        raise UsageError(f"two outputs would go into {name}")


def write(text: str, path: str | None, kind: Kind | None) -> None:
    """`text` into a file, as a whole or not at all; to standard output for None and "-".

    Args:
        kind: what a file that is there has to be; None for any.

    Raises:
        UsageError: the system refuses, or the file that is there is of another kind.
    """
    if path is None or path == "-":
        sys.stdout.write(text)
        return
    check_output(path, kind)
    place, data = Path(path), visible(text).encode()
    try:
        if place.exists() and not place.is_file():  # a pipe, a device
            place.write_bytes(data)
        else:
            _replace(place.resolve(), data)
    except OSError as error:
        raise UsageError(f"cannot write {shorten(path)}: {error.strerror}") from None


def _replace(place: Path, data: bytes) -> None:
    part = place.with_name(f"{place.name[:100]}.{os.getpid()}.part")
    try:
        with part.open("xb") as file:
            file.write(data)
        if place.exists():
            shutil.copymode(place, part)
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)
