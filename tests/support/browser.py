"""A real browser without a window, for the tests of a page; they skip themselves where there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@contextmanager
def open_browser() -> Iterator[Any]:
    """A browser of playwright: the Chromium of the system, or else one that playwright has installed."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser to open a page in")
    with api.sync_playwright() as playwright:
        system = next((path for name in NAMES if (path := shutil.which(name))), None)
        path = system or playwright.chromium.executable_path
        if not Path(path).exists():
            pytest.skip("no browser was found: apt install chromium, or playwright install chromium")
        # Chromium refuses its sandbox to root.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()
