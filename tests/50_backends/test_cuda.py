"""The CUDA runtime on a GPU: arrays of cupy and torch, streams, refusals."""

from contextlib import nullcontext
from threading import Lock
from types import SimpleNamespace

import numpy as np
import pytest

import tilegen
from tilegen.backends.devices import cuda
from tilegen.errors import ArgumentError, DeviceError


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "unavailable_reason", lambda: "no GPU was found")
    with pytest.raises(DeviceError, match="no GPU was found"):
        cuda.CudaEngine()


class Fault(RuntimeError):
    """As cupy and torch tell of a kernel that has read what it may not."""


def engine_that_fails_at(place: str) -> cuda.CudaEngine:
    """An engine on a cupy whose calls do nothing, but the one named `place` fails."""

    def call(name: str) -> None:
        if name == place:
            raise Fault("cudaErrorIllegalAddress: an illegal memory access was encountered")

    def event() -> SimpleNamespace:
        call("Event")
        return SimpleNamespace(record=lambda: call("record"), synchronize=lambda: call("synchronize"))

    stream = SimpleNamespace(synchronize=lambda: call("stream"))
    times = {"Event": event, "get_elapsed_time": lambda start, end: 1.0}
    found = object.__new__(cuda.CudaEngine)
    found.name = "NVIDIA H200"
    found.xp = SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda: stream, **times))
    return found


@pytest.mark.parametrize("place", ["Event", "record", "synchronize"])
def test_a_fault_of_a_kernel_that_is_timed_is_told(place: str) -> None:
    with pytest.raises(DeviceError, match="a kernel failed on NVIDIA H200: cudaErrorIllegalAddress"):
        engine_that_fails_at(place).time([lambda: None])


def test_a_fault_that_a_graph_meets_is_told() -> None:
    def launch() -> None:
        raise Fault("cudaErrorIllegalAddress")

    with pytest.raises(DeviceError, match="a kernel failed on NVIDIA H200: cudaErrorIllegalAddress"):
        cuda._replay(launch, SimpleNamespace(use=nullcontext, name="NVIDIA H200"), (), Lock())


def test_what_a_call_refuses_is_its_own_error() -> None:
    def refuse() -> None:
        raise Fault("shapes do not fit")

    with pytest.raises(Fault):
        engine_that_fails_at("").time([refuse])
    with pytest.raises(DeviceError):
        engine_that_fails_at("stream").synchronize()


@pytest.fixture
def arrays():
    import cupy

    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((37, 50), dtype=np.float32), rng.standard_normal((50, 41), dtype=np.float32)
    return cupy.asarray(a), cupy.asarray(b), a.astype(np.float64) @ b


@pytest.fixture
def multiply():
    return tilegen.load("gemm").schedule("tiled").compile("cuda")


@pytest.mark.gpu
def test_a_call_makes_its_output(arrays, multiply) -> None:
    a, b, expected = arrays
    np.testing.assert_allclose(multiply(a, b).get(), expected, atol=1e-4)


@pytest.mark.gpu
def test_a_call_writes_into_an_output_that_is_given(arrays, multiply) -> None:
    import cupy

    a, b, expected = arrays
    c = cupy.full((37, 41), 7, np.float32)
    assert multiply(a, b, C=c) is c
    np.testing.assert_allclose(c.get(), expected, atol=1e-4)


@pytest.mark.gpu
def test_it_runs_on_the_caller_s_stream(arrays, multiply) -> None:
    import cupy

    a, b, expected = arrays
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        c = multiply(a, b)
    stream.synchronize()
    np.testing.assert_allclose(c.get(), expected, atol=1e-4)


@pytest.mark.gpu
def test_torch_in_torch_out(arrays, multiply) -> None:
    torch = pytest.importorskip("torch")
    a, b, expected = arrays
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        c = multiply(torch.as_tensor(a.get(), device="cuda"), torch.as_tensor(b.get(), device="cuda"))
    stream.synchronize()
    assert isinstance(c, torch.Tensor)
    np.testing.assert_allclose(c.cpu().numpy(), expected, atol=1e-4)
    with pytest.raises(ArgumentError, match="A is on the CPU"):
        multiply(torch.zeros(3, 4), torch.zeros(4, 5))


@pytest.mark.gpu
def test_torch_s_bfloat16_goes_through() -> None:
    torch = pytest.importorskip("torch")
    text = "kernel twice(A: bf16[N]) -> B: bf16[N]:\n    B[i] = A[i] + A[i]\n"
    scheduled = tilegen.load(text).kernel().schedule().tile("i", 32, into=("b", "t"))
    program = scheduled.bind("b", "block.x").bind("t", "thread.x").compile("cuda")
    a = torch.randn(100, device="cuda", dtype=torch.bfloat16)
    b = program(a)
    assert b.dtype == torch.bfloat16
    assert torch.equal(b, a + a)


@pytest.mark.gpu
def test_what_does_not_fit_is_refused(arrays, multiply) -> None:
    a, b, _ = arrays
    for wrong, message in [
        ((a.astype(np.float64), b), "A is float64, and the kernel takes f32"),
        ((a.get(), b), "A is on the CPU"),
        ((a, b.T.copy().T), "B is not contiguous row-major"),
        ((a, b[:-1].copy()), "B has shape"),
        ((a,), "needs the array B"),
        ((a, b, a), "takes 2 arrays, and 3 are given"),
        ((a, "b"), "B is a str, not an array"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            multiply(*wrong)
    square = a[:37, :37].copy()
    with pytest.raises(ArgumentError, match="C and A share memory"):
        multiply(square, square.copy(), C=square)


@pytest.mark.gpu
def test_a_misaligned_array_gets_the_scalar_version() -> None:
    import cupy

    add = tilegen.load("vector_add").schedule("vector").compile("cuda")
    base = cupy.arange(1025, dtype=np.float32)
    a, b = base[1:], cupy.ones(1024, np.float32)
    np.testing.assert_array_equal(add(a, b).get(), base.get()[1:] + 1)


@pytest.mark.gpu
def test_more_shared_memory_than_is_static() -> None:
    import cupy

    program = tilegen.load("gemm").schedule("registers", TK=64).compile("cuda")
    assert program.launches()[0].shared_bytes > 48 * 1024
    a, b = cupy.ones((100, 130), np.float32), cupy.ones((130, 70), np.float32)
    assert (program(a, b) == 130).all()
