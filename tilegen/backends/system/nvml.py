"""The sensors of a GPU, by NVIDIA's management library: clocks, power, temperature, and who else is on it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilegen.errors import DeviceError, first_line
from tilegen.installation import install

# Bits of NVML's "clocks event reasons" -> what holds the clock down. An idle GPU and clocks set by its owner are no
# throttling.
POWER, HEAT, HARDWARE, BRAKE = "power limit", "heat", "hardware slowdown", "power brake"
_REASONS = {0x04: POWER, 0x08: HARDWARE, 0x20: HEAT, 0x40: HEAT, 0x80: BRAKE}


@dataclass(frozen=True)
class Reading:
    """What the sensors say at one moment; None for what this GPU does not tell. `reasons` hold the clock down."""

    clock_mhz: float | None
    memory_clock_mhz: float | None
    power_w: float | None
    temperature_c: float | None
    reasons: tuple[str, ...]


class Sensors:
    """The sensors of the GPU at an address of the PCI bus."""

    def __init__(self, bus: str) -> None:
        """Raises DeviceError where the library is missing, or does not know the GPU."""
        try:
            import pynvml
        except ImportError:
            raise DeviceError(
                "nvidia-ml-py is not installed, which reads a GPU's sensors", notes=(install("nvidia-ml-py"),)
            ) from None
        self._nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
            self._gpu: Any = pynvml.nvmlDeviceGetHandleByPciBusId(bus)
        except pynvml.NVMLError as error:
            raise DeviceError(f"the GPU's sensors cannot be read: {first_line(error)}") from None

    def facts(self) -> dict[str, Any]:
        """What does not change during a run: uuid, driver, limits of clocks (MHz) and power (W), modes."""
        nvml, gpu = self._nvml, self._gpu
        asked: dict[str, Callable[[], Any]] = {
            "uuid": lambda: _text(nvml.nvmlDeviceGetUUID(gpu)),
            "driver": lambda: _text(nvml.nvmlSystemGetDriverVersion()),
            "clock_limit_mhz": lambda: nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM),
            "memory_clock_limit_mhz": lambda: nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_MEM),
            "power_limit_w": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1e3,
            "ecc": lambda: bool(nvml.nvmlDeviceGetEccMode(gpu)[0]),
            "mig": lambda: bool(nvml.nvmlDeviceGetMigMode(gpu)[0]),
            "persistence": lambda: bool(nvml.nvmlDeviceGetPersistenceMode(gpu)),
        }
        found = {name: self._ask(question) for name, question in asked.items()}
        return {name: value for name, value in found.items() if value is not None}

    def read(self) -> Reading:
        """What the sensors say now."""
        nvml, gpu = self._nvml, self._gpu
        bits = self._ask(lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)) or 0
        return Reading(
            self._ask(lambda: float(nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM))),
            self._ask(lambda: float(nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM))),
            self._ask(self._power),
            self._ask(lambda: float(nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU))),
            tuple(dict.fromkeys(name for bit, name in _REASONS.items() if bits & bit)),
        )

    def others(self) -> int | None:
        """Processes beside this one that have a context on the GPU; None where it does not tell."""
        running = self._ask(lambda: [each.pid for each in self._nvml.nvmlDeviceGetComputeRunningProcesses(self._gpu)])
        if not running:
            return None if running is None else 0
        # Within a container the numbers may be those of its host: this process is then one of them, under another.
        return len([pid for pid in running if pid != os.getpid()]) - (os.getpid() not in running)

    def _power(self) -> float:
        """Watts at this moment, or, where only that is reported, over the last second."""
        (value,) = self._nvml.nvmlDeviceGetFieldValues(self._gpu, [self._nvml.NVML_FI_DEV_POWER_INSTANT])
        if value.nvmlReturn == self._nvml.NVML_SUCCESS:
            return float(value.value.uiVal) / 1e3
        return float(self._nvml.nvmlDeviceGetPowerUsage(self._gpu)) / 1e3

    def _ask(self, question: Callable[[], Any]) -> Any:
        """The answer; None from a GPU, a driver or an older library that does not have it."""
        try:
            return question()
        except (self._nvml.NVMLError, AttributeError):
            return None


def _text(value: Any) -> str:
    """Older versions of the library give bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)
