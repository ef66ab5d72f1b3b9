"""What a device is, and the state that a GPU is in while it is timed."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from threading import Event, Thread
from typing import Any

from tilegen.backends.calls.engine import Engine
from tilegen.backends.compiler import nvrtc
from tilegen.backends.system import gpus
from tilegen.backends.system.nvml import Reading, Sensors
from tilegen.errors import DeviceError
from tilegen.lab.records.records import Conditions, Device, Readings

_PAUSE = 0.02  # seconds between two readings


def device_of(engine: Engine) -> Device:
    """The device of an engine, with its driver and the versions of what runs kernels on it."""
    facts: dict[str, Any] = {"python": platform.python_version(), "platform": platform.platform(terse=True)}
    names = ("cupy-cuda13x", "cupy-cuda12x") if engine.on_gpu else ("pyopencl", "pocl-binary-distribution", "numpy")
    facts |= {name: found for name in names if (found := _version(name))}
    if engine.on_gpu:
        facts |= {"l2_bytes": getattr(engine, "l2_bytes", None)}
        if driver := gpus.driver_version():
            facts["cuda"] = f"{driver[0]}.{driver[1]}"
        try:
            facts |= sensors_of(engine).facts()
        except DeviceError as error:
            facts["unknown"] = error.message
    return Device(engine.name, engine.on_gpu, getattr(engine, "arch", None), facts)


def compiler_name() -> str | None:
    """The compiler of CUDA texts with its version; None where there is none."""
    if nvrtc.unavailable_reason():
        return None
    major, minor = nvrtc.version()
    return f"NVRTC {major}.{minor}"


def sensors_of(engine: Any) -> Sensors:
    """The sensors of an engine's GPU. Raises DeviceError where they cannot be read."""
    return Sensors(engine.xp.cuda.runtime.deviceGetPCIBusId(engine.ordinal))


class Watch:
    """Reads a GPU's sensors inside of its `with` block, in a thread of its own; on other devices it does nothing."""

    def __init__(self, engine: Engine, sensors: Callable[[Engine], Sensors] = sensors_of) -> None:
        self._read: list[Reading] = []
        self._others: int | None = None
        self._unknown: str | None = None
        self._sensors: Sensors | None = None
        self._on_gpu = engine.on_gpu
        self._ended = Event()
        self._thread = Thread(target=self._look, daemon=True)
        if engine.on_gpu:
            try:
                self._sensors = sensors(engine)
            except DeviceError as error:
                self._unknown = "; ".join((error.message, *error.notes))

    def __enter__(self) -> Watch:
        if self._sensors:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._sensors:
            self._thread.join()
            self._others = self._sensors.others()

    def _look(self) -> None:
        assert self._sensors
        while not self._ended.wait(_PAUSE):
            self._read.append(self._sensors.read())

    def conditions(self) -> Conditions | None:
        """What has been read so far; None on a device that is no GPU."""
        if not self._on_gpu:
            return None
        found = tuple(self._read)
        shares = {name: sum(name in each.reasons for each in found) / len(found) for name in _reasons(found)}
        return Conditions(
            len(found),
            _readings(each.clock_mhz for each in found),
            _readings(each.memory_clock_mhz for each in found),
            _readings(each.power_w for each in found),
            _readings(each.temperature_c for each in found),
            shares,
            self._others,
            self._unknown,
        )


def _reasons(found: Sequence[Reading]) -> list[str]:
    return list(dict.fromkeys(name for each in found for name in each.reasons))


def _readings(values: Iterable[float | None]) -> Readings | None:
    """The least, the middle and the largest; None where there are none."""
    found = [value for value in values if value is not None]
    return Readings(min(found), median(found), max(found)) if found else None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
