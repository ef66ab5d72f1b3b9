"""The OpenCL runtime: pyopencl with PoCL runs kernels on the CPU, in place, on numpy arrays."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.backends.arrays import NUMPY_NAME
from tilegen.errors import ArgumentError, DeviceError, Source, Span
from tilegen.ir.nodes import Tensor

if TYPE_CHECKING:
    from tilegen.backends.engine import Run
    from tilegen.lowering import Launch

# A simulator that checks every access is a platform too, and a thousand times slower: only by name.
SIMULATOR = "Oclgrind"


@cache
def missing(platform: str | None = None) -> str | None:
    """Why no kernel can run by OpenCL here, or None where it can."""
    try:
        device = _device(platform)
    except Exception as error:  # no pyopencl, no loader, no platform: a class of error for each
        return f"no OpenCL platform was found ({str(error).splitlines()[0] if str(error) else error!r})"
    return None if device is not None else "no OpenCL platform was found"


def _device(platform: str | None) -> Any:
    """The first CPU device of the platforms, the simulator aside; or of the platform whose name is given."""
    import pyopencl as cl

    for candidate in cl.get_platforms():
        if platform is None and candidate.name == SIMULATOR or platform not in (None, candidate.name):
            continue
        for device in candidate.get_devices():
            if platform or device.type & cl.device_type.CPU:
                return device
    return None


class OpenclEngine:
    """A CPU as an OpenCL device; kernels work on the memory of numpy arrays itself."""

    language = "opencl"
    on_gpu = False
    xp: Any = np

    def __init__(self, platform: str | None = None) -> None:
        """`platform` by name ("Oclgrind"), or the first that is no simulator. Raises DeviceError."""
        if reason := missing(platform):
            notes = ("pip install 'pyopencl[pocl]' brings one for Linux on x86_64",)
            raise DeviceError(reason, notes=notes)
        import pyopencl as cl

        os.environ.setdefault("PYOPENCL_COMPILER_OUTPUT", "0")
        self._cl: Any = cl
        device = _device(platform)
        short = "PoCL" if device.platform.name == "Portable Computing Language" else device.platform.name
        self.name = f"{short} on {device.name.removeprefix('pthread-')}"
        self._context: Any = cl.Context([device])
        self._queue: Any = cl.CommandQueue(self._context)

    # -- arrays

    def adopt(self, value: Any, tensor: Tensor) -> Any:
        """`value` as a numpy array on the same memory.

        Raises:
            ArgumentError: not an array, not on the CPU, not of the tensor's dtype, or a read-only output.
        """
        array = self._as_numpy(value, tensor.name)
        wanted = NUMPY_NAME[tensor.dtype]
        if tensor.dtype == "bf16" and str(array.dtype) in ("bfloat16", "int16"):
            array = array.view(wanted)
        if array.dtype != wanted:
            raise ArgumentError(f"{tensor.name} is {array.dtype}, and the kernel takes {tensor.dtype}")
        if tensor.role == "output" and not array.flags.writeable:
            raise ArgumentError(f"{tensor.name} is read-only, and the kernel writes to it")
        return array

    def _as_numpy(self, value: Any, name: str) -> Any:
        if isinstance(value, np.ndarray):
            return value
        if hasattr(value, "__cuda_array_interface__"):
            notes = ("compile(device='cuda') makes a kernel for it",)
            raise ArgumentError(f"{name} is on a GPU, and this kernel runs on the CPU", notes=notes)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            value = value.detach()
            return (value.view(torch.int16) if value.dtype == torch.bfloat16 else value).numpy()
        if not hasattr(value, "__dlpack__"):
            raise ArgumentError(f"{name} is a {type(value).__name__}, not an array")
        try:
            return np.from_dlpack(value)
        except Exception as error:  # each library fails in its own way to hand out GPU memory as CPU memory
            raise ArgumentError(f"{name} cannot be used on the CPU: {error}") from None

    def give_back(self, array: Any, tensor: Tensor, like: Any) -> Any:
        """The numpy `array`, as a torch tensor if `like` is one."""
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(like, torch.Tensor):
            return array
        if tensor.dtype != "bf16":
            return torch.from_numpy(array)
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)

    def pointer(self, array: Any) -> int:
        return int(array.ctypes.data)

    # -- kernels

    def build(self, text: str, launches: Sequence[Launch]) -> Mapping[str, Any]:
        """Raises DeviceError where the compiler refuses the text."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the compiler's remarks on a text that it accepts
                program = self._cl.Program(self._context, text).build(options=["-cl-std=CL1.2"])
        except self._cl.Error as error:
            raise _refusal(str(error), Source("kernel.cl", text), self.name) from None
        return {launch.name: self._cl.Kernel(program, launch.name) for launch in launches}

    def enqueue(self, entry: Any, run: Run) -> Callable[[], None]:
        # An OpenCL kernel keeps no reference to its arguments; the call that is returned does.
        integer = np.int64 if run.wide else np.int32
        arguments = (*map(self._buffer, run.arrays), *(integer(size) for size in run.sizes))
        threads = tuple(g * b for g, b in zip(run.grid, run.block, strict=True))

        def launch() -> None:
            try:
                entry.set_args(*arguments)
                self._cl.enqueue_nd_range_kernel(self._queue, entry, threads, run.block)
                self._queue.finish()
            except self._cl.Error as error:
                raise DeviceError(f"{run.name} cannot be launched on {self.name}: {error}") from None

        return launch

    def _buffer(self, array: Any) -> Any:
        flags = self._cl.mem_flags.READ_WRITE | self._cl.mem_flags.USE_HOST_PTR
        # The buffer wants the memory in one piece and in C order, whatever the order of the dimensions.
        stored = array.transpose(sorted(range(array.ndim), key=lambda d: -array.strides[d]))
        return self._cl.Buffer(self._context, flags, hostbuf=stored)

    def synchronize(self) -> None:
        self._queue.finish()

    def time(self, calls: Sequence[Callable[[], None]]) -> float:
        """Milliseconds of wall time."""
        start = perf_counter()
        for call in calls:
            call()
        return (perf_counter() - start) * 1e3

    def stream(self, arrays: Sequence[Any]) -> AbstractContextManager[Any]:
        """Nothing: a launch on the CPU returns when it is done."""
        return nullcontext()


def _refusal(log: str, source: Source, device: str) -> DeviceError:
    """The compiler's first complaint, at its line of the generated text."""
    for line in log.splitlines():
        place, found, message = line.partition(".cl:")
        if "error:" in place and found:
            number, _, rest = message.partition(":")
            if number.isdigit():
                span = Span(source, int(number), 1, max(1, len(source.line(int(number)))))
                return DeviceError(f"the OpenCL compiler refuses the text: {rest.partition(': ')[2]}", span)
    return DeviceError(f"the OpenCL compiler of {device} fails: {log.splitlines()[-1]}")
