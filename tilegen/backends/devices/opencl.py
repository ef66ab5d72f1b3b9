"""The OpenCL runtime: pyopencl with PoCL runs kernels on the CPU, in place, on numpy arrays."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from platform import machine
from threading import Lock, local
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.backends.calls.arrays import bits_of, span_of
from tilegen.backends.calls.host import HostArrays
from tilegen.backends.devices import pocl
from tilegen.backends.system.forks import note_use, require_kept
from tilegen.errors import DeviceError, Source, Span, first_line
from tilegen.installation import install

if TYPE_CHECKING:
    from tilegen.backends.calls.engine import Launcher, Run
    from tilegen.lowering import Launch

# A simulator that checks every access is a platform too, and a thousand times slower: only by name.
SIMULATOR = "Oclgrind"
# Optimising a large unrolled kernel takes PoCL minutes, and buys a time that means nothing for a GPU.
_OPTIONS = ["-cl-std=CL1.2", "-cl-opt-disable"]
POCL = "Portable Computing Language"
_one_at_a_time = Lock()  # of the threads: what PoCL needs is in the environment before it begins


def way_out() -> str | None:
    """What installs an OpenCL platform for the CPU; None where no package has one."""
    if not sys.platform.startswith("linux"):
        return None
    if machine() != "x86_64":  # for which PoCL has no package
        return f"{install('pyopencl')}, and install PoCL (Debian: apt install pocl-opencl-icd)"
    linker = "" if shutil.which("ld") else ", and install binutils (Debian: apt install binutils)"
    return install("pyopencl[pocl]") + linker


@cache
def unavailable_reason(platform: str | None = None) -> str | None:
    """Why no kernel can run by OpenCL here, or None where it can."""
    with _one_at_a_time:
        no_cache = pocl.choose_cache()
        try:
            device = _device(platform)
        except Exception as error:  # no pyopencl, no loader, no platform: a class of error for each
            return no_cache or f"no OpenCL platform was found ({first_line(error) or repr(error)})"
        if device is None:
            return no_cache or "no OpenCL platform was found"
        return pocl.unavailable_reason() if device.platform.name == POCL else None


def _device(platform: str | None) -> Any:
    """The first CPU device of the platforms, the simulator aside; or of the platform whose name is given."""
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")  # a file costs more than what is in it, where it can be written
    import pyopencl as cl

    for candidate in cl.get_platforms():
        if platform is None and candidate.name == SIMULATOR or platform not in (None, candidate.name):
            continue
        note_use(_short_name(candidate.name))
        for device in candidate.get_devices():
            if platform or device.type & cl.device_type.CPU:
                return device
    return None


def _short_name(platform: str) -> str:
    return "PoCL" if platform == POCL else platform


class _Entry(local):
    """A kernel, as an object for each thread: between two steps of a launch, it holds the arguments."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.kernel = make()


class OpenclEngine(HostArrays):
    """A CPU as an OpenCL device; kernels work on the memory of numpy arrays itself."""

    def __init__(self, platform: str | None = None) -> None:
        """`platform` by name ("Oclgrind"), or the first that is no simulator. Raises DeviceError."""
        if reason := unavailable_reason(platform):
            raise DeviceError(reason, notes=tuple(filter(None, (way_out(),))))
        import pyopencl as cl

        os.environ.setdefault("PYOPENCL_COMPILER_OUTPUT", "0")
        self._cl: Any = cl
        device = _device(platform)
        self._platform = _short_name(device.platform.name)
        if device.platform.name == POCL:
            pocl.name_processor(device.int_ptr)
        self.name = f"{self._platform} on {device.name.removeprefix('pthread-')}"
        self._context: Any = cl.Context([device])
        self._queue: Any = cl.CommandQueue(self._context)
        # The simulator takes memory that it has not written itself for uninitialised.
        self._copies = platform == SIMULATOR

    def is_current(self) -> bool:
        """Raises DeviceError in a process that was forked when the platform was in use."""
        require_kept(self._platform)
        return True

    def use(self) -> AbstractContextManager[Any]:
        """Raises what `is_current` raises."""
        require_kept(self._platform)
        return nullcontext()

    # -- kernels

    def build(self, text: str, launches: Sequence[Launch]) -> Mapping[str, Any]:
        """Raises DeviceError where the compiler refuses the text, LimitError where PoCL has too little memory."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the compiler's remarks on a text that it accepts
                program = self._cl.Program(self._context, text).build(options=_OPTIONS)
        except self._cl.Error as error:
            raise _refusal(str(error), Source("kernel.cl", text), self.name) from None
        try:
            entries = {launch.name: _Entry(partial(self._cl.Kernel, program, launch.name)) for launch in launches}
        except self._cl.Error:
            way = f"a file of its cache may be damaged: remove {pocl.cache_folder()}"
            raise DeviceError(f"{self.name} does not find what it has compiled", notes=(way,)) from None
        if self._platform == _short_name(POCL):
            what, device = self._cl.kernel_work_group_info.LOCAL_MEM_SIZE, self._context.devices[0]
            for launch in launches:
                shared = entries[launch.name].kernel.get_work_group_info(what, device)
                pocl.require_room(launch, shared, device.local_mem_size)
        return entries

    def launcher(self, entry: Any, run: Run) -> Launcher:
        integer = np.int64 if run.wide else np.int32
        sizes = tuple(integer(size) for size in run.sizes)
        x, *others = run.grid
        grid = (min(run.dealt, self._context.devices[0].max_compute_units) if run.dealt else x, *others)
        threads = tuple(g * b for g, b in zip(grid, run.block, strict=True))

        def launch(memory: Sequence[Any], addresses: Sequence[int], scalars: Sequence[Any], stream: int) -> None:
            kernel = entry.kernel
            try:
                stored = [_storage_view(bits_of(memory[position])) for position in run.arrays]
                buffers = [self._buffer(array) for array in stored]
                kernel.set_args(*buffers, *(scalars[position] for position, _ in run.scalars), *sizes)
                self._cl.enqueue_nd_range_kernel(self._queue, kernel, threads, run.block)
                for array, buffer in zip(stored, buffers, strict=True):
                    if self._copies:
                        self._cl.enqueue_copy(self._queue, array, buffer)
                self._queue.finish()
            except self._cl.Error as error:
                raise DeviceError(f"{run.name} cannot be launched on {self.name}: {error}") from None

        return launch

    def _buffer(self, stored: Any) -> Any:
        kinds = self._cl.mem_flags
        access = kinds.READ_WRITE if stored.flags.writeable else kinds.READ_ONLY
        flags = access | (kinds.COPY_HOST_PTR if self._copies else kinds.USE_HOST_PTR)
        return self._cl.Buffer(self._context, flags, hostbuf=stored)

    def synchronize(self) -> None:
        self._queue.finish()


def _storage_view(array: Any) -> Any:
    """`array` as its memory lies there: in C order, whatever the order of its dimensions, with what is between rows."""
    stored = array.transpose(sorted(range(array.ndim), key=lambda d: -array.strides[d]))
    if stored.flags.c_contiguous:
        return stored
    count = span_of(array) // array.itemsize
    return np.lib.stride_tricks.as_strided(stored, (count,), (array.itemsize,), writeable=array.flags.writeable)


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
