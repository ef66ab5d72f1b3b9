"""A stand-in for the CUDA driver, which keeps what it is told to launch, and kernels and arrays without a GPU."""

import ctypes
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from tilegen.backends.calls import kernel_launch
from tilegen.backends.calls.arrays import NUMPY_NAME
from tilegen.backends.devices.cuda import CudaEngine


class Driver:
    """Keeps the launches, each a dict; `answers` are what it says to the next ones, and then 0, that all is well."""

    def __init__(self, monkeypatch, argument_bytes=()):
        """`argument_bytes` has the length of each argument of the kernel."""
        self.launches, self.answers, self._bytes = [], [], argument_bytes
        self.cuGetErrorName = lambda error, name: None
        monkeypatch.setattr(kernel_launch, "load_driver", lambda: self)

    def cuLaunchKernelEx(self, config, function, places, extra):  # noqa: N802
        config = config._obj
        assert extra is None
        assert len(places) == len(self._bytes) or not self._bytes
        pairs = zip(places, self._bytes or [8] * len(places), strict=True)
        self.launches.append(
            {
                "grid": tuple(config.grid),
                "block": tuple(config.block),
                "shared": config.shared_bytes,
                "stream": config.stream or 0,
                "function": function.value,
                "attributes": [(each.id, each.value) for each in config.attributes[: config.attribute_count]],
                "arguments": [ctypes.string_at(place, count) for place, count in pairs],
            }
        )
        return self.answers.pop(0) if self.answers else 0


ENTRY = SimpleNamespace(kernel=SimpleNamespace(ptr=7000))


def cupy_array(shape, address=2**40, dtype="float32", device=0, strides=None):
    """An array of cupy at an address where nothing lies."""
    cupy = pytest.importorskip("cupy")
    memory = cupy.cuda.UnownedMemory(address, 2**30, None, device)
    return cupy.ndarray(shape, np.dtype(dtype), cupy.cuda.MemoryPointer(memory, 0), strides)


class Card(CudaEngine):
    """A device of this number that compiles nothing and launches by a `Driver`; arrays of cupy need none.

    `builds` has the names of what it was asked to compile; `current` is the device that is current.
    """

    current = 0

    def __init__(self, ordinal=0):
        cupy = pytest.importorskip("cupy")
        self.xp, self._array, self.ordinal, self.name, self.arch = cupy, cupy.ndarray, ordinal, "a card", "sm_90"
        self._current_ordinal = lambda: Card.current
        self.builds, self._others = [], {}

    def at(self, ordinal):
        return self if ordinal == self.ordinal else self._others.setdefault(ordinal, Card(ordinal))

    @contextmanager
    def use(self):
        before, Card.current = Card.current, self.ordinal
        yield
        Card.current = before

    def build(self, text, launches):
        self.builds += [launch.name for launch in launches]
        return {launch.name: SimpleNamespace(kernel=SimpleNamespace(ptr=7000 + Card.current)) for launch in launches}

    def launcher(self, entry, run):
        return kernel_launch.KernelLaunch(entry, run, 0, self.name, lambda: None)

    def caller(self, arrays):
        return FixedCaller()


class FixedCaller:
    """Makes arrays of cupy at the address 2**44, and has the stream 5000."""

    def maker(self, dtype, shape, order, *, zeros):
        return lambda: cupy_array(shape, 2**44, NUMPY_NAME[dtype])

    def address(self, array):
        return array.data.ptr

    def stream(self):
        return 5000

    def loses_captured(self, stream):
        return False
