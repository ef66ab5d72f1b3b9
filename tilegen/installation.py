"""The command that installs what is missing, as it works here, and from where tilegen was installed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from platform import machine
from urllib.parse import urlsplit


def install_extra(extra: str = "", *options: str) -> str:
    """The command for tilegen with the packages of an extra ("report"), or without one; `options` are those of pip.

    It names the checkout or the wheel that tilegen was installed from; where that is gone or was never known, the
    packages themselves, which any index has.
    """
    from urllib.request import url2pathname  # with all of HTTP, which nothing else needs

    suffix = f"[{extra}]" if extra else ""
    try:
        found = distribution("tilegen")
    except PackageNotFoundError:  # a checkout that was never installed
        return install(*options, _short(Path(__file__).parents[1]) + suffix)
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    url = urlsplit(origin.get("url", ""))
    path = Path(url2pathname(url.path))
    if url.scheme == "file" and path.exists():
        editable = ["-e"] if origin.get("dir_info", {}).get("editable") else []
        return install(*options, *editable, _short(path) + suffix)
    required = list(_requirements(found, extra))
    return install(*options, *([each for each in required if not _is_installed(each)] or required))


def install(*words: str) -> str:
    """The command that installs packages into the environment of this Python."""
    return f"{_pip('install')} {shlex.join(words)}"


def uninstall(*names: str) -> str:
    """The command that removes packages from the environment of this Python."""
    return f"{_pip('uninstall')} {shlex.join(names)}"


def _pip(command: str) -> str:
    beside = Path(sys.executable).with_name("pip")
    if (known := shutil.which("pip")) and Path(known) == beside:
        return f"pip {command}"
    if beside.exists():
        return f"{shlex.quote(_short(beside))} {command}"
    python = shlex.quote(_short(Path(sys.executable)))
    return f"{python} -m pip {command}" if find_spec("pip") else f"uv pip {command} --python {python}"


def _short(path: Path) -> str:
    """The path from the current folder, where it is in that, and never to be taken for the name of a package."""
    absolute, here = Path(os.path.abspath(path)), Path.cwd()
    if not absolute.is_relative_to(here):
        return str(absolute)
    relative = os.path.relpath(absolute, here)
    return relative if relative.startswith(".") else f"./{relative}"


def _requirements(found: Distribution, extra: str) -> Iterator[str]:
    """What tilegen requires on this system with an extra, or without one, as pip takes it."""
    here = {"sys_platform": sys.platform, "platform_machine": machine(), "extra": extra}
    for line in found.requires or ():
        name, _, condition = (part.strip() for part in line.partition(";"))
        tests = re.findall(r"""(\w+) (==|!=) ['"](.*?)['"]""", condition)  # all of them joined by `and`
        if ("extra" in condition) == bool(extra) and all(
            (here[n] == value) == (sign == "==") for n, sign, value in tests
        ):
            yield name


def _is_installed(requirement: str) -> bool:
    name = re.match(r"[\w.-]+", requirement)
    try:
        return name is not None and distribution(name[0]) is not None
    except PackageNotFoundError:
        return False
