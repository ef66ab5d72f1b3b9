"""Is there a GPU that kernels can run on, and if there is none: what is missing, and what mends it."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tilegen.backends.system import folders
from tilegen.backends.system.forks import note_use
from tilegen.errors import first_line
from tilegen.installation import install_extra, uninstall

A_GPU = "a GPU"  # as `forks` calls it
_ABSENT = "no GPU was found"
_OLDEST_DRIVER = 12  # the oldest major version of CUDA that an extra of this package is for
_INSUFFICIENT_DRIVER, _NO_DEVICE = 35, 100  # cudaErrorInsufficientDriver, cudaErrorNoDevice


@dataclass(frozen=True)
class Missing:
    """Why no kernel can run on a GPU here.

    Attributes:
        reason: a sentence without its full stop.
        way_out: what mends it, where that is known.
    """

    reason: str
    way_out: str | None = None

    @property
    def absent(self) -> bool:
        """True where no GPU is there at all; otherwise there is a driver, and something keeps kernels from it."""
        return self.reason.startswith(_ABSENT)


@cache
def missing() -> Missing | None:
    """What is missing for kernels to run on a GPU here, or None where they can."""
    driver = driver_version()
    if driver is None:
        return Missing(f"{_ABSENT} (there is no NVIDIA driver)")
    if driver[0] < _OLDEST_DRIVER:
        return Missing(
            f"the NVIDIA driver is too old: it runs CUDA {_text(driver)}, and CUDA {_OLDEST_DRIVER} is needed",
            "install the NVIDIA driver 525 or a later one",
        )
    # cupy does not load where it cannot write to its cache.
    if reason := folders.choose_cache("cupy", "CUPY_CACHE_DIR", Path(os.path.expanduser("~/.cupy/kernel_cache"))):
        return Missing(reason)
    try:
        import cupy
    except ImportError as error:
        reason = "cupy is not installed" if error.name == "cupy" else f"cupy does not load ({first_line(error)})"
        return Missing(f"{reason}, which runs kernels on a GPU", install_command())
    return _missing_for(cupy.cuda.runtime, driver)


def _missing_for(runtime: Any, driver: tuple[int, int]) -> Missing | None:
    """What is missing where there are a driver and cupy's `runtime`."""
    note_use(A_GPU)
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        if error.status == _INSUFFICIENT_DRIVER:
            needed = _pair(runtime.runtimeGetVersion())
            return Missing(
                f"the NVIDIA driver is too old: it runs CUDA {_text(driver)}, and cupy is for CUDA {_text(needed)}",
                f"{uninstall(f'cupy-cuda{needed[0]}x')}, then {install_command()}; or install a newer driver",
            )
        if error.status == _NO_DEVICE:
            return Missing(f"{_ABSENT} (the NVIDIA driver knows of none)")
        return Missing(f"the GPU cannot be used ({first_line(error)})")
    return None if count else Missing(f"{_ABSENT} (the NVIDIA driver knows of none)")


def names() -> tuple[str, ...]:
    """The GPUs of this machine, each with its architecture and memory, where none is missing."""
    import cupy

    runtime = cupy.cuda.runtime
    found = [runtime.getDeviceProperties(number) for number in range(runtime.getDeviceCount())]
    return tuple(
        f"{each['name'].decode()} (sm_{each['major']}{each['minor']}, {each['totalGlobalMem'] >> 30} GiB)"
        for each in found
    )


def visible() -> tuple[str, ...]:
    """The GPUs that this process may use, where none is missing, as CUDA_VISIBLE_DEVICES names them for a child."""
    import cupy

    count = cupy.cuda.runtime.getDeviceCount()
    named = [word.strip() for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.strip()]
    return tuple(named[:count] if named else map(str, range(count)))


def current_name() -> str:
    """The name of the current GPU, where none is missing."""
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    name: str = properties["name"].decode()
    return name


def install_command() -> str | None:
    """What installs the CUDA compiler, and what a GPU needs for its driver where there is one; None on macOS."""
    if sys.platform == "darwin":
        return None
    driver = driver_version()
    return install_extra("compiler" if driver is None or driver[0] < _OLDEST_DRIVER else f"cuda{min(driver[0], 13)}")


@cache
def driver_version() -> tuple[int, int] | None:
    """The version of CUDA that the installed NVIDIA driver runs: (12, 8). None where there is no driver."""
    version = ctypes.c_int()
    try:
        library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        error = library.cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    return None if error else _pair(version.value)


def _pair(version: int) -> tuple[int, int]:
    """12080 is 12.8."""
    return version // 1000, version % 1000 // 10


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
