"""The CUDA runtime: cupy compiles and launches, on the caller's stream, on arrays of cupy or torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tilegen.backends import gpus, nvrtc
from tilegen.backends.architectures import compiled_architecture, instructions_of, require_instructions
from tilegen.backends.arrays import as_stored, as_torch, bare, bits_of_torch
from tilegen.backends.early_launch import early_launch
from tilegen.backends.tensor_maps import encode
from tilegen.errors import ArgumentError, DeviceError
from tilegen.ir.nodes import Tensor

if TYPE_CHECKING:
    from tilegen.backends.engine import Run
    from tilegen.lowering import Launch

STATIC_SHARED_LIMIT = 48 * 1024


def unavailable_reason() -> str | None:
    """Why no kernel can run on a GPU here, or None where it can."""
    found = gpus.missing()
    return found.reason if found else None


class CudaEngine:
    """The current CUDA device."""

    language = "cuda"
    on_gpu = True

    def __init__(self) -> None:
        """Raises DeviceError where there is no GPU."""
        if reason := unavailable_reason():
            found = gpus.missing()
            way_out = [found.way_out] if found and found.way_out else []
            raise DeviceError(reason, notes=(*way_out, "--device cpu runs the same kernel on the CPU"))
        import cupy

        self.xp: Any = cupy
        properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
        self.name: str = properties["name"].decode()
        self.arch = f"sm_{properties['major']}{properties['minor']}"
        self.l2_bytes: int = properties["l2CacheSize"]

    # -- arrays

    def adopt(self, value: Any, tensor: Tensor) -> Any:
        """`value` as a cupy array on the same memory.

        Raises:
            ArgumentError: not an array, not on this GPU, or not of the tensor's dtype.
        """
        array = as_stored(tensor, self._as_cupy(value, tensor))
        here = self.xp.cuda.Device().id
        if array.device.id != here:
            notes = ("all arrays of a call lie on the current device",)
            raise ArgumentError(f"{tensor.name} is on GPU {array.device.id}, not on GPU {here}", notes=notes)
        return array

    def _as_cupy(self, value: Any, tensor: Tensor) -> Any:
        name = tensor.name
        if isinstance(value, self.xp.ndarray):
            return value
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            if not value.is_cuda:
                raise ArgumentError(f"{name} is on the CPU", notes=(f"{name}.cuda() moves it to the GPU",))
            value, kind = bits_of_torch(torch, bare(value, name), tensor)
            array = self.xp.from_dlpack(value)
            return array.view(kind) if kind else array
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
        """The cupy `array`, as a torch tensor if the first of what was given is one."""
        torch = sys.modules.get("torch")
        if torch is None or not given or not isinstance(given[0], torch.Tensor):
            return array
        return as_torch(torch, torch.from_dlpack, array, tensor.dtype)

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
        """The kernels of `text` by name, compiled for `arch`. Raises DeviceError where the text is refused."""
        if arch != self.arch:  # cupy compiles for the plain architecture of the device, and takes no other
            with TemporaryDirectory() as folder:
                file = Path(folder, "kernel.cubin")
                file.write_bytes(nvrtc.compile_text(text, arch).cubin)
                module = self.xp.RawModule(path=str(file))
                return {name: module.get_function(name) for name in names}
        module = self.xp.RawModule(code=text, options=nvrtc.options())
        try:
            return {name: module.get_function(name) for name in names}
        except self.xp.cuda.compiler.CompileException:
            nvrtc.compile_text(text, arch)  # says the same with the line of the text
            raise

    def _allow_shared(self, entry: Any, launch: Launch) -> None:
        try:
            entry.max_dynamic_shared_size_bytes = launch.shared_bytes
        except self.xp.cuda.driver.CUDADriverError:
            limit = self.xp.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]
            message = f"{launch.name} needs {launch.shared_bytes} bytes of shared memory a block"
            raise DeviceError(f"{message}, and {self.name} has {limit}") from None

    def enqueue(self, entry: Any, run: Run) -> Callable[[], None]:
        import numpy

        integer = numpy.int64 if run.wide else numpy.int32
        maps = [encode(each.map, self.pointer(each.array), each.sizes) for each in run.maps]
        arguments = (*run.arrays, *maps, *run.scalars, *(integer(size) for size in run.sizes))
        shared = run.shared_bytes if run.shared_bytes > STATIC_SHARED_LIMIT else 0
        if run.dependent:
            return self._enqueue_early(entry, run, shared, arguments)

        def launch() -> None:
            try:
                entry(run.grid, run.block, arguments, shared_mem=shared)
            except self.xp.cuda.driver.CUDADriverError as error:
                raise DeviceError(f"{run.name} cannot be launched on {self.name}: {error}") from None

        return launch

    def _enqueue_early(self, entry: Any, run: Run, shared: int, arguments: Sequence[Any]) -> Callable[[], None]:
        """The launch may begin while the one before it on the stream runs."""
        pointers = {id(each): self.pointer(each).to_bytes(8, "little") for each in run.arrays}
        packed = [pointers[id(each)] if id(each) in pointers else each.tobytes() for each in arguments]
        launch_on = early_launch(run.grid, run.block, shared, packed)
        function = entry.kernel.ptr

        def launch() -> None:
            error = launch_on(function, self.xp.cuda.get_current_stream().ptr)
            if error:
                raise DeviceError(f"{run.name} cannot be launched on {self.name}: {error}")

        return launch

    def synchronize(self) -> None:
        """Raises DeviceError where a kernel has failed: the GPU tells only when it is waited for."""
        try:
            self.xp.cuda.get_current_stream().synchronize()
        except self.xp.cuda.runtime.CUDARuntimeError as error:
            raise DeviceError(f"a kernel failed on {self.name}: {error}") from None

    def capture(self, calls: Sequence[Callable[[], None]]) -> Callable[[], None]:
        """The calls as one CUDA graph; the call replays it on the current stream.

        Where torch is loaded the graph is torch's, which keeps the memory of torch's calls.

        Raises:
            DeviceError: a call does what no graph can hold.
        """
        torch = sys.modules.get("torch")
        try:
            if torch is not None and torch.cuda.is_available():
                return self._capture_with_torch(torch, calls)
            with self.xp.cuda.Stream(non_blocking=True) as stream:
                stream.begin_capture()
                for call in calls:
                    call()
                graph = stream.end_capture()
        except (RuntimeError, self.xp.cuda.runtime.CUDARuntimeError) as error:
            raise DeviceError(f"no CUDA graph can be made on {self.name}: {error}") from None

        def replay() -> None:
            graph.launch()

        return replay

    def _capture_with_torch(self, torch: Any, calls: Sequence[Callable[[], None]]) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        # What a library allocates or loads at its first call is no part of the graph, and no error.
        inside = torch.cuda.graph(graph, capture_error_mode="relaxed")
        with inside, self.xp.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            for call in calls:
                call()
        replay: Callable[[], None] = graph.replay
        return replay

    def time(self, calls: Sequence[Callable[[], None]], behind: Sequence[Callable[[], None]] = ()) -> float:
        """Milliseconds between two CUDA events around the calls; those of `behind` run before the first event."""
        start, end = self.xp.cuda.Event(), self.xp.cuda.Event()
        for call in behind:
            call()
        start.record()
        for call in calls:
            call()
        end.record()
        end.synchronize()
        return float(self.xp.cuda.get_elapsed_time(start, end))

    def stream(self, arrays: Sequence[Any]) -> AbstractContextManager[Any]:
        """torch's current stream where an array is torch's; else cupy's current stream, which is in force."""
        torch = sys.modules.get("torch")
        if torch is None or not any(isinstance(a, torch.Tensor) for a in arrays):
            return nullcontext()
        context: AbstractContextManager[Any] = self.xp.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
        return context
