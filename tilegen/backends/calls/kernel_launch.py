"""Launches by the CUDA driver's cuLaunchKernelEx: what stays from call to call is laid out once."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from struct import Struct
from threading import Lock
from typing import Any

from tilegen.backends.calls.engine import BoundMap, Run
from tilegen.backends.compiler.tensor_maps import BYTES, encode, error_name, load_driver
from tilegen.errors import DeviceError
from tilegen.ir.nodes import SHORT_FLOATS

INVALID_CONTEXT = 201  # of CUresult: no device is current in this thread
_ALIGNMENT = 64
_ARGUMENT = 8  # bytes of an argument, the maps aside
_REMEMBERED = 256
# How `struct` calls the types of scalars; floats of 16 bits and less are passed as f32.
_CODES = {"f64": "d", "f32": "f", "i64": "q", "i32": "i", "i8": "b", "u8": "B", "bool": "?"}


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute of cuda.h, for values that are one integer: a union of 64 bytes after 8."""

    _fields_ = (
        ("id", ctypes.c_int),
        ("pad", ctypes.c_char * 4),
        ("value", ctypes.c_int),
        ("rest", ctypes.c_char * 60),
    )


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig of cuda.h."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("attribute_count", ctypes.c_uint),
    )


class KernelLaunch:
    """A launch with its numbers; a call gives it addresses, scalars and a stream, as `Launcher` has it.

    One that is dependent may begin while the one before it on the stream runs, in a graph that is captured, too.
    Several threads may call it.
    """

    def __init__(self, entry: Any, run: Run, shared_bytes: int, device: str, use_device: Callable[[], None]) -> None:
        """
        Args:
            entry: a kernel of cupy's, loaded on the device that it is launched on.
            shared_bytes: that are asked for at launch.
            device: its name, for errors.
            use_device: makes the device current in a thread where none is.
        """
        self._entry, self._run, self._device, self._use_device = entry, run, device, use_device
        self._function = ctypes.c_void_p(entry.kernel.ptr)
        self._lock = Lock()
        self._pick_addresses = _picker(run.arrays)
        self._pick_scalars = _picker([position for position, _ in run.scalars])
        codes = [_CODES["f32" if dtype in SHORT_FLOATS else dtype] for _, dtype in run.scalars]
        arguments = [Struct(f"={code}") for code in ("Q" * len(run.arrays) + "".join(codes))]
        self._write = Struct("=" + "".join(f"{s.format[1:]}{_ARGUMENT - s.size}x" for s in arguments)).pack_into
        self._memory, count = _aligned(_ARGUMENT * (len(arguments) + len(run.sizes))), len(arguments)
        sizes = Struct("=" + ("q" if run.wide else "i4x") * len(run.sizes))
        sizes.pack_into(self._memory.bytes, self._memory.offset + _ARGUMENT * count, *run.sizes)
        places = [self._memory.address + _ARGUMENT * n for n in range(count + len(run.sizes))]
        first = len(run.arrays)
        places[first:first] = [0] * len(run.maps)
        self._places = (ctypes.c_void_p * len(places))(*places)
        self._maps = [_PlacedMap(first + n, each) for n, each in enumerate(run.maps)]
        asked = [LaunchAttribute(id=number, value=1) for _, number in run.asks]
        attributes = (LaunchAttribute * len(asked))(*asked)
        numbers = (ctypes.c_uint * 3)(*run.grid), (ctypes.c_uint * 3)(*run.block)
        self._config = LaunchConfig(*numbers, shared_bytes, 0, attributes, len(asked))
        self._config_place = ctypes.byref(self._config)
        self._launch = load_driver().cuLaunchKernelEx

    def __call__(self, memory: Sequence[Any], addresses: Sequence[int], scalars: Sequence[Any], stream: int) -> None:
        """Raises DeviceError where the driver refuses."""
        place = self._memory
        with self._lock:
            values = (*self._pick_addresses(addresses), *self._pick_scalars(scalars))
            self._write(place.bytes, place.offset, *values)
            for each in self._maps:
                self._places[each.argument] = each.place(addresses)
            self._config.stream = stream
            error = self._launch(self._config_place, self._function, self._places, None)
            if error == INVALID_CONTEXT:
                self._use_device()
                error = self._launch(self._config_place, self._function, self._places, None)
        if error:
            reason = error_name(load_driver(), error)
            raise DeviceError(f"{self._run.name} cannot be launched on {self._device}: {reason}")


@dataclass(frozen=True)
class _Aligned:
    """Memory of this process from a multiple of 64 bytes on; `bytes` keeps it, and has that at `offset`."""

    bytes: Any
    offset: int

    @property
    def address(self) -> int:
        return ctypes.addressof(self.bytes) + self.offset


def _aligned(size: int) -> _Aligned:
    memory = ctypes.create_string_buffer(size + _ALIGNMENT)
    return _Aligned(memory, -ctypes.addressof(memory) % _ALIGNMENT)


@dataclass(frozen=True)
class _PlacedMap:
    """A tensor map that is the kernel's argument of this number; remembers where its bytes lie for each address."""

    argument: int
    bound: BoundMap
    made: dict[int, _Aligned] = field(default_factory=dict)

    def place(self, addresses: Sequence[int]) -> int:
        """Where the map of the tensor at its address lies."""
        address = addresses[self.bound.array]
        if address not in self.made:
            memory = _aligned(BYTES)
            ctypes.memmove(memory.address, encode(self.bound.map, address, self.bound.sizes), BYTES)
            if len(self.made) == _REMEMBERED:
                self.made.clear()
            self.made[address] = memory
        return self.made[address].address


def _picker(positions: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """A function that gives the values at these positions."""
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda values: tuple(values[position] for position in positions)


def blocks_at_once(entry: Any, threads: int, shared_bytes: int) -> int:
    """How many blocks of a kernel of cupy's a multiprocessor runs at once. Raises DeviceError where the driver cannot
    say."""
    count = ctypes.c_int()
    query = load_driver().cuOccupancyMaxActiveBlocksPerMultiprocessor
    if error := query(ctypes.byref(count), ctypes.c_void_p(entry.kernel.ptr), threads, ctypes.c_size_t(shared_bytes)):
        raise DeviceError(f"it is not known how many blocks run at once: {error_name(load_driver(), error)}")
    return count.value
