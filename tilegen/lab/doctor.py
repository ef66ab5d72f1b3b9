"""What tilegen finds on this machine, what is missing, and the command that mends it."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distributions, version
from typing import Literal

from tilegen.backends.calls.memory import bytes_text
from tilegen.backends.compiler import fatbin, nvrtc, toolkit
from tilegen.backends.devices import opencl
from tilegen.backends.system import gpus
from tilegen.backends.system.store import store
from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.frontend.stock import standard_steps, stock_names
from tilegen.installation import install, install_extra, uninstall
from tilegen.schedule import apply

_TEXT = """\
kernel twice(A: f32[N]) -> B: f32[N]:
    B[i] = 2 * A[i]

schedule threads for twice():
    blocks(i, 256) -> b, t
"""
State = Literal["ok", "missing", "broken"]


@dataclass(frozen=True)
class Finding:
    """One thing that tilegen uses.

    Attributes:
        name: what it is called.
        use: what it is for.
        state: "broken" is what is there and does not work.
        found: its version and place, or what is known of why it is not there.
        way_out: what mends it; None where it is fine, and where nothing can be installed.
        essential: without it nothing works.
    """

    name: str
    use: str
    state: State
    found: str
    way_out: str | None = None
    essential: bool = False


def examine() -> tuple[Finding, ...]:
    """Everything that tilegen uses, as it is here; nothing is changed, and no probe raises."""
    return tuple(_examine_one(name, use, probe, essential) for name, use, probe, essential in _PROBES)


def _examine_one(name: str, use: str, probe: _Probe, essential: bool) -> Finding:
    try:
        state, found, way_out = probe()
    except Exception as error:  # whatever a broken installation does, the other rows are shown
        lines = str(error).strip().splitlines()
        state, found, way_out = "broken", lines[0] if lines else type(error).__name__, None
    return Finding(name, use, state, found, way_out, essential)


_Result = tuple[State, str, str | None]
_Probe = Callable[[], _Result]


def _python() -> _Result:
    return "ok", f"{platform.python_version()} at {sys.executable}, {platform.platform(terse=True)}", None


def _judge() -> _Result:
    """A schedule from its text to its tree: the grammar, the stock files and isl."""
    module = parse(Source("doctor.tg", _TEXT))
    apply(build(module.kernels["twice"], {}), module.schedules[0], defines=standard_steps())
    return "ok", f"islpy {version('islpy')}, {len(stock_names())} stock files", None


def _nvrtc() -> _Result:
    if reason := nvrtc.unavailable_reason():
        return "missing", reason, gpus.install_command()
    major, minor = nvrtc.version()
    driver = gpus.driver_version()
    if driver and driver[0] < major:
        found = f"CUDA {major}.{minor}, and the driver runs CUDA {driver[0]}.{driver[1]}, which loads no code of it"
        return (
            "broken",
            found,
            f"{uninstall('nvidia-cuda-nvrtc', 'nvidia-cuda-runtime')}, then {gpus.install_command()}",
        )
    return "ok", f"CUDA {major}.{minor}", None


def _headers() -> _Result:
    folder = toolkit.header_folder()
    if folder is None:
        return "missing", "no CUDA headers were found", gpus.install_command()
    found = re.search(r"#define\s+CUDART_VERSION\s+(\d+)", (folder / "cuda_runtime_api.h").read_text(errors="replace"))
    major = int(found[1]) // 1000 if found else 0
    if found and not nvrtc.unavailable_reason() and nvrtc.version()[0] != major:
        way_out = install(_package("nvidia-cuda-runtime", nvrtc.version()[0]))
        if major > nvrtc.version()[0]:  # the newer ones would be found first all the same
            way_out = f"{uninstall('nvidia-cuda-runtime')}, then {way_out}"
        return "broken", f"of CUDA {major}, and NVRTC is of CUDA {nvrtc.version()[0]}: {folder}", way_out
    return "ok", f"CUDA {major}.{int(found[1]) % 1000 // 10}, {folder}" if found else str(folder), None


def _package(name: str, major: int) -> str:
    """The package of `name` of a major version of CUDA, as pip takes it."""
    return f"{name}-cu12>=12.9,<13" if major == 12 else f"{name}>={major},<{major + 1}"


def _disassembler() -> _Result:
    found = toolkit.nvdisasm()
    return ("ok", str(found), None) if found else ("missing", "no nvdisasm was found", gpus.install_command())


def _fat_binaries() -> _Result:
    reason = fatbin.library_missing()
    return ("missing", reason, gpus.install_command()) if reason else ("ok", "found", None)


def _cache() -> _Result:
    place = store()
    if reason := place.reason_not_used():
        return "missing", reason, None
    found = place.contents()
    return "ok", f"{place.folder}, {bytes_text(found.bytes)} of at most {bytes_text(place.bound)}", None


def _driver() -> _Result:
    found = gpus.driver_version()
    return ("ok", f"runs CUDA {found[0]}.{found[1]}", None) if found else ("missing", "there is none", None)


def _cupy() -> _Result:
    installed = sorted({d.name for d in distributions() if re.fullmatch(r"cupy(-cuda\d+x)?", d.name or "")})
    if not installed:
        return "missing", "it is not installed", gpus.install_command() if gpus.driver_version() else None
    found = ", ".join(f"{name} {version(name)}" for name in installed)
    if len(installed) > 1:
        return "broken", f"{found}: one of them alone can be imported", uninstall(*installed[:-1])
    return "ok", found, None


def _gpus() -> _Result:
    lacking = gpus.missing()
    if lacking is None:
        return "ok", "; ".join(gpus.names()), None
    return "missing" if lacking.absent else "broken", lacking.reason, lacking.way_out


def _sensors() -> _Result:
    """The library alone: whether it reads the sensors of a GPU is shown beside times."""
    state, found, way_out = _packages("nvidia-ml-py")()
    return state, found, way_out if gpus.driver_version() else None


def _opencl() -> _Result:
    if reason := opencl.unavailable_reason():
        return "missing", reason, opencl.way_out()
    return "ok", opencl.OpenclEngine().name, None


def _packages(*names: str, extra: str = "") -> _Probe:
    """Whether packages are there, which are those of an extra, or of none."""

    def probe() -> _Result:
        found = {name: _version(name) for name in names}
        if missing := [name for name, there in found.items() if not there]:
            way_out = install_extra(extra) if extra else install(*names)
            return "missing", f"{', '.join(missing)} {'are' if len(missing) > 1 else 'is'} not installed", way_out
        return "ok", ", ".join(f"{name} {there}" for name, there in found.items()), None

    return probe


def _version(name: str) -> str:
    """The version of a package that is installed, else nothing."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


_PROBES: tuple[tuple[str, str, _Probe, bool], ...] = (
    ("Python", "everything", _python, True),
    ("the judge", "everything", _judge, True),
    ("NVRTC", "registers, spills and machine code", _nvrtc, False),
    ("CUDA headers", "f16 and bf16 in CUDA texts", _headers, False),
    ("nvdisasm", "the command asm, and the issue slots of explain", _disassembler, False),
    ("nvFatbin", "export for several architectures", _fat_binaries, False),
    ("NVIDIA driver", "kernels on a GPU", _driver, False),
    ("cupy", "arrays and launches on a GPU", _cupy, False),
    ("GPU", "kernels at their speed", _gpus, False),
    ("NVML", "clocks and power beside the times of a GPU", _sensors, False),
    ("OpenCL", "kernels as OpenCL on the CPU; without it numpy runs their trees", _opencl, False),
    ("cache", "no second judging, proving and compiling of what a program calls", _cache, False),
    ("torch", "its tensors, and its libraries beside a kernel", _packages("torch"), False),
    ("pages", "the command report, and plots", _packages("jinja2", "matplotlib", "plotly", extra="report"), False),
    ("tune", "the command tune", _packages("pebble", "optuna", "scipy", extra="tune"), False),
    ("Dask", "tune on several hosts", _packages("distributed", extra="dask"), False),
    ("notebooks", "chapters of the course that run", _packages("nbclient", "ipykernel", extra="course"), False),
)
