"""A GPU's sensors are read while it is timed, whatever of them it has; NVML itself is stood in for."""

import json
import os
import sys
import time
from types import SimpleNamespace

import pytest

from tests.support.workers import wait_until
from tilegen.backends.devices.devices import engine
from tilegen.backends.system import nvml
from tilegen.backends.system.nvml import Reading, Sensors
from tilegen.errors import DeviceError
from tilegen.lab.measure.conditions import Watch, compiler_name, device_of
from tilegen.lab.records.records import Conditions, Readings


class NVMLError(Exception):
    pass


class Library:
    """pynvml for one GPU. What is in `lacks` it does not tell."""

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU, NVML_SUCCESS = 1, 2, 0, 0
    NVML_FI_DEV_POWER_INSTANT = 186

    def __init__(self, *lacks: str, reasons: int = 0, processes: tuple[int, ...] = (), instant: int = 0) -> None:
        self._lacks, self._instant = lacks, instant
        self.answers = {
            "nvmlInit": None,
            "nvmlDeviceGetHandleByPciBusId": "gpu",
            "nvmlDeviceGetUUID": b"GPU-7",
            "nvmlSystemGetDriverVersion": "580.1",
            "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetEccMode": [1, 1],
            "nvmlDeviceGetMigMode": [0, 0],
            "nvmlDeviceGetPersistenceMode": 1,
            "nvmlDeviceGetCurrentClocksEventReasons": reasons,
            "nvmlDeviceGetClockInfo": 1755,
            "nvmlDeviceGetTemperature": 44,
            "nvmlDeviceGetPowerUsage": 650_000,
            "nvmlDeviceGetFieldValues": [SimpleNamespace(nvmlReturn=instant, value=SimpleNamespace(uiVal=690_000))],
            "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=pid) for pid in processes],
        }

    def __getattr__(self, name: str):
        def call(*_: object) -> object:
            if name in self._lacks:
                raise NVMLError("Not Supported")
            return self.answers[name]

        return call


def sensors(monkeypatch: pytest.MonkeyPatch, *lacks: str, **given) -> Sensors:
    monkeypatch.setitem(sys.modules, "pynvml", Library(*lacks, **given))
    return Sensors("0000:01:00.0")


def test_the_sensors_say_what_the_gpu_does(monkeypatch) -> None:
    found = sensors(monkeypatch, reasons=0x1 | 0x4 | 0x20 | 0x40)  # idle, power limit, heat by software and by hardware
    assert found.read() == Reading(1755.0, 1755.0, 690.0, 44.0, (nvml.POWER, nvml.HEAT))
    assert found.facts() == {
        "uuid": "GPU-7",
        "driver": "580.1",
        "clock_limit_mhz": 1980,
        "memory_clock_limit_mhz": 1980,
        "power_limit_w": 700.0,
        "ecc": True,
        "mig": False,
        "persistence": True,
    }
    json.dumps(found.facts())


def test_what_a_gpu_does_not_tell_is_left_out(monkeypatch) -> None:
    lacking = ("nvmlDeviceGetFieldValues", "nvmlDeviceGetTemperature", "nvmlDeviceGetCurrentClocksEventReasons")
    assert sensors(monkeypatch, *lacking).read() == Reading(1755.0, 1755.0, None, None, ())
    assert sensors(monkeypatch, instant=3).read().power_w == 650.0
    assert "ecc" not in sensors(monkeypatch, "nvmlDeviceGetEccMode").facts()


@pytest.mark.parametrize(
    ("processes", "others"),
    [
        ((), 0),  # a driver that hides them
        ((os.getpid(),), 0),
        ((os.getpid(), os.getpid() + 1), 1),
        ((os.getpid() + 1,), 0),  # this one, by its number outside of its container
        ((os.getpid() + 1, os.getpid() + 2), 1),
    ],
)
def test_other_processes_are_counted(processes, others, monkeypatch) -> None:
    assert sensors(monkeypatch, processes=processes).others() == others
    assert sensors(monkeypatch, "nvmlDeviceGetComputeRunningProcesses").others() is None


def test_without_the_library_it_is_told_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(DeviceError, match="nvidia-ml-py is not installed"):
        Sensors("0000:01:00.0")
    with pytest.raises(DeviceError, match="cannot be read: Not Supported"):
        sensors(monkeypatch, "nvmlDeviceGetHandleByPciBusId")


class Seen:
    """Sensors whose clock falls, once, at the second reading."""

    def __init__(self, _: object) -> None:
        self._count = 0

    def read(self) -> Reading:
        self._count += 1
        hot = self._count == 2
        return Reading(1200.0 if hot else 1980.0, None, 500.0, 50.0, (nvml.HEAT,) if hot else ())

    def others(self) -> int:
        return 1


def test_a_watch_reads_until_its_block_ends() -> None:
    gpu = SimpleNamespace(on_gpu=True)
    with Watch(gpu, Seen) as watch:
        wait_until(lambda: (watch.conditions() or Conditions()).readings >= 4)
    found = watch.conditions()
    assert found is not None
    assert found.clock_mhz == Readings(1200.0, 1980.0, 1980.0)
    assert (found.memory_clock_mhz, found.others, found.unknown) == (None, 1, None)
    assert found.throttled == {nvml.HEAT: 1 / found.readings}
    count = found.readings
    time.sleep(0.05)
    assert watch.conditions().readings == count


def test_a_watch_without_sensors_says_why() -> None:
    def missing(_: object) -> Sensors:
        raise DeviceError("nvidia-ml-py is not installed", notes=("pip install nvidia-ml-py",))

    with Watch(SimpleNamespace(on_gpu=True), missing) as watch:
        pass
    assert watch.conditions() == Conditions(unknown="nvidia-ml-py is not installed; pip install nvidia-ml-py")


def test_a_cpu_has_no_conditions_and_is_told_by_its_software() -> None:
    with Watch(engine("interpreter"), Seen) as watch:
        assert watch.conditions() is None
    found = device_of(engine("interpreter"))
    assert (found.name, found.on_gpu, found.arch) == ("the interpreter", False, None)
    assert {"python", "platform", "numpy"} <= set(found.facts)
    json.dumps(found.facts)


@pytest.mark.nvrtc
def test_the_compiler_has_a_version() -> None:
    assert (compiler_name() or "").startswith("NVRTC 1")


@pytest.mark.gpu
def test_a_gpu_tells_its_state() -> None:
    found = device_of(engine("cuda"))
    assert {"uuid", "driver", "cuda", "power_limit_w"} <= set(found.facts)
    with Watch(engine("cuda")) as watch:
        wait_until(lambda: (watch.conditions() or Conditions()).readings > 2)
    told = watch.conditions()
    assert told is not None
    assert told.readings > 2
    assert None not in (told.clock_mhz, told.power_w, told.temperature_c)
    assert told.power_w.least > 10
