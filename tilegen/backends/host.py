"""Arrays and time on the CPU: what the OpenCL runtime and the interpreter share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import Any

import numpy as np

from tilegen.backends.arrays import AS_BITS, as_stored, as_torch, bare, bits_of_torch
from tilegen.backends.memory import free_bytes
from tilegen.errors import ArgumentError
from tilegen.ir.nodes import Tensor


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
        array = as_stored(tensor, self._as_numpy(value, tensor))
        if tensor.role == "output" and not array.flags.writeable:
            raise ArgumentError(f"{tensor.name} is read-only, and the kernel writes to it")
        return array

    def _as_numpy(self, value: Any, tensor: Tensor) -> Any:
        name = tensor.name
        if isinstance(value, np.ndarray):
            return value
        if hasattr(value, "__cuda_array_interface__"):
            notes = ("compile(device='cuda') makes a kernel for it",)
            raise ArgumentError(f"{name} is on a GPU, and this kernel runs on the CPU", notes=notes)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            value, kind = bits_of_torch(torch, bare(value, name), tensor)
            return value.numpy().view(kind) if kind else value.numpy()
        if not hasattr(value, "__dlpack__"):
            raise ArgumentError(f"{name} is a {type(value).__name__}, not an array")
        try:
            return np.from_dlpack(value)
        except Exception as error:  # each library fails in its own way to hand out GPU memory as CPU memory
            raise ArgumentError(f"{name} cannot be used on the CPU: {error}") from None

    def give_back(self, array: Any, tensor: Tensor, given: Sequence[Any]) -> Any:
        """The numpy `array`, as a torch tensor if the first of what was given is one.

        What numpy has no type of is in the type that came.
        """
        torch = sys.modules.get("torch")
        if torch is None or not given or not isinstance(given[0], torch.Tensor):
            word = AS_BITS.get(tensor.dtype)
            dtypes = [value.dtype for value in given if str(getattr(value, "dtype", "")) == word]
            return array.view(dtypes[0]) if dtypes else array
        return as_torch(torch, torch.from_numpy, array, tensor.dtype)

    def free_bytes(self) -> int | None:
        return free_bytes()

    def pointer(self, array: Any) -> int:
        return int(array.ctypes.data)

    def capture(self, calls: Sequence[Callable[[], None]]) -> Callable[[], None]:
        """The calls one after the other: here a call costs what it costs."""

        def replay() -> None:
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

    def stream(self, arrays: Sequence[Any]) -> AbstractContextManager[Any]:
        """Nothing: a launch on the CPU returns when it is done."""
        return nullcontext()
