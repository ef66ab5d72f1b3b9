"""The CUDA runtime: cupy compiles and launches, on the caller's stream, on arrays of cupy or torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cache, partial
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Any

from tilegen.backends.calls.arrays import check_type, number_type
from tilegen.backends.calls.kernel_launch import KernelLaunch, blocks_at_once
from tilegen.backends.compiler import nvrtc
from tilegen.backends.compiler.architectures import compiled_architecture, instructions_of, require_instructions
from tilegen.backends.devices.cuda_arrays import caller_of, read_facts, view_tensor
from tilegen.backends.system import gpus
from tilegen.backends.system.forks import require_kept
from tilegen.backends.text import STATIC_SHARED_LIMIT
from tilegen.errors import ArgumentError, DeviceError
from tilegen.ir.nodes import Tensor

if TYPE_CHECKING:
    from tilegen.backends.calls.engine import Caller, Launcher, Run
    from tilegen.lowering import Launch


def unavailable_reason() -> str | None:
    """Why no kernel can run on a GPU here, or None where it can."""
    found = gpus.missing()
    return found.reason if found else None


class CudaEngine:
    """A CUDA device: the one of a number, or the current one. `ordinal` is its number."""

    language = "cuda"
    on_gpu = True

    def __init__(self, ordinal: int | None = None) -> None:
        """Raises DeviceError where there is no GPU."""
        if reason := unavailable_reason():
            found = gpus.missing()
            way_out = [found.way_out] if found and found.way_out else []
            raise DeviceError(reason, notes=(*way_out, "--device cpu runs the same kernel on the CPU"))
        import cupy

        require_kept(gpus.A_GPU)
        self.xp: Any = cupy
        self.ordinal: int = cupy.cuda.runtime.getDevice() if ordinal is None else ordinal
        self._array: Any = cupy.ndarray
        self._current_ordinal: Callable[[], int] = cupy.cuda.runtime.getDevice
        properties = cupy.cuda.runtime.getDeviceProperties(self.ordinal)
        self.name: str = properties["name"].decode()
        self.arch = f"sm_{properties['major']}{properties['minor']}"
        self.l2_bytes: int = properties["l2CacheSize"]

    # -- arrays

    def adopt(self, value: Any, tensor: Tensor) -> Any:
        """`value` as a cupy array on the same memory.

        Raises:
            ArgumentError: not an array, not on a GPU, or not of the tensor's dtype.
        """
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            return view_tensor(self.xp, torch, value, tensor)
        return check_type(tensor, self._as_cupy(value, tensor), number_type(tensor.dtype, cupy=True))

    def _as_cupy(self, value: Any, tensor: Tensor) -> Any:
        name = tensor.name
        if isinstance(value, self.xp.ndarray):
            return value
        if hasattr(value, "__cuda_array_interface__"):
            return self.xp.asarray(value)
        if hasattr(value, "__array_interface__"):
            raise ArgumentError(f"{name} is on the CPU", notes=(f"cupy.asarray({name}) moves it to the GPU",))
        if not hasattr(value, "__dlpack__"):
            raise ArgumentError(f"{name} is a {type(value).__name__}, not an array")
        try:
            return self.xp.from_dlpack(value)
        except Exception as error:  # each library fails in its own way to hand out CPU memory as GPU memory
            raise ArgumentError(f"{name} cannot be used on the GPU: {error}") from None

    def give_back(self, array: Any, tensor: Tensor, given: Sequence[Any]) -> Any:
        """The output as it is: made by cupy or torch, and other libraries take it from there."""
        return array

    def facts(self, arrays: Sequence[Any]) -> tuple[Hashable, list[int]] | None:
        return read_facts(self._array, arrays)

    def device_of(self, arrays: Mapping[str, Any]) -> CudaEngine:
        ordinals = {name: array.data.device_id for name, array in arrays.items()}
        if not ordinals:
            return self.at(self.xp.cuda.runtime.getDevice())
        first, ordinal = next(iter(ordinals.items()))
        for name, other in ordinals.items():
            if other != ordinal:
                notes = ("all arrays of a call lie on one device",)
                raise ArgumentError(f"{name} is on GPU {other}, and {first} on GPU {ordinal}", notes=notes)
        return self.at(ordinal)

    def at(self, ordinal: int) -> CudaEngine:
        """The engine of the device of this number."""
        return self if ordinal == self.ordinal else engine_at(ordinal)

    def caller(self, arrays: Sequence[Any]) -> Caller:
        return caller_of(self.xp, arrays, self.ordinal)

    def is_current(self) -> bool:
        """Raises DeviceError in a process that was forked when a GPU was in use."""
        require_kept(gpus.A_GPU)
        current: bool = self._current_ordinal() == self.ordinal
        return current

    def use(self) -> AbstractContextManager[Any]:
        """Raises what `is_current` raises."""
        require_kept(gpus.A_GPU)
        device: AbstractContextManager[Any] = self.xp.cuda.Device(self.ordinal)
        return device

    def free_bytes(self) -> int | None:
        free, _ = self.xp.cuda.runtime.memGetInfo()
        return int(free) + int(self.xp.get_default_memory_pool().free_bytes())

    def pointer(self, array: Any) -> int:
        return int(array.data.ptr)

    # -- kernels

    def build(self, text: str, launches: Sequence[Launch]) -> Mapping[str, Any]:
        """Raises DeviceError where the device lacks an instruction or shared memory, or where the text is refused."""
        arch = compiled_architecture(instructions_of(launches), self.arch)
        require_instructions(launches, arch, self.name)
        entries = self.load(text, [launch.name for launch in launches], arch)
        for launch in launches:
            if launch.shared_bytes > STATIC_SHARED_LIMIT:
                self._allow_shared(entries[launch.name], launch)
        return entries

    def load(self, text: str, names: Sequence[str], arch: str) -> Mapping[str, Any]:
        """The kernels of `text` by name, compiled for `arch`. Raises DeviceError where they are refused."""
        with TemporaryDirectory() as folder:
            file = Path(folder, "kernel.cubin")
            file.write_bytes(self.compile(text, arch))
            try:
                module = self.xp.RawModule(path=str(file))
                return {name: module.get_function(name) for name in names}
            except self.xp.cuda.driver.CUDADriverError as error:
                notes = ("nothing loads while a graph is captured: a call before that does it",)
                raise DeviceError(f"the kernel does not load on {self.name}: {error}", notes=notes) from None

    def compile(self, text: str, arch: str) -> bytes:
        """The machine code of `text`. Raises DeviceError where it is refused."""
        return nvrtc.compile_text(text, arch).cubin

    def _allow_shared(self, entry: Any, launch: Launch) -> None:
        try:
            entry.max_dynamic_shared_size_bytes = launch.shared_bytes
        except self.xp.cuda.driver.CUDADriverError:
            limit = self.xp.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]
            message = f"{launch.name} needs {launch.shared_bytes} bytes of shared memory a block"
            raise DeviceError(f"{message}, and {self.name} has {limit}") from None

    def launcher(self, entry: Any, run: Run) -> Launcher:
        shared = run.shared_bytes if run.shared_bytes > STATIC_SHARED_LIMIT else 0
        if run.dealt:
            run = replace(run, grid=self._dealt_grid(entry, run, shared))
        return KernelLaunch(entry, run, shared, self.name, self.xp.cuda.Device(self.ordinal).use)

    def _dealt_grid(self, entry: Any, run: Run, shared: int) -> tuple[int, int, int]:
        """As many blocks as run at once, those of a cluster along y and z, and no more than the run has."""
        _, y, z = run.grid
        resident = blocks_at_once(entry, prod(run.block), shared)
        blocks = resident * self.xp.cuda.Device(self.ordinal).attributes["MultiProcessorCount"]
        return min(run.dealt, max(1, blocks // (y * z))), y, z

    def synchronize(self) -> None:
        """Raises DeviceError where a kernel has failed: the GPU tells only when it is waited for."""
        with _device_errors(self.name):
            self.xp.cuda.get_current_stream().synchronize()

    def run_profiled(self, call: Callable[[], None]) -> None:
        """Runs `call` alone under a profiler that waits for a signal to begin. Raises what `synchronize` raises."""
        self.synchronize()
        self.xp.cuda.profiler.start()
        call()
        self.synchronize()
        self.xp.cuda.profiler.stop()

    def capture(self, calls: Sequence[Callable[[], None]]) -> Callable[[], None]:
        """The calls as one CUDA graph. The call replays it on the current stream of its device, and keeps their memory.

        Where torch is loaded the graph is torch's, which keeps what torch allocates while it is captured.

        Raises:
            DeviceError: a call does what no graph can hold.
        """
        torch = sys.modules.get("torch")
        try:
            with self.use():
                if torch is not None and torch.cuda.is_available():
                    launch = self._capture_with_torch(torch, calls)
                else:
                    launch = self._capture_alone(calls)
        except RuntimeError as error:  # cupy's are such, too
            raise DeviceError(f"no CUDA graph can be made on {self.name}: {error}") from None
        return partial(_replay, launch, self, tuple(calls), Lock())

    def _capture_alone(self, calls: Sequence[Callable[[], None]]) -> Callable[[], None]:
        with self.xp.cuda.Stream(non_blocking=True) as stream:
            stream.begin_capture()
            for call in calls:
                call()
            launch: Callable[[], None] = stream.end_capture().launch
        return launch

    def _capture_with_torch(self, torch: Any, calls: Sequence[Callable[[], None]]) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        # Torch's own stream for this lies on the GPU of the first graph in the process.
        stream = torch.cuda.Stream(self.ordinal)
        # What a library allocates or loads at its first call is no part of the graph, and no error.
        inside = torch.cuda.graph(graph, stream=stream, capture_error_mode="relaxed")
        with inside, self.xp.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            for call in calls:
                call()
        replay: Callable[[], None] = graph.replay
        return replay

    def time(self, calls: Sequence[Callable[[], None]], behind: Sequence[Callable[[], None]] = ()) -> float:
        """Milliseconds between two CUDA events around the calls; those of `behind` run before the first event.

        Raises:
            DeviceError: a kernel has failed.
        """
        with _device_errors(self.name):
            start, end = self.xp.cuda.Event(), self.xp.cuda.Event()
        for call in behind:
            call()
        with _device_errors(self.name):
            start.record()
        for call in calls:
            call()
        with _device_errors(self.name):
            end.record()
            end.synchronize()
            return float(self.xp.cuda.get_elapsed_time(start, end))


@contextmanager
def _device_errors(device: str) -> Iterator[None]:
    """Raises DeviceError for an error of cupy or torch: a GPU tells at a later call that a kernel has failed."""
    try:
        yield
    except RuntimeError as error:
        raise DeviceError(f"a kernel failed on {device}: {error}") from None


def _replay(
    launch: Callable[[], None], engine: CudaEngine, calls: Sequence[Callable[[], None]], one_at_a_time: Lock
) -> None:
    """Launches a graph of `calls` on its device: a call that holds them holds the memory that the graph reads.

    CUDA takes a graph of one thread at a time.
    """
    with one_at_a_time, engine.use(), _device_errors(engine.name):
        launch()


@cache
def engine_at(ordinal: int) -> CudaEngine:
    """The device of this number; one engine each."""
    return CudaEngine(ordinal)
