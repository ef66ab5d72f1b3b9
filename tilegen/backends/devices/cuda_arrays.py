"""Arrays of cupy and torch on GPUs: what a call has to know of them, fresh ones, and the streams they are used on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from tilegen.backends.calls.arrays import (
    AS_BITS,
    NUMPY_NAME,
    bare,
    bits_of_torch,
    laid_out,
    number_type,
    other_type,
    strides_of,
)
from tilegen.backends.calls.engine import ALIGNMENT, Caller
from tilegen.errors import ArgumentError
from tilegen.ir.nodes import Tensor

# The addresses that stand for default streams, which cannot be captured: the legacy one, and one for each thread.
_LAST_OF_THE_DEFAULT = 2


def read_facts(xp_array: Any, arrays: Sequence[Any]) -> tuple[Hashable, list[int]] | None:
    """(type, shape, strides, device and alignment of all arrays, their addresses) of arrays of cupy and torch.

    None where an array is of neither, or torch does not report that.

    Args:
        xp_array: the class of cupy's arrays.
    """
    facts: list[Any] = []
    addresses: list[int] = []
    for array in arrays:
        if isinstance(array, xp_array):
            memory = array.data
            address = memory.ptr
            facts += (array.dtype, array.shape, array.strides, memory.device_id, address % ALIGNMENT)
        else:
            torch = sys.modules.get("torch")
            if torch is None or not isinstance(array, torch.Tensor):
                return None
            if array.requires_grad and torch.is_grad_enabled() or array.is_neg():
                return None
            try:
                address = array.data_ptr()
                facts += (array.dtype, array.shape, array.stride(), array.get_device(), address % ALIGNMENT)
            except (RuntimeError, NotImplementedError):  # a sparse one, or one without memory
                return None
        addresses.append(address)
    return tuple(facts), addresses


def view_tensor(xp: Any, torch: Any, value: Any, tensor: Tensor) -> Any:
    """A torch tensor on a GPU as a cupy array on the same memory, which waits for no stream.

    Raises:
        ArgumentError: it is on the CPU, it wants a gradient, or its numbers are not of the tensor's type.
    """
    name = tensor.name
    if not value.is_cuda:
        raise ArgumentError(f"{name} is on the CPU", notes=(f"{name}.cuda() moves it to the GPU",))
    if value.layout is not torch.strided:
        raise ArgumentError(f"{name} is {value.layout}, and the kernel takes dense arrays")
    if value.is_neg():
        raise ArgumentError(f"{name} is negated where it is read", notes=(f"{name}.resolve_neg() is a copy as such",))
    value = bits_of_torch(torch, bare(torch, value, name), tensor)
    dtype, given = xp.dtype(NUMPY_NAME[tensor.dtype]), str(value.dtype).removeprefix("torch.")
    if tensor.dtype not in AS_BITS and given != dtype.name:
        raise other_type(tensor, given)
    strides = tuple(step * dtype.itemsize for step in value.stride())
    last = sum((n - 1) * step for n, step in zip(value.shape, strides, strict=True))
    size = last + dtype.itemsize if value.numel() else 0
    memory = xp.cuda.UnownedMemory(value.data_ptr(), size, value, value.get_device())
    return xp.ndarray(tuple(value.shape), dtype, xp.cuda.MemoryPointer(memory, 0), strides)


def caller_of(xp: Any, arrays: Sequence[Any], device: int) -> Caller:
    """torch where one of the arrays is torch's, else cupy."""
    torch = sys.modules.get("torch")
    if torch is not None and any(isinstance(array, torch.Tensor) for array in arrays):
        return TorchCaller(torch, device)
    return CupyCaller(xp)


class CupyCaller:
    """Arrays of cupy's pool on the current device; cupy's current stream."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp

    def maker(self, dtype: str, shape: tuple[int, ...], order: tuple[int, ...], *, zeros: bool) -> Callable[[], Any]:
        kind = number_type(dtype, cupy=True)
        stored = tuple(shape[d] for d in order)
        make = partial(self._xp.ndarray, stored, kind)
        if not zeros and order == tuple(range(len(order))):
            return make

        def make_laid_out() -> Any:
            array = make()
            if zeros:
                array.view(NUMPY_NAME[dtype]).fill(0)
            return laid_out(array.reshape(-1), shape, order)

        return make_laid_out

    def address(self, array: Any) -> int:
        address: int = array.data.ptr
        return address

    def stream(self) -> int:
        stream: int = self._xp.cuda.get_current_stream().ptr
        return stream

    def loses_captured(self, stream: int) -> bool:
        captured: bool = stream > _LAST_OF_THE_DEFAULT and self._xp.cuda.runtime.streamIsCapturing(stream)
        return captured


class TorchCaller:
    """Tensors of torch's allocator on a device, and torch's current stream there."""

    def __init__(self, torch: Any, device: int) -> None:
        self._torch = torch
        self._device = torch.device("cuda", device)
        self.address: Callable[[Any], int] = torch.Tensor.data_ptr
        # What the public call does, without the object around it.
        raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        self.stream: Callable[[], int] = partial(raw, device) if raw else self._public_stream

    def _public_stream(self) -> int:
        stream: int = self._torch.cuda.current_stream(self._device).cuda_stream
        return stream

    def loses_captured(self, stream: int) -> bool:
        """No: torch's graphs keep the memory that is allocated while they are captured."""
        return False

    def maker(self, dtype: str, shape: tuple[int, ...], order: tuple[int, ...], *, zeros: bool) -> Callable[[], Any]:
        kind = getattr(self._torch, AS_BITS.get(dtype, NUMPY_NAME[dtype]))
        strides = strides_of(shape, order, 1)
        plain = order == tuple(range(len(order)))
        fresh = self._torch.empty if plain else partial(self._torch.empty_strided, stride=strides)
        make = partial(fresh, shape, dtype=kind, device=self._device)

        def make_or_say() -> Any:
            try:
                return make()
            except self._torch.cuda.OutOfMemoryError as error:
                raise MemoryError(str(error)) from None

        return (lambda: make_or_say().zero_()) if zeros else make_or_say
