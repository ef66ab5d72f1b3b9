"""CUDA text to machine code by NVRTC, for any architecture, GPU or no GPU; and what each kernel takes."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tilegen.errors import DeviceError, Source, Span

DEFAULT_ARCH = "sm_90"
_INSTALL = "pip install 'cupy-cuda13x' 'nvidia-cuda-nvrtc>=13,<14' gives the compiler; a GPU is not needed"


@dataclass(frozen=True)
class Resources:
    """What one thread, or one block, of a kernel takes. Static shared memory and the others in bytes."""

    registers: int
    shared: int
    spills: int
    stack: int


@dataclass(frozen=True)
class Compiled:
    """Machine code for one architecture, and the resources of each kernel in it by name."""

    arch: str
    cubin: bytes
    resources: dict[str, Resources]


@cache
def unavailable_reason() -> str | None:
    """Why CUDA text cannot be compiled here, or None where it can."""
    try:
        from cupy.cuda import nvrtc

        nvrtc.getVersion()
    except Exception as error:  # a missing package, a missing or broken library: whatever stops cupy
        return f"the CUDA compiler library does not load ({_first_line(error)})"
    return None


@cache
def options() -> tuple[str, ...]:
    """Compiler options without the architecture; the same for NVRTC and for cupy's RawModule.

    cupy takes subnormal numbers as 0 whatever it is told, so what is shown of the machine code does so too.
    """
    return ("--std=c++17", "-ftz=true", *(f"-I{folder}" for folder in _include_folders()))


def compile_text(text: str, arch: str = DEFAULT_ARCH, name: str = "kernel.cu") -> Compiled:
    """`text` compiled for `arch` ("sm_90").

    Raises:
        DeviceError: there is no compiler, it does not know `arch`, or it refuses the text.
    """
    if reason := unavailable_reason():
        raise DeviceError(reason, notes=(_INSTALL,))
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(text, name, (), ())
    try:
        # The assembler's report is the one source of spills that needs neither a GPU nor another tool. It is
        # empty where NVRTC finds the text in a cache of its own, beside a driver.
        report = ("--ptxas-options=-v", "--no-cache")
        nvrtc.compileProgram(program, (f"--gpu-architecture={arch}", *report, *options()))
        return Compiled(arch, _cubin(nvrtc, program), _resources(nvrtc.getProgramLog(program)))
    except nvrtc.NVRTCError as error:
        raise _refusal(nvrtc.getProgramLog(program), Source(name, text), arch, error) from None
    finally:
        nvrtc.destroyProgram(program)


def _cubin(nvrtc: Any, program: Any) -> bytes:
    # cupy takes the bytes for a C string and drops the last one, which pads the file and is zero.
    return bytes(nvrtc.getCUBIN(program)) + b"\0"


def _resources(log: str) -> dict[str, Resources]:
    """The kernels of an assembler report: one "Compiling entry function" each, its figures after it."""
    found = {}
    for part in log.split("Compiling entry function '")[1:]:
        name = part.partition("'")[0]
        spills = _figure(r"(\d+) bytes spill stores", part) + _figure(r"(\d+) bytes spill loads", part)
        found[name] = Resources(
            registers=_figure(r"Used (\d+) registers", part),
            shared=_figure(r"(\d+) bytes smem", part),
            spills=spills,
            stack=_figure(r"(\d+) bytes stack frame", part),
        )
    return found


def _figure(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(match.group(1)) if match else 0


def _refusal(log: str, source: Source, arch: str, error: Exception) -> DeviceError:
    """The compiler's first complaint, at its line of the generated text."""
    match = re.search(r"\((\d+)\): (?:catastrophic )?error: ?(.*)", log)
    if match is None:
        return DeviceError(f"the CUDA compiler fails for {arch}: {_first_line(log) or _first_line(error)}")
    span = Span(source, int(match.group(1)), 1, len(source.line(int(match.group(1)))))
    return DeviceError(f"the CUDA compiler refuses the text for {arch}: {match.group(2)}", span)


def _include_folders() -> list[str]:
    """Where the CUDA headers lie: in the registry's package, or in an installed toolkit."""
    candidates: list[Path] = []
    try:
        import nvidia

        candidates += [f for root in nvidia.__path__ for f in sorted(Path(root).glob("*/include"))]
    except ImportError:
        pass
    toolkits = [os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    candidates += [Path(t) / "include" for t in toolkits if t]
    return next(([str(f)] for f in candidates if (f / "cuda_fp16.h").exists()), [])


def _first_line(value: object) -> str:
    lines = str(value).strip().splitlines()
    return lines[0].strip() if lines else type(value).__name__
