"""What an index, a reader and a citation are told of the package: one version, one licence, all that belongs to it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tilegen.version import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_is_stated_once() -> None:
    assert PROJECT["tool"]["hatch"]["version"] == {"path": "tilegen/version.py"}
    assert "version" not in PROJECT["project"]
    assert f"\nversion: {__version__}\n" in (ROOT / ".github/CITATION.cff").read_text()
    latest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert latest
    assert latest[1] == __version__


def test_the_licence_is_there() -> None:
    assert PROJECT["project"]["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License\n                           Version 2.0" in text
    assert "Copyright 2026 The tilegen authors" in text


def test_ci_takes_all_of_the_repository() -> None:
    known = {
        "CHANGELOG.md",
        "LICENSE",
        "README.md",
        "examples",
        "grammar",
        "pyproject.toml",
        "schedules",
        "tests",
        "tilegen",
    }
    ci = (ROOT / ".ci/run").read_text()
    copied = re.search(r'^cp -r (.*) "\$work/checkout"$', ci, re.M)
    assert copied
    assert known <= set(copied[1].split())
