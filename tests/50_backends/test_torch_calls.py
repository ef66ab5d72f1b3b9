"""Calls with tensors of torch, by a stand-in for what they ask of torch: memory, streams, devices, refusals."""

import runpy
import sys
from pathlib import Path
from struct import unpack
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import tilegen
from tests.support.driver import Card, Driver, cupy_array
from tilegen.backends.calls.device_program import Program
from tilegen.backends.devices.cuda import CudaEngine
from tilegen.backends.devices.cuda_arrays import CupyCaller, caller_of
from tilegen.errors import ArgumentError, DeviceError

COPY = """
kernel copy(A: {0}[M, N]) -> C: {0}[M, N]{1}:
    C[i, j] = A[i, j]
schedule rows for copy():
    bind(i, block.x)
kernel half(A: f32[M, M]) -> C: f32[M, M]:
    C[i, j] = A[i, j] for j <= i
schedule lower for half():
    bind(i, block.x)
"""


class Tensor:
    """As much of a torch tensor as a call asks for. Those that are made lie at 2**44 and behind."""

    made = 0

    def __init__(self, shape, dtype="torch.float32", device=0, address=2**40, stride=None, **more):
        self.shape, self.dtype, self._device, self._address = shape, dtype, device, address
        rows = np.cumprod((1, *shape[:0:-1]))[::-1] if len(shape) else ()
        self._stride = stride or tuple(map(int, rows))
        self.requires_grad, self.layout, self.is_cuda, self.zeroed = False, "strided", device >= 0, False
        self.__dict__.update(more)

    def data_ptr(self):
        return self._address

    def stride(self):
        if self.layout != "strided":
            raise RuntimeError("sparse tensors do not have strides")
        return self._stride

    def get_device(self):
        return self._device

    def is_neg(self):
        return False

    def numel(self):
        return int(np.prod(self.shape))

    def detach(self):
        return self

    def view(self, dtype):
        return Tensor(self.shape, dtype, self._device, self._address, self._stride)

    def zero_(self):
        self.zeroed = True
        return self


def make(shape, *, dtype, device, stride=None):
    Tensor.made += 1
    return Tensor(shape, dtype, device, 2**44 + 2**20 * Tensor.made, stride)


@pytest.fixture
def torch(monkeypatch):
    found = ModuleType("torch")
    for word in ("float32", "bfloat16", "int16", "uint8", "int32"):
        setattr(found, word, f"torch.{word}")
    found.Tensor, found.strided, found.empty, found.empty_strided = Tensor, "strided", make, make
    found.is_grad_enabled = lambda: True
    found.device = lambda kind, ordinal: ordinal
    found._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 6000 + device)
    monkeypatch.setitem(sys.modules, "torch", found)
    monkeypatch.setattr(Card, "caller", lambda self, arrays: caller_of(self.xp, arrays, self.ordinal))
    monkeypatch.setattr(Card, "current", 0)
    return found


def copies(monkeypatch, dtype="f32", order="", schedule="rows"):
    driver = Driver(monkeypatch)
    return Program(tilegen.load(COPY.format(dtype, order)).schedule(schedule).tree, Card()), driver


def pointers(launch):
    return {unpack("=Q", argument)[0] for argument in launch["arguments"][:2]}


@pytest.mark.parametrize(("dtype", "word"), [("f32", "float32"), ("bf16", "bfloat16"), ("i32", "int32")])
def test_outputs_are_torch_s_and_launches_are_on_its_stream(torch, monkeypatch, dtype, word):
    copy, driver = copies(monkeypatch, dtype)
    for device in (0, 1, 0):
        a = Tensor((4, 8), f"torch.{word}", device)
        c = copy(a)
        assert (c.shape, c.dtype, c.get_device()) == ((4, 8), f"torch.{word}", device)
        launch = driver.launches[-1]
        assert (launch["stream"], launch["function"]) == (6000 + device, 7000 + device)
        assert pointers(launch) == {2**40, c.data_ptr()}
    assert Card.current == 0
    assert copy.engine.builds == copy.engine.at(1).builds == ["copy"]


def test_outputs_lie_in_the_order_of_the_kernel(torch, monkeypatch):
    copy, _ = copies(monkeypatch, "f32", " col_major")
    assert copy(Tensor((4, 8))).stride() == (1, 4)
    half, _ = copies(monkeypatch, schedule="lower")
    assert half(Tensor((4, 4))).zeroed
    assert not copy(Tensor((4, 8))).zeroed


def test_torch_is_what_one_of_the_arrays_is_of(torch, monkeypatch):
    copy, driver = copies(monkeypatch)
    c = Tensor((4, 8), address=2**41)
    assert copy(cupy_array((4, 8)), C=c) is c
    assert driver.launches[-1]["stream"] == 6000
    run = copy.prepare(Tensor((4, 8)))
    assert run() is run.outputs
    assert pointers(driver.launches[-1]) == {2**40, run.outputs.data_ptr()}


def test_torch_s_public_call_serves_where_the_other_is_missing(torch, monkeypatch):
    torch._C = SimpleNamespace()
    torch.cuda = SimpleNamespace(current_stream=lambda device: SimpleNamespace(cuda_stream=7000 + device))
    copy, driver = copies(monkeypatch)
    copy(Tensor((4, 8), device=1))
    assert driver.launches[-1]["stream"] == 7001


def test_wrong_tensors_are_refused_after_right_ones(torch, monkeypatch):
    copy, driver = copies(monkeypatch)
    right = Tensor((4, 8))
    for wrong, message in [
        (Tensor((4, 8), "torch.int32"), "A is int32, and the kernel takes f32"),
        (Tensor((4, 8), "torch.bfloat16"), "A is bfloat16, and the kernel takes f32"),
        (Tensor((4, 8), "torch.quint8"), "A is quint8, and the kernel takes f32"),
        (Tensor((4, 8), device=-1), "A is on the CPU"),
        (Tensor((4, 8), stride=(16, 2)), "A is not contiguous row-major"),
        (Tensor((4, 8), layout="sparse"), "A is sparse, and the kernel takes dense arrays"),
        (Tensor((4, 8), is_neg=lambda: True), "A is negated where it is read"),
        (Tensor((4, 8), requires_grad=True), "A requires a gradient"),
        (Tensor((8,)), "A has 1 dimensions"),
    ]:
        copy(right)
        for call in (copy, copy.prepare):
            with pytest.raises(ArgumentError, match=message):
                call(wrong)
    assert len(driver.launches) == 9
    with pytest.raises(ArgumentError, match="C is on GPU 1, and A on GPU 0"):
        copy(right, C=Tensor((4, 8), device=1))


def test_too_little_memory_is_said(torch, monkeypatch):
    class OutOfMemoryError(RuntimeError):
        pass

    def fail(*shape, **how):
        raise OutOfMemoryError

    torch.cuda, torch.empty = SimpleNamespace(OutOfMemoryError=OutOfMemoryError), fail
    copy, _ = copies(monkeypatch)
    with pytest.raises(DeviceError, match="the output C needs 128 bytes of memory, and that much is not free"):
        copy(Tensor((4, 8)))


def test_cupy_s_graphs_keep_no_memory_by_themselves(monkeypatch):
    """Between two launches: what a graph writes to later must not be given to others."""
    cupy = pytest.importorskip("cupy")
    captured = []
    runtime = SimpleNamespace(streamIsCapturing=lambda stream: stream in captured)
    caller = CupyCaller(SimpleNamespace(cuda=SimpleNamespace(runtime=runtime), dtype=cupy.dtype))
    assert not caller.loses_captured(5000)
    captured += [0, 1, 2, 5000]
    assert [stream for stream in (0, 1, 2, 5000, 6000) if caller.loses_captured(stream)] == [5000]


def test_a_kernel_that_the_driver_does_not_load(monkeypatch):
    class CUDADriverError(RuntimeError):
        pass

    def module(path):
        raise CUDADriverError("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED")

    monkeypatch.setattr(
        "tilegen.backends.devices.cuda.nvrtc.compile_text", lambda text, arch: SimpleNamespace(cubin=b"")
    )
    engine = object.__new__(CudaEngine)
    engine.name = "a card"
    engine.xp = SimpleNamespace(
        RawModule=module, cuda=SimpleNamespace(driver=SimpleNamespace(CUDADriverError=CUDADriverError))
    )
    with pytest.raises(DeviceError) as caught:
        engine.load("", ["f"], "sm_90")
    assert caught.value.render().splitlines() == [
        "error: the kernel does not load on a card: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        "  note: nothing loads while a graph is captured: a call before that does it",
    ]


@pytest.mark.parametrize("name", ["rows", "convolutions", "gemm_shapes", "epilogues"])
def test_examples_say_that_they_need_torch(monkeypatch, name):
    examples = Path(__file__).parents[2] / "examples"
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.syspath_prepend(examples)  # as python does for a script
    with pytest.raises(SystemExit, match="torch is needed, and a GPU"):
        runpy.run_path(str(examples / f"{name}.py"), run_name="__main__")
