"""Machine code for several architectures in one fat binary, of which a driver takes what its GPU runs."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tilegen.backends.compiler import toolkit
from tilegen.backends.compiler.nvrtc import Compiled
from tilegen.errors import DeviceError


def fat_binary(parts: Sequence[Compiled], name: str) -> bytes:
    """The machine code of all `parts`, each for an architecture of its own, as one file.

    Raises:
        DeviceError: there is neither the library nvFatbin nor the tool fatbinary, or it fails.
    """
    require_tool()
    return _by_library(parts, name) if library_missing() is None else _by_tool(parts, "fatbinary")


def require_tool() -> None:
    """Raises DeviceError where no fat binary can be made."""
    reason = library_missing()
    if reason and not shutil.which("fatbinary"):
        notes = (toolkit.way_to_a_compiler(), "the tool fatbinary of the CUDA toolkit will do, too")
        raise DeviceError(f"no fat binary can be made: {reason}", notes=notes)


def library_missing() -> str | None:
    """Why nvFatbin cannot be used, or None where it can."""
    try:
        from cuda.bindings import nvfatbin

        nvfatbin.version()
    except ImportError as error:
        return f"the package of nvFatbin is not installed ({error})"
    except Exception:  # the loader's own error, a page long
        return "the library nvFatbin is not installed"
    return None


def _by_library(parts: Sequence[Compiled], name: str) -> bytes:
    from cuda.bindings import nvfatbin

    handle = nvfatbin.create(["-64"], 1)
    try:
        for part in parts:
            number = part.arch.removeprefix("sm_")
            nvfatbin.add_cubin(handle, part.cubin, len(part.cubin), number, name)
        found = bytearray(nvfatbin.size(handle))
        nvfatbin.get(handle, found)
    except nvfatbin.nvFatbinError as error:
        raise DeviceError(f"nvFatbin makes no fat binary of {', '.join(p.arch for p in parts)}: {error}") from None
    finally:
        nvfatbin.destroy(handle)
    return bytes(found)


def _by_tool(parts: Sequence[Compiled], tool: str) -> bytes:
    with TemporaryDirectory() as folder:
        images = []
        for part in parts:
            file = Path(folder, f"{part.arch}.cubin")
            file.write_bytes(part.cubin)
            images.append(f"--image3=kind=elf,sm={re.sub('^sm_', '', part.arch)},file={file}")
        result = Path(folder, "all.fatbin")
        done = subprocess.run([tool, "-64", f"--create={result}", *images], capture_output=True, text=True, check=False)
        if done.returncode:
            raise DeviceError(f"fatbinary fails: {(done.stderr or done.stdout).strip()}")
        return result.read_bytes()
