"""Kernels whose machine code says of which line of the schedule it is, for the source page of a profiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilegen.backends.calls.origins import emit_with_places
from tilegen.backends.compiler import nvrtc
from tilegen.backends.devices.cuda import CudaEngine
from tilegen.lowering import Launch
from tilegen.schedule import Derivation


class EngineWithLines(CudaEngine):
    """A CUDA device that compiles with the lines of a schedule.

    The CUDA text lies in `file` after `build`: what no step asked for has its own lines, and a profiler reads them.
    """

    def __init__(self, derivation: Derivation, file: Path) -> None:
        """Raises DeviceError where there is no GPU."""
        super().__init__()
        self._derivation, self._file = derivation, file

    def build(self, text: str, launches: Sequence[Launch]) -> Mapping[str, Any]:
        """Raises what `CudaEngine.build` raises."""
        return super().build(write_with_places(launches, self._derivation, self._file), launches)

    def compile(self, text: str, arch: str) -> bytes:
        return compile_with_lines(text, arch, self._file)


def write_with_places(launches: Sequence[Launch], derivation: Derivation, file: Path) -> str:
    """Writes the CUDA text of the launches, with `#line` directives, into a file; and returns it."""
    text = emit_with_places(launches, derivation, str(file))
    file.write_text(text, encoding="utf-8")
    return text


def compile_with_lines(text: str, arch: str, file: Path) -> bytes:
    """The machine code of the text of a file with its table of lines. Raises DeviceError where it is refused."""
    return nvrtc.compile_text(text, arch, str(file), lines=True).cubin
