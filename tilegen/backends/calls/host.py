"""Arrays and time on the CPU: what the OpenCL runtime and the interpreter share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import prod
from threading import Lock
from time import perf_counter
from typing import Any, Self

import numpy as np

from tilegen.backends.calls.arrays import AS_BITS, as_torch, bare, bits_of_torch, check_type, laid_out, number_type
from tilegen.backends.calls.engine import ALIGNMENT
from tilegen.backends.calls.memory import free_bytes
from tilegen.errors import ArgumentError
from tilegen.ir.nodes import DTYPE_BYTES, Tensor


class HostArrays:
    """The part of an engine that needs no device: numpy arrays, used in place."""

    language = "opencl"
    on_gpu = False
    xp: Any = np

    def adopt(self, value: Any, tensor: Tensor) -> Any:
        """`value` as a numpy array on the same memory.

        Raises:
            ArgumentError: not an array, not on the CPU, not of the tensor's dtype, or a read-only output.
        """
        array = check_type(tensor, self._as_numpy(value, tensor), number_type(tensor.dtype))
        if tensor.role == "output" and not array.flags.writeable:
            raise ArgumentError(f"{tensor.name} is read-only, and the kernel writes to it")
        return array

    def _as_numpy(self, value: Any, tensor: Tensor) -> Any:
        name = tensor.name
        if isinstance(value, np.ma.MaskedArray):
            notes = (f"{name}.filled(0) has 0 there",)
            raise ArgumentError(f"{name} is a masked array, and a kernel reads what is masked, too", notes=notes)
        if isinstance(value, np.ndarray):
            return value
        if hasattr(value, "__cuda_array_interface__"):
            notes = ("compile(device='cuda') makes a kernel for it",)
            raise ArgumentError(f"{name} is on a GPU, and this kernel runs on the CPU", notes=notes)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            array = bits_of_torch(torch, bare(torch, value, name), tensor).numpy()
            return array.view(number_type(tensor.dtype)) if tensor.dtype in AS_BITS else array
        if not hasattr(value, "__dlpack__"):
            raise ArgumentError(f"{name} is a {type(value).__name__}, not an array")
        try:
            return np.from_dlpack(value)
        except Exception as error:  # each library fails in its own way to hand out GPU memory as CPU memory
            raise ArgumentError(f"{name} cannot be used on the CPU: {error}") from None

    def give_back(self, array: Any, tensor: Tensor, given: Sequence[Any]) -> Any:
        """The numpy `array`, as a torch tensor if the first of what was given is one."""
        torch = sys.modules.get("torch")
        if torch is None or not given or not isinstance(given[0], torch.Tensor):
            return array
        return as_torch(torch, torch.from_numpy, array, tensor.dtype)

    def facts(self, arrays: Sequence[Any]) -> tuple[Hashable, list[int]] | None:
        """(type, shape, strides, alignment of all arrays, and whether they are read-only; their addresses).

        None where one is not numpy's own, or is masked.
        """
        facts: list[Hashable] = []
        addresses = []
        for array in arrays:
            if not isinstance(array, np.ndarray) or type(array) is np.ma.MaskedArray:
                return None
            address = array.ctypes.data
            facts += (array.dtype, array.shape, array.strides, array.flags.writeable, address % ALIGNMENT)
            addresses.append(address)
        return tuple(facts), addresses

    def device_of(self, arrays: Mapping[str, Any]) -> Self:
        return self

    def caller(self, arrays: Sequence[Any]) -> NumpyCaller:
        return NumpyCaller()

    def is_current(self) -> bool:
        return True

    def use(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def free_bytes(self) -> int | None:
        return free_bytes()

    def pointer(self, array: Any) -> int:
        return int(array.ctypes.data)

    def capture(self, calls: Sequence[Callable[[], None]]) -> Callable[[], None]:
        """The calls one after the other, in one thread at a time: here a call costs what it costs."""
        one_at_a_time = Lock()

        def replay() -> None:
            with one_at_a_time:
                for call in calls:
                    call()

        return replay

    def time(self, calls: Sequence[Callable[[], None]], behind: Sequence[Callable[[], None]] = ()) -> float:
        """Milliseconds of wall time of `calls`, after those of `behind`."""
        for call in behind:
            call()
        start = perf_counter()
        for call in calls:
            call()
        return (perf_counter() - start) * 1e3


class NumpyCaller:
    """Arrays of numpy; a launch on the CPU returns when it is done, so that there is one stream."""

    def maker(self, dtype: str, shape: tuple[int, ...], order: tuple[int, ...], *, zeros: bool) -> Callable[[], Any]:
        def make() -> Any:
            count = prod(shape)
            memory = np.empty(count * DTYPE_BYTES[dtype] + ALIGNMENT, dtype="uint8")
            first = -memory.ctypes.data % ALIGNMENT
            flat = memory[first : first + count * DTYPE_BYTES[dtype]].view(number_type(dtype))
            if zeros:
                flat.fill(0)
            return laid_out(flat, shape, order)

        return make

    def address(self, array: Any) -> int:
        return int(array.ctypes.data)

    def stream(self) -> int:
        return 0

    def loses_captured(self, stream: int) -> bool:
        return False
