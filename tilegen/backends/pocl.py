"""What PoCL needs of a machine: it links each kernel, by `ld` and against the C library's development files.

Where those files are not installed, a linker script for each, which names the library that every machine
runs on, does instead. PoCL ends the whole process when linking fails, so this is settled beforehand.
"""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

_SCRIPTS = {
    "libgcc.a": "INPUT(libgcc_s.so.1)\n",
    "libgcc_s.so": "INPUT(libgcc_s.so.1)\n",
    "libc.so": "INPUT(libc.so.6)\n",
}


@cache
def missing() -> str | None:
    """Why PoCL cannot link kernels here, or None where it can. Sets LIBRARY_PATH where that is needed."""
    if shutil.which("ld") is None:
        return "PoCL needs the linker ld: install binutils"
    if not _development_files():
        os.environ["LIBRARY_PATH"] = ":".join(filter(None, (_scripts().name, os.environ.get("LIBRARY_PATH"))))
    return None


def _development_files() -> bool:
    """True where a C compiler's own libraries are installed."""
    system = Path("/usr/lib")
    libraries = (*system.glob("*/libc.so"), *Path("/usr").glob("lib64/libc.so"))
    return any(system.glob("gcc/*/*/libgcc.a")) and any(f.stat().st_size for f in libraries)


@cache
def _scripts() -> TemporaryDirectory[str]:
    """A folder of linker scripts; it goes when the process ends."""
    folder = TemporaryDirectory(prefix="tilegen-")
    for name, text in _SCRIPTS.items():
        (Path(folder.name) / name).write_text(text)
    return folder
