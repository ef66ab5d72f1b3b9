"""Where the grammar and the stock schedules lie: inside the wheel, or beside the package in a checkout."""

from __future__ import annotations

import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from tilegen.errors import Source

FOLDERS = ("schedules", "examples")  # of stock files; what the former has comes first


def data_folder(name: str) -> Traversable:
    """The folder `name`, "grammar" or one of FOLDERS. FileNotFoundError if the installation is broken."""
    inside = files("tilegen") / name
    if inside.is_dir():
        return inside
    beside = Path(__file__).resolve().parents[2] / name
    if beside.is_dir():
        return beside
    raise FileNotFoundError(f"the folder '{name}' is missing from this installation of tilegen")


def file_of(source: Source) -> Path | None:
    """The file that a stock text lies in; None for other texts, and where the installation has no files."""
    name = source.name.removeprefix("<stock ").removesuffix(">")
    if source.name != f"<stock {name}>":
        return None
    paths = [Path(str(data_folder(folder) / f"{name}.tg")) for folder in FOLDERS]
    return next((path for path in paths if path.is_file() and path.read_text(encoding="utf-8") == source.text), None)


def stock_source(folder: str, name: str) -> Source:
    """The text of the stock file `name`, under a name for messages that no path has."""
    return Source(f"<stock {name}>", (data_folder(folder) / f"{name}.tg").read_text(encoding="utf-8"))


def shipped_text(name: str) -> str | None:
    """The text of what lies beside the stock files: "std", "instructions", a program ("gemm.py"); None for others."""
    folder, file = ("schedules", f"{name}.tg") if name in ("std", "instructions") else ("examples", name)
    path = data_folder(folder) / file
    return path.read_text(encoding="utf-8") if re.fullmatch(r"\w+\.(tg|py)", file) and path.is_file() else None
