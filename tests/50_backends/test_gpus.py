"""What is missing for a GPU or a compiler is told apart, each with the command that mends it."""

import ctypes
import sys
from types import SimpleNamespace

import pytest

from tilegen import installation
from tilegen.backends.compiler import nvrtc, toolkit
from tilegen.backends.devices import cuda
from tilegen.backends.system import gpus
from tilegen.errors import DeviceError

MACHINES = {
    "no driver": (None, None, "no GPU was found (there is no NVIDIA driver)", None),
    "a driver of CUDA 11": (
        (11, 4),
        None,
        "the NVIDIA driver is too old: it runs CUDA 11.4, and CUDA 12 is needed",
        "install the NVIDIA driver 525 or a later one",
    ),
    "no cupy": (
        (12, 4),
        None,
        "cupy is not installed, which runs kernels on a GPU",
        "pip install '.[cuda12]'",
    ),
    "cupy newer than the driver": (
        (12, 8),
        (35, 13020, 0),
        "the NVIDIA driver is too old: it runs CUDA 12.8, and cupy is for CUDA 13.2",
        "pip uninstall cupy-cuda13x, then pip install '.[cuda12]'; or install a newer driver",
    ),
    "a driver without a GPU": ((13, 0), (100, 13020, 0), "no GPU was found (the NVIDIA driver knows of none)", None),
    "no GPU visible": ((13, 0), (0, 13020, 0), "no GPU was found (the NVIDIA driver knows of none)", None),
    "a GPU that fails": ((13, 0), (46, 13020, 0), "the GPU cannot be used (cudaErrorDevicesUnavailable: busy)", None),
}


class RuntimeFailure(RuntimeError):
    def __init__(self, status):
        super().__init__("cudaErrorDevicesUnavailable: busy\nmore of it")
        self.status = status


def fake_cupy(status, version, count):
    def device_count():
        if status:
            raise RuntimeFailure(status)
        return count

    runtime = SimpleNamespace(
        getDeviceCount=device_count, runtimeGetVersion=lambda: version, CUDARuntimeError=RuntimeFailure
    )
    return SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))


@pytest.fixture
def machine(monkeypatch):
    def use(driver, cupy):
        monkeypatch.setattr(gpus, "driver_version", lambda: driver)
        monkeypatch.setattr(gpus, "install_extra", "pip install '.[{}]'".format)
        monkeypatch.setattr(installation, "_pip", "pip {}".format)
        monkeypatch.setitem(sys.modules, "cupy", fake_cupy(*cupy) if cupy else None)
        gpus.missing.cache_clear()

    yield use
    gpus.missing.cache_clear()


@pytest.mark.parametrize("name", MACHINES)
def test_each_machine_is_told_what_it_lacks(name, machine):
    driver, cupy, reason, way_out = MACHINES[name]
    machine(driver, cupy)
    found = gpus.missing()
    assert (found.reason, found.way_out) == (reason, way_out)
    with pytest.raises(DeviceError) as caught:
        cuda.CudaEngine()
    assert caught.value.message == reason
    assert caught.value.notes == ((way_out,) if way_out else ()) + ("--device cpu runs the same kernel on the CPU",)


def test_a_gpu_lacks_nothing(machine):
    machine((13, 0), (0, 13020, 2))
    assert gpus.missing() is None


def test_the_version_of_the_driver(monkeypatch):
    def write(place):
        place._obj.value = 12080
        return 0

    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(cuDriverGetVersion=write))
    assert gpus.driver_version.__wrapped__() == (12, 8)

    def no_library(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", no_library)
    assert gpus.driver_version.__wrapped__() is None


def test_a_missing_compiler_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    monkeypatch.setattr(nvrtc, "unavailable_reason", nvrtc.unavailable_reason.__wrapped__)
    with pytest.raises(DeviceError) as caught:
        nvrtc.compile_text("")
    assert caught.value.message.startswith("the CUDA compiler NVRTC is not installed (")
    assert caught.value.notes == (toolkit.way_to_a_compiler(),)


@pytest.mark.nvrtc
def test_headers_and_disassembler_are_of_the_extra():
    assert (toolkit.header_folder() / "cuda_fp16.h").exists()
    assert nvrtc.version() >= (12, 0)


def test_without_the_extra_there_are_neither_headers_nor_a_disassembler(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    assert toolkit.header_folder.__wrapped__() is None
    assert toolkit.nvdisasm.__wrapped__() is None
