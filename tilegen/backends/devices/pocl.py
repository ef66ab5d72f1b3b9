"""What PoCL needs of a machine: a linker with the C library's development files, and a processor that it can name.

It links each kernel by `ld`. Where the development files are not installed, a linker script for each, which names the
library that every machine runs on, does instead. PoCL ends the whole process when linking fails, so this is settled
beforehand.

The LLVM 14 in PoCL 3.0 calls a processor that is newer than itself "generic", and its own compiler then refuses that
name: no kernel can be built. "x86-64" is the name that it takes for any processor.
"""

from __future__ import annotations

import os
import shutil
import struct
import sys
from functools import cache
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from tilegen.backends.calls.memory import bytes_text
from tilegen.backends.system import folders
from tilegen.errors import LimitError

if TYPE_CHECKING:
    from tilegen.lowering import Launch

_SCRIPTS = {
    "libgcc.a": "INPUT(libgcc_s.so.1)\n",
    "libgcc_s.so": "INPUT(libgcc_s.so.1)\n",
    "libc.so": "INPUT(libc.so.6)\n",
}

_USUAL_STACK = 2**21  # of a thread where the system has no limit
_SHARE = 0.75  # of a stack that registers may take

_UNKNOWN, _ANY = b"generic\0", b"x86-64\0\0"
_DEVICE_BYTES = 4096  # PoCL's structure for a device is smaller


@cache
def unavailable_reason() -> str | None:
    """Why PoCL cannot link kernels here, or None where it can. Sets PATH and LIBRARY_PATH where that is needed."""
    os.environ.setdefault("PATH", os.defpath)  # where there is none, PoCL does not take the system's
    if shutil.which("ld") is None:
        return "PoCL needs the linker ld: install binutils"
    if not _development_files():
        folder = folders.folder_of_process() / "libraries"
        folder.mkdir(exist_ok=True)
        for name, text in _SCRIPTS.items():
            (folder / name).write_text(text)
        os.environ["LIBRARY_PATH"] = ":".join(filter(None, (str(folder), os.environ.get("LIBRARY_PATH"))))
    return None


@cache
def choose_cache() -> str | None:
    """Why PoCL has no folder for what it compiles, or None where it has one; sets POCL_CACHE_DIR where that is needed.

    Where PoCL cannot write into its own folder it finds no device, and where the disk is full it ends the process.
    """
    if sys.platform != "linux":  # where another platform serves
        return None
    return folders.choose_cache("PoCL", "POCL_CACHE_DIR", cache_folder())


def cache_folder() -> Path:
    """Where PoCL keeps what it compiles."""
    home = os.environ.get("HOME")
    caches = os.environ.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home is not None else "/tmp")
    return Path(os.environ.get("POCL_CACHE_DIR") or Path(caches, "pocl", "kcache"))


def _development_files() -> bool:
    """True where a C compiler's own libraries are installed."""
    system = Path("/usr/lib")
    libraries = (*system.glob("*/libc.so"), *Path("/usr").glob("lib64/libc.so"))
    return any(system.glob("gcc/*/*/libgcc.a")) and any(f.stat().st_size for f in libraries)


def require_room(launch: Launch, shared: int, most_shared: int) -> None:
    """Raises LimitError where a block takes more memory than there is: PoCL would end the process.

    The registers of all threads of a block, and what else they compute, lie on the stack of one of PoCL's own threads.

    Args:
        shared, most_shared: bytes of shared memory, as PoCL knows them of the kernel and of the device.
    """
    private, most_private = launch.private_bytes * launch.threads, int(_SHARE * _stack_bytes())
    if private > most_private:
        way = f"'ulimit -s {ceil(private / _SHARE / 1024)}' in the shell gives it more"
        raise _too_much(launch, private, "registers", most_private, way)
    if shared > most_shared:
        raise _too_much(launch, shared, "shared memory", most_shared)


def _stack_bytes() -> int:
    """Of a thread that is started with what the system gives it."""
    import resource  # not on every system

    limit, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return _USUAL_STACK if limit == resource.RLIM_INFINITY else limit


def _too_much(launch: Launch, needed: int, what: str, there: int, *ways: str) -> LimitError:
    message = (
        f"a block of '{launch.name}' takes {bytes_text(needed)} of {what}, and PoCL has {bytes_text(there)} for it"
    )
    return LimitError(message, notes=(*ways, "--device interpreter does without PoCL"))


def name_processor(device: int) -> None:
    """Replaces the name of an unknown processor, in the structure at address `device`, by one that PoCL compiles for.

    PoCL has no setting for it. The structure holds a pointer to the name; the system reads and writes the memory, so
    that a field which is no pointer is an error that can be caught.
    """
    try:
        memory = os.open("/proc/self/mem", os.O_RDWR)
    except OSError:
        return  # PoCL will say itself what it does not know
    try:
        for (address,) in struct.iter_unpack("=Q", os.pread(memory, _DEVICE_BYTES, device)):
            try:
                if os.pread(memory, len(_UNKNOWN), address) == _UNKNOWN:
                    os.pwrite(memory, _ANY, address)
            except (OSError, OverflowError):
                continue
    finally:
        os.close(memory)
