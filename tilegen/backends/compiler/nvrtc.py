"""CUDA text to machine code by NVRTC, for any architecture, GPU or no GPU; and what each kernel takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from tilegen.backends.compiler import toolkit
from tilegen.backends.system.record import record_of
from tilegen.errors import DeviceError, Source, Span, first_line

DEFAULT_ARCH = "sm_90"


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
        version()
    except ImportError as error:
        return f"the CUDA compiler NVRTC is not installed ({first_line(error)})"
    except Exception as error:  # a missing or broken library: each loader has an error of its own
        return f"the CUDA compiler NVRTC does not load ({first_line(error)})"
    return None


def version() -> tuple[int, int]:
    """The version of NVRTC. Raises what its loader raises where it is not there."""
    from cuda.bindings import nvrtc

    major, minor = _call(nvrtc.nvrtcVersion)
    return major, minor


@cache
def architectures() -> tuple[str, ...]:
    """What NVRTC compiles for, without those that end in a letter; nothing where it is not there."""
    if unavailable_reason():
        return ()
    from cuda.bindings import nvrtc

    return tuple(f"sm_{number}" for number in _call(nvrtc.nvrtcGetSupportedArchs))


@cache
def options() -> tuple[str, ...]:
    """Compiler options without the architecture. Subnormal numbers of f32 are taken as 0."""
    folder = toolkit.header_folder()
    return ("--std=c++17", "-ftz=true", *([f"-I{folder}"] if folder else []))


# The assembler's report is the one source of spills that needs neither a GPU nor another tool. It is
# empty where NVRTC finds the text in a cache of its own, beside a driver.
_REPORT = ("--ptxas-options=-v", "--no-cache")


def compile_text(text: str, arch: str = DEFAULT_ARCH, name: str = "kernel.cu", *, lines: bool = False) -> Compiled:
    """`text` compiled for `arch` ("sm_90").

    Args:
        name: what messages call it, and with `lines` the machine code.
        lines: True has the machine code say of which line of the text each instruction is; it is the same otherwise.

    Raises:
        DeviceError: there is no compiler, it does not know `arch`, or it refuses the text.
    """
    require_compiler()
    more = (*_REPORT, *(("--generate-line-info",) if lines else ()))
    record = record_of("cubin", text, arch, more, options(), version(), *((name,) if lines else ()))
    found: Compiled | None = record.recall()
    if found is None:
        found, _ = compile_with_ptx(text, arch, name, more)
        record.keep(found)
    return found


def compile_ptx(text: str, arch: str = DEFAULT_ARCH) -> str:
    """The PTX of `text` for the virtual architecture of `arch`. Raises DeviceError as `compile_text` does."""
    (ptx,), _ = _compile(text, arch.replace("sm_", "compute_"), "kernel.cu", (), ("PTX",))
    return ptx.rstrip(b"\0").decode()


def compile_with_ptx(
    text: str, arch: str, name: str = "kernel.cu", more: tuple[str, ...] = _REPORT
) -> tuple[Compiled, str]:
    """What `compile_text` gives, and the PTX that it is assembled from, by one run of the compiler."""
    (cubin, ptx), log = _compile(text, arch, name, more, ("CUBIN", "PTX"))
    return Compiled(arch, cubin, _resources(log)), ptx.rstrip(b"\0").decode()


def require_compiler() -> None:
    """Raises DeviceError where CUDA text cannot be compiled here."""
    if reason := unavailable_reason():
        raise DeviceError(reason, notes=(toolkit.way_to_a_compiler(),))


def _compile(
    text: str, arch: str, name: str, more: tuple[str, ...], kinds: tuple[str, ...]
) -> tuple[tuple[bytes, ...], str]:
    """(outputs, log) of the compiler; `kinds` of output are "CUBIN" and "PTX"."""
    require_compiler()
    from cuda.bindings import nvrtc

    flags = [flag.encode() for flag in (f"--gpu-architecture={arch}", *more, *options())]
    program = _call(nvrtc.nvrtcCreateProgram, text.encode(), name.encode(), 0, [], [])
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
        log = _bytes(nvrtc, "ProgramLog", program).rstrip(b"\0").decode()
        if status:
            raise _refusal(log, Source(name, text), arch, status.name)
        return tuple(_bytes(nvrtc, kind, program) for kind in kinds), log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _bytes(nvrtc: Any, what: str, program: Any) -> bytes:
    """What NVRTC has made of a program: its "ProgramLog", "PTX" or "CUBIN"."""
    found = bytearray(_call(getattr(nvrtc, f"nvrtcGet{what}Size"), program))
    _call(getattr(nvrtc, f"nvrtcGet{what}"), program, found)
    return bytes(found)


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    """The results of one call of the library: none, one, or a tuple of several."""
    status, *results = function(*arguments)
    if status:
        raise DeviceError(f"the CUDA compiler library fails ({status.name})")
    return results[0] if len(results) == 1 else results


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


def _refusal(log: str, source: Source, arch: str, status: str) -> DeviceError:
    """The compiler's first complaint, at its line of the generated text."""
    match = re.search(r"\((\d+)\): (?:catastrophic )?error: ?(.*)", log)
    if match is None:
        return DeviceError(f"the CUDA compiler fails for {arch}: {first_line(log) or status}")
    span = Span(source, int(match.group(1)), 1, len(source.line(int(match.group(1)))))
    return DeviceError(f"the CUDA compiler refuses the text for {arch}: {match.group(2)}", span)
