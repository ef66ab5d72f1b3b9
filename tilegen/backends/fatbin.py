"""Machine code for several architectures in one fat binary, of which a driver takes what its GPU runs."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tilegen.backends.nvrtc import Compiled
from tilegen.errors import DeviceError

_INSTALL = "pip install 'tilegen[compiler]' gives nvFatbin; the CUDA toolkit has the tool fatbinary, which will do too"


def fat_binary(parts: Sequence[Compiled], name: str) -> bytes:
    """The machine code of all `parts`, each for an architecture of its own, as one file.

    Raises:
        DeviceError: there is neither the library nvFatbin nor the tool fatbinary, or it fails.
    """
    if library_missing() is None:
        return _by_library(parts, name)
    if tool := shutil.which("fatbinary"):
        return _by_tool(parts, tool)
    raise DeviceError(f"no fat binary can be made: {library_missing()}", notes=(_INSTALL,))


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

    handle = nvfatbin.create(["-64", "-compress=true"], 2)
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
