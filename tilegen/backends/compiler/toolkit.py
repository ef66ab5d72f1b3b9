"""Where the files of the CUDA toolkit lie, and which extra of the package brings what is missing."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

from tilegen.backends.system import gpus


def way_to_a_compiler() -> str:
    """What a message says where the compiler, its headers or its tools are missing."""
    if command := gpus.install_command():
        return f"{command} gives NVRTC, its headers and tools; a GPU is not needed"
    return "NVIDIA has no compiler for macOS; on Linux it needs no GPU"


@cache
def header_folder() -> Path | None:
    """The folder of the CUDA headers: of the registry's package, or of an installed toolkit."""
    try:
        from cuda.pathfinder import find_nvidia_header_directory
    except ImportError:
        return None
    found = find_nvidia_header_directory("cudart")
    return Path(found) if found else None


@cache
def nvdisasm() -> Path | None:
    """The disassembler: of the registry's package, of an installed toolkit, or on the PATH."""
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ImportError:
        return None
    found = find_nvidia_binary_utility("nvdisasm") or shutil.which("nvdisasm")
    return Path(found) if found else None
