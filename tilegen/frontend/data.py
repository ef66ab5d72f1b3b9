"""Where the grammar and the stock schedules lie: inside the wheel, or beside the package in a checkout."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path


def data_folder(name: str) -> Traversable:
    """The folder `name` ("grammar" or "schedules"). FileNotFoundError if the installation is broken."""
    inside = files("tilegen") / name
    if inside.is_dir():
        return inside
    beside = Path(__file__).resolve().parents[2] / name
    if beside.is_dir():
        return beside
    raise FileNotFoundError(f"the folder '{name}' is missing from this installation of tilegen")
